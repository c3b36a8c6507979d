/* SPDX-License-Identifier: Apache-2.0
 *
 * A hostile peer of a line-based JSON-RPC connection. The first byte says in which pieces the
 * rest arrives. The lines must be those of the whole input. Our side must send nothing but JSON,
 * end each call exactly once, and leave nothing behind.
 */
#include <stdint.h>
#include <string.h>

#include "json/lines.h"
#include "json/rpc-peer.h"

#define MAX_LINE 512
#define N_CALLS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    IpbRpcPeer *peer;
    unsigned told[N_CALLS];
    unsigned n_messages;
    IpbRpcRequest *kept;
} State;

typedef struct {
    State *state;
    int index;
} Call;

static void
on_send(const IpbRpcMessage *message, void *data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(message->text, message->size, &IPB_JSON_LIMITS_MESSAGE, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(ipb_json_get_string(ipb_json_root(doc), "jsonrpc"), ==, "2.0");
    g_assert_null(memchr(message->text, '\n', message->size));
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Call *call = data;
    g_assert_cmpint(
        (answer->result != NULL) + (answer->rpc_error != NULL) + (answer->failure != NULL), ==, 1);
    call->state->told[call->index]++;
}

/* In turn: answered, refused, kept, dropped, forgotten. */
static void
on_request(IpbRpcRequest *request, void *data)
{
    State *state = data;
    IpbSpan params = ipb_json_raw(ipb_rpc_request_params(request));
    switch (state->n_messages++ % 5) {
    case 0:
        ipb_rpc_request_reply(request, params.start != NULL ? params.start : "1",
                              params.start != NULL ? params.size : 1);
        break;
    case 1:
        ipb_rpc_request_fail(request, 1, ipb_rpc_request_method(request), NULL);
        break;
    case 2:
        ipb_rpc_request_unref(state->kept);
        state->kept = ipb_rpc_request_ref(request);
        break;
    case 3:
        ipb_rpc_request_drop(request);
        break;
    default:
        break;
    }
}

static void
on_notification(const char *method, const IpbJson *params, void *data)
{
    State *state = data;
    if (g_str_equal(method, "free"))
        g_clear_pointer(&state->peer, ipb_rpc_peer_free);
    else if (g_str_equal(method, "cancel"))
        ipb_rpc_peer_cancel_call(state->peer, 1);
}

static void
on_invalid(const GError *why, const char *text, size_t size, void *data)
{
    g_assert_nonnull(why);
}

/* Takes the available lines: each must be the next of @text, from @at on. */
static void
take_lines(IpbLineReader *reader, State *state, const char *text, size_t size, size_t *at)
{
    const char *line;
    size_t line_size;
    while (ipb_line_reader_next(reader, &line, &line_size)) {
        const char *newline = memchr(text + *at, '\n', size - *at);
        g_assert_nonnull(newline);
        size_t expected = (size_t) (newline - (text + *at));
        g_assert_cmpuint(line_size, <=, MAX_LINE);
        if (expected != line_size) {
            g_assert_cmpuint(expected, ==, line_size + 1);
            g_assert_cmpint(newline[-1], ==, '\r');
        }
        g_assert_cmpmem(line, line_size, text + *at, line_size);
        *at += expected + 1;
        if (state->peer != NULL)
            ipb_rpc_peer_receive(state->peer, line, line_size);
    }
}

static void
feed(State *state, unsigned cut, const char *text, size_t size)
{
    IpbLineReader reader;
    ipb_line_reader_init(&reader, MAX_LINE);
    size_t pushed = 0, at = 0;
    for (unsigned i = cut; pushed < size; i = i * 5 + 3) {
        size_t piece = MIN(size - pushed, cut == 0 ? size : 1 + i % (cut * 2));
        if (!ipb_line_reader_push(&reader, text + pushed, piece, NULL))
            break;
        pushed += piece;
        take_lines(&reader, state, text, size, &at);
    }
    const char *rest;
    size_t rest_size;
    if (ipb_line_reader_rest(&reader, &rest, &rest_size))
        g_assert_cmpmem(rest, rest_size, text + at, pushed - at);
    else
        g_assert_cmpuint(at, ==, pushed);
    ipb_line_reader_clear(&reader);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const IpbRpcPeerFuncs funcs = {on_send, on_request, on_notification, on_invalid, NULL};
    if (size == 0)
        return 0;
    static IpbLoop *loop; /* creating one for each input would take most of the time */
    if (loop == NULL)
        loop = ipb_loop_new(NULL, NULL);
    State state = {0};
    IpbRpcPeerOptions options = {IPB_JSON_LIMITS_SMALL, data[0] & 1};
    state.peer = ipb_rpc_peer_new(loop, &options, &funcs, &state);
    Call calls[N_CALLS];
    for (int i = 0; i < N_CALLS; i++) {
        calls[i] = (Call){&state, i};
        ipb_rpc_peer_call(state.peer, "method", "{\"a\":[1]}", i == 1 ? 60000 : 0, on_answer,
                          &calls[i]);
    }
    feed(&state, data[0] >> 1, (const char *) data + 1, size - 1);
    ipb_rpc_peer_free(state.peer);
    ipb_rpc_request_unref(state.kept);
    for (int i = 0; i < N_CALLS; i++)
        g_assert_cmpuint(state.told[i], ==, 1);
    g_assert_false(g_main_context_pending(NULL));
    return 0;
}
