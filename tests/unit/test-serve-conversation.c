/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/conversation.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "base/fd.h"
#include "json/lines.h"
#include "serve/stdio-channel.h"

#define MIB (1024u * 1024)
#define ANSWER_SIZE MIB

typedef struct {
    IpbLoop *loop;
    IpbConversation *conversation;
    int in, out; /* the client's ends */
    IpbLineReader lines;
    /* The ids of requests, each followed by a blank */
    GString *begun;
    /* Notifications, likewise; "!" is an invalid message */
    GString *received;
    /* "+" and "-" */
    GString *congested;
    /* The results of our calls: "limit" … */
    GString *answered;
    char *answer;
    bool has_ended;
} Fixture;

static void
on_request(IpbRpcRequest *request, void *data)
{
    Fixture *fixture = data;
    g_string_append_printf(fixture->begun, "%s ", ipb_rpc_request_id(request));
    ipb_rpc_request_reply(request, fixture->answer, strlen(fixture->answer));
}

static void
on_notification(const char *method, const IpbJson *params, void *data)
{
    Fixture *fixture = data;
    if (g_str_equal(method, "drop"))
        g_assert_true(ipb_conversation_drop(fixture->conversation, "10"));
    g_string_append_printf(fixture->received, "%s ", method);
}

static void
on_invalid(const GError *why, void *data)
{
    Fixture *fixture = data;
    g_string_append(fixture->received, "! ");
}

static void
on_congested(bool is_congested, void *data)
{
    Fixture *fixture = data;
    g_string_append_c(fixture->congested, is_congested ? '+' : '-');
}

static void
on_end(const GError *why, void *data)
{
    Fixture *fixture = data;
    g_assert_no_error(why);
    fixture->has_ended = true;
}

static bool
takes_batches(void *data)
{
    return true;
}

static void
set_up(Fixture *fixture, const void *unused)
{
    static const IpbConversationFuncs FUNCS = {
        .on_request = on_request,
        .on_notification = on_notification,
        .on_invalid = on_invalid,
        .takes_batches = takes_batches,
        .on_congested = on_congested,
        .on_end = on_end,
    };
    int in[2], out[2];
    g_assert_true(ipb_fd_pipe(in, NULL) && ipb_fd_pipe(out, NULL));
    g_assert_true(ipb_fd_set_nonblocking(in[1], true, NULL));
    g_assert_true(ipb_fd_set_nonblocking(out[0], true, NULL));
    fixture->loop = ipb_loop_new(NULL, NULL);
    fixture->in = in[1];
    fixture->out = out[0];
    fixture->begun = g_string_new(NULL);
    fixture->received = g_string_new(NULL);
    fixture->congested = g_string_new(NULL);
    fixture->answered = g_string_new(NULL);
    g_autofree char *text = g_strnfill(ANSWER_SIZE, 'x');
    fixture->answer = g_strdup_printf("\"%s\"", text);
    ipb_line_reader_init(&fixture->lines, 2 * ANSWER_SIZE);
    IpbMessageChannel *channel = ipb_stdio_channel_new(fixture->loop, in[0], out[1], NULL);
    g_assert_nonnull(channel);
    fixture->conversation = ipb_conversation_new(fixture->loop, channel, &FUNCS, fixture);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    ipb_conversation_free(fixture->conversation);
    ipb_line_reader_clear(&fixture->lines);
    ipb_fd_close(&fixture->in);
    ipb_fd_close(&fixture->out);
    ipb_loop_unref(fixture->loop);
    g_string_free(fixture->begun, TRUE);
    g_string_free(fixture->received, TRUE);
    g_string_free(fixture->congested, TRUE);
    g_string_free(fixture->answered, TRUE);
    g_free(fixture->answer);
}

/* Runs the loop until nothing happens without the client. */
static void
settle(void)
{
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

/* Writes as much as possible; returns the number of bytes. */
static size_t
write_some(Fixture *fixture, const char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fixture->in, bytes + done, size - done);
        if (n < 0) {
            g_assert_cmpint(errno, ==, EAGAIN);
            size_t before = done;
            settle();
            n = write(fixture->in, bytes + done, size - done);
            if (n < 0)
                return before;
        }
        done += (size_t) n;
    }
    settle();
    return done;
}

static void
say(Fixture *fixture, const char *line)
{
    g_autofree char *text = g_strconcat(line, "\n", NULL);
    g_assert_cmpuint(write_some(fixture, text, strlen(text)), ==, strlen(text));
}

static void
request(Fixture *fixture, int id)
{
    g_autofree char *line =
        g_strdup_printf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"get\"}", id);
    say(fixture, line);
}

/* Reads everything. Returns the ids of the responses, and the codes of errors. Caller frees. */
static char *
read_all(Fixture *fixture)
{
    g_autoptr(GString) text = g_string_new(NULL);
    char chunk[65536];
    for (;;) {
        settle();
        ssize_t n = read(fixture->out, chunk, sizeof chunk);
        if (n <= 0)
            break;
        g_assert_true(ipb_line_reader_push(&fixture->lines, chunk, (size_t) n, NULL));
        const char *line;
        size_t size;
        while (ipb_line_reader_next(&fixture->lines, &line, &size)) {
            g_autoptr(IpbJsonDoc) doc = ipb_json_parse(line, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
            const IpbJson *root = ipb_json_root(doc);
            IpbSpan id = ipb_json_raw(ipb_json_get(root, "id"));
            g_string_append_printf(text, "%.*s", (int) id.size, id.size > 0 ? id.start : "");
            const IpbJson *error = ipb_json_get(root, "error");
            if (error != NULL) {
                IpbSpan code = ipb_json_raw(ipb_json_get(error, "code"));
                g_string_append_printf(text, "(%.*s)", (int) code.size, code.start);
            }
            g_string_append_c(text, ' ');
        }
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static char *
numbers(int first, int last)
{
    GString *text = g_string_new(NULL);
    for (int i = first; i <= last; i++)
        g_string_append_printf(text, "%d ", i);
    return g_string_free(text, FALSE);
}

/* A client that sends and does not read: the bytes that wait for it are bounded, and when it reads,
 * it gets everything in order. */
static void
test_slow_reader(Fixture *fixture, const void *unused)
{
    for (int i = 1; i <= 300; i++)
        request(fixture, i);
    g_assert_cmpstr(fixture->congested->str, ==, "+");
    g_assert_true(ipb_conversation_is_congested(fixture->conversation));
    g_autofree char *few = numbers(1, 9);
    g_assert_cmpstr(fixture->begun->str, ==, few); /* the last one exceeds 8 MiB */
    g_autofree char *all = numbers(1, 300);
    g_autofree char *answers = read_all(fixture);
    g_assert_cmpstr(answers, ==, all);
    g_assert_cmpstr(fixture->begun->str, ==, all);
    g_assert_true(g_str_has_suffix(fixture->congested->str, "-"));
    g_assert_false(ipb_conversation_is_congested(fixture->conversation));
}

/* Only requests are held, not notifications and responses. */
static void
test_what_is_not_held(Fixture *fixture, const void *unused)
{
    for (int i = 1; i <= 20; i++)
        request(fixture, i);
    say(fixture, "{\"jsonrpc\":\"2.0\",\"method\":\"received\"}");
    say(fixture, "[{\"jsonrpc\":\"2.0\",\"method\":\"in-batch\"}]");
    g_assert_cmpstr(fixture->received->str, ==, "received in-batch ");
    say(fixture, "no message"); /* held, because it is answered */
    say(fixture, "[{\"jsonrpc\":\"2.0\",\"id\":21,\"method\":\"get\"}]");
    g_assert_cmpstr(fixture->received->str, ==, "received in-batch ");
    g_assert_true(ipb_conversation_drop(fixture->conversation, "15"));
    g_assert_false(ipb_conversation_drop(fixture->conversation, "15"));
    g_assert_false(ipb_conversation_drop(fixture->conversation, "3")); /* it has begun */
    g_assert_cmpstr(ipb_conversation_held_method(fixture->conversation, "17"), ==, "get");
    g_assert_null(ipb_conversation_held_method(fixture->conversation, "3"));
    g_autofree char *first = numbers(1, 14);
    g_autofree char *second = numbers(16, 20);
    g_autofree char *expected = g_strconcat(first, second, "(-32700) 21 ", NULL);
    g_autofree char *answers = read_all(fixture);
    g_assert_cmpstr(answers, ==, expected);
}

/* Held requests are bounded, too. The rest stays in the pipe, and its end is reported
 * nevertheless. */
static void
test_sends_without_end(Fixture *fixture, const void *unused)
{
    for (int i = 1; i <= 9; i++)
        request(fixture, i);
    g_autofree char *filler = g_strnfill(MIB, 'x');
    size_t n_sent = 0;
    for (int i = 10; i < 200; i++) {
        g_autofree char *line = g_strdup_printf(
            "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"get\",\"params\":[\"%s\"]}\n", i, filler);
        size_t n = write_some(fixture, line, strlen(line));
        n_sent += n;
        if (n < strlen(line))
            break;
    }
    g_assert_cmpuint(n_sent, >, 64 * MIB);
    g_assert_cmpuint(n_sent, <, 70 * MIB);
    g_assert_false(fixture->has_ended);
    ipb_fd_close(&fixture->in);
    settle();
    g_assert_true(fixture->has_ended);
}

/* It continues to read when the client reads. */
static void
test_goes_on(Fixture *fixture, const void *unused)
{
    for (int i = 1; i <= 9; i++)
        request(fixture, i);
    g_autofree char *filler = g_strnfill(40 * MIB, 'x');
    g_autofree char *line = g_strdup_printf(
        "{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"get\",\"params\":[\"%s\"]}\n", filler);
    size_t size = strlen(line);
    g_assert_cmpuint(write_some(fixture, line, size), ==, size);
    g_assert_cmpuint(write_some(fixture, line, size), ==, size); /* it is paused now */
    size_t part = write_some(fixture, line, size);
    g_assert_cmpuint(part, <, size);
    g_autofree char *first = read_all(fixture);
    g_assert_cmpstr(first, ==, "1 2 3 4 5 6 7 8 9 10 10 ");
    g_assert_cmpuint(write_some(fixture, line + part, size - part), ==, size - part);
    g_autofree char *second = read_all(fixture);
    g_assert_cmpstr(second, ==, "10 ");
}

/* Input from a file, which cannot be watched. While one piece of it is processed, reading is
 * paused, because too much is held, and resumed, because a held request is dropped. */
static void
test_file(Fixture *fixture, const void *unused)
{
    static const IpbConversationFuncs FUNCS = {
        .on_request = on_request,
        .on_notification = on_notification,
        .on_congested = on_congested,
        .on_end = on_end,
    };
    static const char FORMAT[] =
        "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"get\",\"params\":[\"%s\"]}\n";
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *filler = g_strnfill(64 * MIB - 200, 'x');
    for (int i = 1; i <= 20; i++)
        g_string_append_printf(text, FORMAT, i, i == 10 ? filler : "");
    g_string_append(text, "{\"jsonrpc\":\"2.0\",\"method\":\"drop\"}\n");
    g_autofree char *path = NULL;
    ipb_autofd file = g_file_open_tmp("ipybox-test-XXXXXX", &path, NULL);
    g_assert_true(ipb_fd_write_all(file, text->str, text->len, NULL));
    g_assert_cmpint(lseek(file, 0, SEEK_SET), ==, 0);
    g_unlink(path);
    int out[2];
    g_assert_true(ipb_fd_pipe(out, NULL));
    ipb_autofd reader = out[0];
    IpbConversation *of_pipes = fixture->conversation;
    IpbMessageChannel *channel =
        ipb_stdio_channel_new(fixture->loop, ipb_fd_steal(&file), out[1], NULL);
    fixture->conversation = ipb_conversation_new(fixture->loop, channel, &FUNCS, fixture);
    while (strstr(fixture->received->str, "drop") == NULL)
        g_main_context_iteration(NULL, TRUE);
    ipb_conversation_free(fixture->conversation);
    fixture->conversation = of_pipes;
    settle(); /* nothing of the freed conversation is called */
    g_assert_false(fixture->has_ended);
}

/* --- lines that are too long ------------------------------------------------------------------ */

static void
send_long(Fixture *fixture, const char *start, const char *end)
{
    g_autofree char *filler = g_strnfill(MIB, 'x');
    g_assert_cmpuint(write_some(fixture, start, strlen(start)), ==, strlen(start));
    for (int i = 0; i < 70; i++)
        g_assert_cmpuint(write_some(fixture, filler, MIB), ==, MIB);
    g_assert_cmpuint(write_some(fixture, end, strlen(end)), ==, strlen(end));
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    GString *answered = data;
    bool is_limit = g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_string_append(answered, is_limit ? "limit " : "other ");
}

static void
test_long_lines(Fixture *fixture, const void *unused)
{
    const char *next = "\"}\n{\"jsonrpc\":\"2.0\",\"id\":\"n\",\"method\":\"get\"}\n";
    send_long(fixture, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get\",\"params\":\"", next);
    g_autofree char *first = read_all(fixture);
    g_assert_cmpstr(first, ==, "1(-32600) \"n\" ");
    send_long(fixture, "{\"method\":\"get\",\"params\":\"",
              "\",\"jsonrpc\":\"2.0\",\"id\":\"two\"}\n");
    send_long(fixture, "no message", "\n");
    send_long(fixture, "{\"jsonrpc\":\"2.0\",\"method\":\"received\",\"params\":\"", next);
    g_autofree char *second = read_all(fixture);
    g_assert_cmpstr(second, ==, "\"two\"(-32600) (-32600) \"n\" ");
    g_assert_cmpstr(fixture->received->str, ==, "! ! ! ! ");

    /* A response to our call. */
    int64_t id = ipb_rpc_peer_call(ipb_conversation_peer(fixture->conversation), "ask", NULL, 0,
                                   on_answer, fixture->answered);
    g_autofree char *start =
        g_strdup_printf("{\"jsonrpc\":\"2.0\",\"id\":%" G_GINT64_FORMAT ",\"result\":\"", id);
    send_long(fixture, start, "\"}\n");
    g_assert_cmpstr(fixture->answered->str, ==, "limit ");

    /* The end of input within a long line. */
    g_autofree char *call = read_all(fixture);
    send_long(fixture, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"get\",\"params\":\"", "");
    ipb_fd_close(&fixture->in);
    g_autofree char *last = read_all(fixture);
    g_assert_cmpstr(last, ==, "9(-32600) ");
    g_assert_true(fixture->has_ended);
}

/* A malformed message is answered with its id if that can be found. */
static void
test_unreadable(Fixture *fixture, const void *unused)
{
    g_autofree char *deep = g_strnfill(600, '[');
    g_autofree char *line =
        g_strdup_printf("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"get\",\"params\":%s", deep);
    say(fixture, line);
    say(fixture, "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"\xff\"}");
    say(fixture,
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}"); /* an answer is never answered */
    say(fixture, "[");
    g_autofree char *answers = read_all(fixture);
    g_assert_cmpstr(answers, ==, "5(-32700) 6(-32700) (-32700) ");

    /* Our call ends when its response is malformed. */
    int64_t id = ipb_rpc_peer_call(ipb_conversation_peer(fixture->conversation), "ask", NULL, 0,
                                   on_answer, fixture->answered);
    g_autofree char *call = read_all(fixture);
    g_autofree char *answer =
        g_strdup_printf("{\"jsonrpc\":\"2.0\",\"id\":%" G_GINT64_FORMAT ",\"result\":%s", id, deep);
    say(fixture, answer);
    g_assert_cmpstr(fixture->answered->str, ==, "limit ");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/conversation/slow-reader", Fixture, NULL, set_up, test_slow_reader, tear_down);
    g_test_add("/conversation/not-held", Fixture, NULL, set_up, test_what_is_not_held, tear_down);
    g_test_add("/conversation/without-end", Fixture, NULL, set_up, test_sends_without_end,
               tear_down);
    g_test_add("/conversation/goes-on", Fixture, NULL, set_up, test_goes_on, tear_down);
    g_test_add("/conversation/file", Fixture, NULL, set_up, test_file, tear_down);
    g_test_add("/conversation/long-lines", Fixture, NULL, set_up, test_long_lines, tear_down);
    g_test_add("/conversation/unreadable", Fixture, NULL, set_up, test_unreadable, tear_down);
    return g_test_run();
}
