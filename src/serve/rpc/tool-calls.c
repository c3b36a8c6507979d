/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the client's tools; see the header.
 */
#include "serve/rpc/tool-calls.h"

#include <string.h>

#include "base/error.h"

struct IpbRpcToolCalls {
    IpbRpcClient *client;
    IpbSession *session;
    const char *session_id;
    GPtrArray *open; /* Call, the oldest first; borrowed */
    bool holds;
};

typedef struct {
    IpbRpcToolCalls *calls; /* NULL: its answer is ignored */
    uint64_t id;
    char *params;    /* of a call that is held; NULL: it was sent */
    int64_t request; /* of the client, if it was sent */
} Call;

IpbRpcToolCalls *
ipb_rpc_tool_calls_new(IpbRpcClient *client, IpbSession *session, const char *session_id)
{
    IpbRpcToolCalls *calls = g_new0(IpbRpcToolCalls, 1);
    calls->client = client;
    calls->session = session;
    calls->session_id = session_id;
    calls->open = g_ptr_array_new();
    return calls;
}

static void
free_call(Call *call)
{
    g_free(call->params);
    g_free(call);
}

/* --- the answer ------------------------------------------------------------------------------ */

static void
take_answer(const Call *call, const IpbRpcAnswer *answer)
{
    IpbSession *session = call->calls->session;
    if (answer->result != NULL) {
        ipb_session_answer_tool(session, call->id, answer->result, answer->document, NULL);
        return;
    }
    g_autoptr(GError) error = NULL;
    if (answer->rpc_error != NULL) {
        const char *message = ipb_json_get_string(answer->rpc_error, "message");
        error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
                                    message != NULL ? message : "it failed and does not say why");
    } else {
        error =
            g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
                        "the application's answer cannot be used: %s", answer->failure->message);
    }
    ipb_session_answer_tool(session, call->id, NULL, NULL, error);
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Call *call = data;
    if (call->calls != NULL) {
        g_ptr_array_remove(call->calls->open, call);
        take_answer(call, answer);
    }
    free_call(call);
}

/* --- the call -------------------------------------------------------------------------------- */

static char *
make_params(const IpbRpcToolCalls *calls, const IpbApplicationCall *call, const char *cell_request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", calls->session_id);
    if (cell_request != NULL) {
        ipb_json_key(writer, "request");
        ipb_json_write_raw(writer, cell_request, strlen(cell_request));
    }
    ipb_json_member_string(writer, "server_name", call->server_name);
    ipb_json_member_string(writer, "tool_name", call->tool_name);
    ipb_json_key(writer, "tool_args");
    ipb_json_write_raw(writer, call->arguments_json, call->arguments_size);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static void
send_call(Call *call)
{
    g_autofree char *params = g_steal_pointer(&call->params);
    call->request = ipb_rpc_peer_call(ipb_rpc_client_peer(call->calls->client), "tool.call", params,
                                      /* timeout_ms= */ 0, on_answer, call);
}

void
ipb_rpc_tool_calls_run(IpbRpcToolCalls *calls, const IpbApplicationCall *call,
                       const char *cell_request)
{
    Call *made = g_new0(Call, 1);
    made->calls = calls;
    made->id = call->id;
    made->params = make_params(calls, call, cell_request);
    g_ptr_array_add(calls->open, made);
    if (!calls->holds)
        send_call(made);
}

void
ipb_rpc_tool_calls_hold(IpbRpcToolCalls *calls, bool holds)
{
    calls->holds = holds;
    /* Sending may make the client congested again: then the rest is held. */
    for (guint i = 0; i < calls->open->len && !calls->holds; i++) {
        Call *call = g_ptr_array_index(calls->open, i);
        if (call->params != NULL)
            send_call(call);
    }
}

static void
notify_cancelled(IpbRpcClient *client, int64_t request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "id", request);
    ipb_json_end_object(writer);
    ipb_rpc_client_notify(client, "tool.cancelled", writer);
}

/* It is not in the list any more. */
static void
cancel(Call *call)
{
    IpbRpcClient *client = call->calls->client;
    call->calls = NULL;
    if (call->params != NULL) {
        free_call(call);
        return;
    }
    notify_cancelled(client, call->request);
    /* Frees the call, from the loop. */
    ipb_rpc_peer_cancel_call(ipb_rpc_client_peer(client), call->request);
}

void
ipb_rpc_tool_calls_cancel(IpbRpcToolCalls *calls, uint64_t id)
{
    for (guint i = 0; i < calls->open->len; i++) {
        Call *call = g_ptr_array_index(calls->open, i);
        if (call->id != id)
            continue;
        g_ptr_array_remove_index(calls->open, i);
        cancel(call);
        return;
    }
}

void
ipb_rpc_tool_calls_free(IpbRpcToolCalls *calls)
{
    if (calls == NULL)
        return;
    while (calls->open->len > 0)
        cancel(g_ptr_array_steal_index(calls->open, 0));
    g_ptr_array_unref(calls->open);
    g_free(calls);
}
