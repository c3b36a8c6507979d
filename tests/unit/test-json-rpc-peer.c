/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer with a scripted other side: messages that it sends are collected line by line, messages
 * that it receives are texts of the test, and calls of its callbacks are collected in a log.
 */
#include "json/rpc-peer.h"

#include <string.h>

#include "base/error.h"

/* What the next callback does to the peer. */
typedef enum { NOTHING, FREE, CALL_AGAIN, ANSWER_IT } Action;

typedef struct {
    IpbLoop *loop;
    IpbRpcPeer *peer;
    GString *sent; /* each message and a newline */
    GString *log;  /* each event and a newline */
    IpbRpcRequest *kept;
    bool keep_requests;
    Action on_send, on_event;
    bool in_call;
    IpbJsonDoc *stolen;
    int64_t last_call;
} Fixture;

static void on_answer(const IpbRpcAnswer *answer, void *data);

static void
act(Fixture *f, Action *action)
{
    Action what = *action;
    *action = NOTHING; /* once */
    switch (what) {
    case FREE:
        g_clear_pointer(&f->peer, ipb_rpc_peer_free);
        break;
    case CALL_AGAIN:
        f->last_call = ipb_rpc_peer_call(f->peer, "again", NULL, 0, on_answer, f);
        break;
    case ANSWER_IT: {
        static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"at once\"}";
        ipb_rpc_peer_receive(f->peer, text, sizeof text - 1);
        break;
    }
    case NOTHING:
        break;
    }
}

static const char *
code_name(const GError *error)
{
    static const char *const names[] = {
        [IPYBOX_ERROR_TIMEOUT] = "TIMEOUT",   [IPYBOX_ERROR_CANCELLED] = "CANCELLED",
        [IPYBOX_ERROR_SERVER] = "SERVER",     [IPYBOX_ERROR_BUSY] = "BUSY",
        [IPYBOX_ERROR_PROTOCOL] = "PROTOCOL", [IPYBOX_ERROR_LIMIT] = "LIMIT",
    };
    g_assert_true(error->domain == IPYBOX_ERROR);
    return names[error->code];
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Fixture *f = data;
    g_assert_false(f->in_call);
    g_assert_cmpint(
        (answer->result != NULL) + (answer->rpc_error != NULL) + (answer->failure != NULL), ==, 1);
    IpbSpan span = ipb_json_raw(answer->result != NULL ? answer->result : answer->rpc_error);
    if (answer->failure != NULL) {
        g_string_append_printf(f->log, "%s: %s\n", code_name(answer->failure),
                               answer->failure->message);
    } else {
        g_string_append_printf(f->log, "%s %.*s\n", answer->result != NULL ? "result" : "error",
                               (int) span.size, span.start);
    }
    act(f, &f->on_event);
}

static void
on_answer_steal(const IpbRpcAnswer *answer, void *data)
{
    ((Fixture *) data)->stolen = *answer->document;
    *answer->document = NULL;
}

static void
on_send(const IpbRpcMessage *message, void *data)
{
    Fixture *f = data;
    g_assert_null(memchr(message->text, '\n', message->size));
    g_string_append_len(f->sent, message->text, (gssize) message->size);
    g_string_append_c(f->sent, '\n');
    act(f, &f->on_send);
}

static void
on_request(IpbRpcRequest *request, void *data)
{
    Fixture *f = data;
    IpbSpan params = ipb_json_raw(ipb_rpc_request_params(request));
    g_string_append_printf(f->log, "request %s %s %.*s\n", ipb_rpc_request_id(request),
                           ipb_rpc_request_method(request), (int) params.size, params.start);
    if (f->keep_requests) {
        g_clear_pointer(&f->kept, ipb_rpc_request_unref);
        f->kept = ipb_rpc_request_ref(request);
    }
    act(f, &f->on_event);
}

static void
on_notification(const char *method, const IpbJson *params, void *data)
{
    Fixture *f = data;
    IpbSpan raw = ipb_json_raw(params);
    g_string_append_printf(f->log, "notification %s %.*s\n", method, (int) raw.size, raw.start);
    act(f, &f->on_event);
}

static void
on_invalid(const GError *why, const char *text, size_t size, void *data)
{
    Fixture *f = data;
    g_string_append_printf(f->log, "invalid %s: %s\n", code_name(why), why->message);
    act(f, &f->on_event);
}

static const IpbRpcPeerFuncs funcs = {on_send, on_request, on_notification, on_invalid, NULL};

static void
set_up_with(Fixture *f, bool answer_invalid, const IpbRpcPeerFuncs *with_funcs)
{
    *f = (Fixture){.sent = g_string_new(NULL), .log = g_string_new(NULL)};
    f->loop = ipb_loop_new(NULL, NULL);
    IpbRpcPeerOptions options = {IPB_JSON_LIMITS_SMALL, answer_invalid};
    f->peer = ipb_rpc_peer_new(f->loop, &options, with_funcs, f);
}

static void
set_up(Fixture *f)
{
    set_up_with(f, true, &funcs);
}

static void
tear_down(Fixture *f)
{
    ipb_rpc_peer_free(f->peer);
    ipb_rpc_request_unref(f->kept);
    ipb_json_doc_free(f->stolen);
    /* Nothing may be called after that. */
    gsize logged = f->log->len;
    while (g_main_context_iteration(NULL, FALSE))
        ;
    g_assert_cmpuint(f->log->len, ==, logged);
    ipb_loop_unref(f->loop);
    g_string_free(f->sent, TRUE);
    g_string_free(f->log, TRUE);
}

static int64_t
call(Fixture *f, const char *method, const char *params, unsigned timeout_ms)
{
    f->in_call = true;
    int64_t id = ipb_rpc_peer_call(f->peer, method, params, timeout_ms, on_answer, f);
    f->in_call = false;
    return id;
}

static void
receive(Fixture *f, const char *text)
{
    g_autofree char *exact = g_memdup2(text, strlen(text));
    ipb_rpc_peer_receive(f->peer, exact, strlen(text));
}

static void
check(Fixture *f, GString *what, const char *expected)
{
    g_assert_cmpstr(what->str, ==, expected);
    g_string_truncate(what, 0);
}
#define CHECK_SENT(expected) check(&f, f.sent, expected)
#define CHECK_LOG(expected) check(&f, f.log, expected)
#define MESSAGE(members) "{\"jsonrpc\":\"2.0\"," members "}"
#define LINE(members) MESSAGE(members) "\n"

static void
iterate(Fixture *f)
{
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

static void
test_calls(void)
{
    Fixture f;
    set_up(&f);
    g_assert_cmpint(call(&f, "a", NULL, 0), ==, 1);
    CHECK_SENT(LINE("\"id\":1,\"method\":\"a\""));
    g_assert_cmpint(call(&f, "b\n\"", "{ \"x\":\t[1e400] }\n", 60000), ==, 2);
    CHECK_SENT(LINE("\"id\":2,\"method\":\"b\\n\\\"\",\"params\":{\"x\":[1e400]}"));
    g_assert_cmpint(call(&f, "c", "[]", 0), ==, 3);
    CHECK_SENT(LINE("\"id\":3,\"method\":\"c\",\"params\":[]"));
    /* Out of order, with the unusual ids that some servers send back. */
    receive(&f, MESSAGE("\"id\":\"3\",\"result\":{\"a\": 1}"));
    CHECK_LOG("result {\"a\": 1}\n");
    receive(&f, MESSAGE("\"id\":1.0,\"result\":null"));
    CHECK_LOG("result null\n");
    receive(&f, MESSAGE("\"error\":{\"code\":-1,\"message\":\"no\"},\"id\":2"));
    CHECK_LOG("error {\"code\":-1,\"message\":\"no\"}\n");
    /* Answered already. */
    receive(&f, MESSAGE("\"id\":2,\"result\":1"));
    CHECK_LOG("");
    CHECK_SENT("");
    tear_down(&f);
}

static void
test_answers(void)
{
    static const char broken[] = "PROTOCOL: the answer has ";
    static const struct {
        const char *text, *log;
    } cases[] = {
        {MESSAGE("\"id\":1,\"result\":1,\"error\":{}"), "both a result and an error\n"},
        {MESSAGE("\"id\":1"), "neither a result nor an error\n"},
        {MESSAGE("\"id\":1,\"error\":null"), "neither a result nor an error\n"},
        {MESSAGE("\"id\":1,\"error\":\"no\""),
         "PROTOCOL: the \"error\" of the answer is not an object\n"},
        {MESSAGE("\"id\":1,\"result\":2,\"error\":null"), "result 2\n"},
        {MESSAGE("\"id\":1,\"result\":null,\"error\":{}"), "error {}\n"},
        {MESSAGE("\"id\":1,\"result\":3,\"result\":4"), "result 4\n"},
        {MESSAGE("\"id\":9,\"id\":1,\"result\":5,\"extra\":[]"), "result 5\n"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        Fixture f;
        set_up(&f);
        call(&f, "a", NULL, 0);
        receive(&f, cases[i].text);
        g_autofree char *log = g_strconcat(i < 3 ? broken : "", cases[i].log, NULL);
        CHECK_LOG(log);
        tear_down(&f);
    }
}

static void
test_answers_to_no_call(void)
{
    static const struct {
        const char *id, *log;
    } cases[] = {
        {"2", "an answer to no call"},      {"0", "an answer to no call"},
        {"-1", "an answer to no call"},     {"1.5", "an answer to no call"},
        {"\"x\"", "an answer to no call"},  {"\"\"", "an answer to no call"},
        {"\" 1\"", "an answer to no call"}, {"\"1\\u0000\"", "an answer to no call"},
        {"1e400", "an answer to no call"},  {"[1]", "an answer to no call"},
        {"true", "an answer to no call"},   {"null", "an answer without an id"},
    };
    Fixture f;
    set_up(&f);
    call(&f, "a", NULL, 0);
    CHECK_SENT(LINE("\"id\":1,\"method\":\"a\""));
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = g_strdup_printf(MESSAGE("\"id\":%s,\"result\":1"), cases[i].id);
        receive(&f, text);
        g_autofree char *log = g_strdup_printf("invalid PROTOCOL: %s\n", cases[i].log);
        CHECK_LOG(log);
    }
    receive(&f, MESSAGE("\"error\":{\"code\":-32700,\"message\":\"bad JSON\"}"));
    CHECK_LOG("invalid PROTOCOL: an answer without an id: bad JSON\n");
    receive(&f, MESSAGE("\"id\":1,\"result\":1"));
    CHECK_LOG("result 1\n");
    CHECK_SENT(""); /* never answer an answer */
    tear_down(&f);
}

static void
test_steal_document(void)
{
    Fixture f;
    set_up(&f);
    ipb_rpc_peer_call(f.peer, "a", NULL, 0, on_answer_steal, &f);
    receive(&f, MESSAGE("\"id\":1,\"result\":[1]"));
    const IpbJson *result = ipb_json_get(ipb_json_root(f.stolen), "result");
    g_assert_cmpuint(ipb_json_length(result), ==, 1);
    ipb_rpc_peer_call(f.peer, "no callback", NULL, 0, NULL, NULL);
    receive(&f, MESSAGE("\"id\":2,\"result\":[1]"));
    tear_down(&f);
}

static void
test_timeout(void)
{
    Fixture f;
    set_up(&f);
    call(&f, "slow", NULL, 1);
    while (f.log->len == 0)
        g_main_context_iteration(NULL, TRUE);
    CHECK_LOG("TIMEOUT: no answer to slow within 0.001 seconds\n");
    receive(&f, MESSAGE("\"id\":1,\"result\":1")); /* too late: dropped */
    CHECK_LOG("");
    /* A touch restarts the timeout: of two calls with the same timeout, the first ends last. */
    int64_t id = call(&f, "touched", NULL, 20);
    call(&f, "other", NULL, 20);
    ipb_rpc_peer_touch_call(f.peer, id);
    while (strstr(f.log->str, "touched") == NULL)
        g_main_context_iteration(NULL, TRUE);
    CHECK_LOG("TIMEOUT: no answer to other within 0.02 seconds\n"
              "TIMEOUT: no answer to touched within 0.02 seconds\n");
    ipb_rpc_peer_touch_call(f.peer, 12345);
    tear_down(&f);
}

static void
test_cancel(void)
{
    Fixture f;
    set_up(&f);
    int64_t id = call(&f, "a", NULL, 0);
    CHECK_SENT(LINE("\"id\":1,\"method\":\"a\""));
    g_assert_true(ipb_rpc_peer_cancel_call(f.peer, id));
    g_assert_false(ipb_rpc_peer_cancel_call(f.peer, id));
    g_assert_false(ipb_rpc_peer_cancel_call(f.peer, 77));
    receive(&f, MESSAGE("\"id\":1,\"result\":1"));
    CHECK_LOG("");
    iterate(&f);
    CHECK_LOG("CANCELLED: a was cancelled\n");
    CHECK_SENT("");
    /* It also times out before the loop runs; its function is called once. */
    id = call(&f, "b", NULL, 1);
    gint64 start = g_get_monotonic_time();
    g_assert_true(ipb_rpc_peer_cancel_call(f.peer, id));
    while (g_get_monotonic_time() < start + 2000)
        ;
    iterate(&f);
    CHECK_LOG("CANCELLED: b was cancelled\n");
    tear_down(&f);
}

/* A callback that makes a call does not make the free loop forever. */
static void
test_call_again(void)
{
    Fixture f;
    set_up(&f);
    f.on_event = CALL_AGAIN;
    call(&f, "a", NULL, 0);
    ipb_rpc_peer_free(f.peer);
    f.peer = NULL;
    CHECK_LOG("CANCELLED: the connection was closed here\n"
              "CANCELLED: the connection was closed here\n");
    tear_down(&f);
}

#define BUSY "BUSY: 10000 calls wait for their answers already\n"

static void
test_too_many_calls(void)
{
    Fixture f;
    set_up(&f);
    for (int i = 0; i < 10000; i++)
        call(&f, "a", NULL, 0);
    g_string_truncate(f.sent, 0);
    int64_t id = call(&f, "one more", NULL, 0);
    CHECK_SENT("");
    g_assert_false(ipb_rpc_peer_cancel_call(f.peer, id));
    iterate(&f);
    CHECK_LOG(BUSY);
    f.on_event = CALL_AGAIN;
    call(&f, "one more", NULL, 0);
    iterate(&f);
    CHECK_LOG(BUSY BUSY);
    receive(&f, MESSAGE("\"id\":5000,\"result\":1"));
    CHECK_LOG("result 1\n");
    call(&f, "b", NULL, 0);
    CHECK_SENT(LINE("\"id\":10004,\"method\":\"b\""));
    tear_down(&f);
}

static void
test_free_ends_calls(void)
{
    Fixture f;
    set_up(&f);
    call(&f, "a", NULL, 0);
    int64_t id = call(&f, "b", NULL, 60000);
    call(&f, "c", NULL, 0);
    ipb_rpc_peer_cancel_call(f.peer, id);
    ipb_rpc_peer_free(g_steal_pointer(&f.peer));
    CHECK_LOG("CANCELLED: b was cancelled\n"
              "CANCELLED: the connection was closed here\n"
              "CANCELLED: the connection was closed here\n");
    ipb_rpc_peer_free(NULL);
    tear_down(&f);
}

/* The peer is freed in each kind of callback. The functions of waiting calls are called before the
 * free returns. */
static void
test_free_in_callbacks(void)
{
    static const char closed[] = "CANCELLED: the connection was closed here\n";
    static const struct {
        const char *text, *log;
    } cases[] = {
        {MESSAGE("\"id\":1,\"result\":1"), "result 1\n"},
        {MESSAGE("\"id\":1"), "PROTOCOL: the answer has neither a result nor an error\n"},
        {MESSAGE("\"method\":\"n\""), "notification n \n"},
        {MESSAGE("\"method\":\"r\",\"id\":1"), "request 1 r \n"},
        {"banner",
         "invalid PROTOCOL: invalid JSON at byte 0 (line 1, column 1): expected a value but "
         "found 'b'\n"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        Fixture f;
        set_up_with(&f, false, &funcs);
        call(&f, "a", NULL, 60000);
        call(&f, "b", NULL, 60000);
        g_string_truncate(f.sent, 0);
        f.on_event = FREE;
        receive(&f, cases[i].text);
        g_autofree char *log = g_strconcat(cases[i].log, closed, i < 2 ? "" : closed, NULL);
        CHECK_LOG(log);
        CHECK_SENT("");
        tear_down(&f);
    }
    /* In the function of a call that timed out or was cancelled. */
    for (int i = 0; i < 2; i++) {
        Fixture f;
        set_up(&f);
        call(&f, "a", NULL, i == 0 ? 1 : 0);
        call(&f, "b", NULL, 0);
        f.on_event = FREE;
        if (i == 1)
            ipb_rpc_peer_cancel_call(f.peer, 1);
        while (f.peer != NULL)
            g_main_context_iteration(NULL, TRUE);
        g_assert_cmpuint(strlen(f.log->str), >, 0);
        g_assert_true(g_str_has_suffix(f.log->str, closed));
        tear_down(&f);
    }
}

/* What the send function may do while a call is being made. */
static void
test_act_while_sending(void)
{
    Fixture f;
    set_up(&f);
    f.on_send = ANSWER_IT;
    call(&f, "a", NULL, 0);
    CHECK_LOG("");
    iterate(&f);
    CHECK_LOG("result \"at once\"\n");
    tear_down(&f);

    set_up(&f);
    f.on_send = FREE;
    ipb_rpc_peer_call(f.peer, "a", NULL, 60000, on_answer, &f);
    CHECK_LOG("CANCELLED: the connection was closed here\n");
    g_assert_null(f.peer);
    tear_down(&f);

    set_up(&f);
    f.on_send = FREE;
    receive(&f, "[]"); /* answered, and freed there */
    CHECK_LOG("");
    g_assert_null(f.peer);
    tear_down(&f);
}

static void
test_requests(void)
{
    Fixture f;
    set_up(&f);
    f.keep_requests = true;
    receive(&f, MESSAGE("\"id\":1,\"method\":\"a\",\"params\":{\"x\":1}"));
    CHECK_LOG("request 1 a {\"x\":1}\n");
    CHECK_SENT("");
    ipb_rpc_request_reply(f.kept, "{ \"r\": 2 }", 10);
    CHECK_SENT(LINE("\"id\":1,\"result\":{\"r\":2}"));
    ipb_rpc_request_reply(f.kept, "1", 1);
    ipb_rpc_request_fail(f.kept, 1, "x", NULL);
    CHECK_SENT("");

    receive(&f, MESSAGE("\"id\":\"1\\u2028\xe2\x80\xa8\",\"method\":\"b\",\"params\":[]"));
    CHECK_LOG("request \"1\\u2028\xe2\x80\xa8\" b []\n");
    ipb_rpc_request_fail(f.kept, IPB_RPC_INVALID_PARAMS, "bad \"x\"", "[1, 2]");
    CHECK_SENT(LINE("\"id\":\"1\\u2028\\u2028\",\"error\":{\"code\":-32602,"
                    "\"message\":\"bad \\\"x\\\"\",\"data\":[1,2]}"));

    receive(&f, MESSAGE("\"id\":-1.50,\"method\":\"c\",\"params\":null"));
    CHECK_LOG("request -1.50 c \n");
    ipb_rpc_request_drop(f.kept);
    ipb_rpc_request_reply(f.kept, "1", 1);
    CHECK_SENT("");

    /* Not answered: the last unref does it. */
    receive(&f, MESSAGE("\"id\":2,\"method\":\"d\""));
    g_clear_pointer(&f.kept, ipb_rpc_request_unref);
    static const char unanswered[] =
        LINE("\"id\":2,\"error\":{\"code\":-32603,\"message\":\"the request was not answered\"}");
    CHECK_SENT(unanswered);
    f.keep_requests = false;
    receive(&f, MESSAGE("\"id\":2,\"method\":\"d\""));
    CHECK_SENT(unanswered);
    tear_down(&f);
}

static void
test_request_outlives_peer(void)
{
    Fixture f;
    set_up(&f);
    f.keep_requests = true;
    receive(&f, MESSAGE("\"id\":1,\"method\":\"a\",\"params\":{\"x\":1}"));
    ipb_rpc_peer_free(g_steal_pointer(&f.peer));
    g_assert_cmpstr(ipb_rpc_request_method(f.kept), ==, "a");
    g_assert_true(ipb_json_is(ipb_rpc_request_params(f.kept), IPB_JSON_OBJECT));
    ipb_rpc_request_reply(f.kept, "1", 1);
    CHECK_SENT("");
    tear_down(&f);
}

static void
test_too_many_requests(void)
{
    Fixture f;
    set_up(&f);
    g_autoptr(GPtrArray) kept =
        g_ptr_array_new_with_free_func((GDestroyNotify) ipb_rpc_request_unref);
    f.keep_requests = true;
    for (int i = 0; i < 10000; i++) {
        receive(&f, MESSAGE("\"id\":1,\"method\":\"a\""));
        g_ptr_array_add(kept, g_steal_pointer(&f.kept));
    }
    CHECK_SENT("");
    g_string_truncate(f.log, 0);
    receive(&f, MESSAGE("\"id\":\"x\",\"method\":\"a\""));
    CHECK_LOG("");
    CHECK_SENT(LINE("\"id\":\"x\",\"error\":{\"code\":-32603,"
                    "\"message\":\"too many requests wait for an answer\"}"));
    ipb_rpc_request_drop(kept->pdata[0]);
    receive(&f, MESSAGE("\"id\":2,\"method\":\"a\""));
    CHECK_LOG("request 2 a \n");
    ipb_rpc_request_drop(f.kept);
    for (guint i = 0; i < kept->len; i++)
        ipb_rpc_request_drop(kept->pdata[i]);
    tear_down(&f);
}

static void
test_notifications(void)
{
    Fixture f;
    set_up(&f);
    receive(&f, " " MESSAGE("\"method\":\"n\",\"params\":{\"p\": []}") "\r");
    receive(&f, MESSAGE("\"method\":\"m\""));
    CHECK_LOG("notification n {\"p\": []}\nnotification m \n");
    ipb_rpc_peer_notify(f.peer, "x", NULL);
    ipb_rpc_peer_notify(f.peer, "y", "{\"a\":\n1}");
    CHECK_SENT(LINE("\"method\":\"x\"") LINE("\"method\":\"y\",\"params\":{\"a\":1}"));
    tear_down(&f);
}

static void
test_no_callbacks(void)
{
    Fixture f;
    set_up_with(&f, false, &(IpbRpcPeerFuncs){.send = on_send});
    receive(&f, MESSAGE("\"method\":\"n\""));
    receive(&f, "no JSON");
    receive(&f, MESSAGE("\"id\":77,\"result\":1"));
    CHECK_SENT("");
    receive(&f, MESSAGE("\"id\":4,\"method\":\"\\ud800\""));
    CHECK_SENT(LINE("\"id\":4,\"error\":{\"code\":-32601,"
                    "\"message\":\"there is no method \\\"\\ud800\\\"\"}"));
    tear_down(&f);
}

static void
test_invalid(void)
{
    static const struct {
        const char *text;
        const char *id; /* of the answer */
        int code;
        const char *why;
    } cases[] = {
        {"", "", -32700,
         "invalid JSON at byte 0 (line 1, column 1): expected a value but the text ends"},
        {"Server is listening", "", -32700,
         "invalid JSON at byte 0 (line 1, column 1): expected a value but found 'S'"},
        {"1", "", -32600, "a message must be a JSON object"},
        {"[]", "", -32600, "a message must be a JSON object; batches are not supported"},
        {"{}", "", -32600, "the member \"jsonrpc\" must be \"2.0\""},
        {"{\"id\":5,\"method\":\"a\"}", "\"id\":5,", -32600,
         "the member \"jsonrpc\" must be \"2.0\""},
        {"{\"jsonrpc\":2.0,\"id\":5,\"method\":\"a\"}", "\"id\":5,", -32600,
         "the member \"jsonrpc\" must be \"2.0\""},
        {"{\"jsonrpc\":\"2.0\"}", "", -32600,
         "a message must have a \"method\", a \"result\" or an \"error\""},
        {MESSAGE("\"method\":5,\"id\":\"x\""), "\"id\":\"x\",", -32600,
         "\"method\" must be a string"},
        {MESSAGE("\"method\":\"a\\u0000\",\"id\":1"), "\"id\":1,", -32600,
         "\"method\" must be a string"},
        {MESSAGE("\"method\":\"a\",\"id\":null"), "", -32600,
         "the \"id\" of a request must be a string or a number"},
        {MESSAGE("\"method\":\"a\",\"id\":[1]"), "", -32600,
         "the \"id\" of a request must be a string or a number"},
        {MESSAGE("\"method\":\"a\",\"id\":1,\"params\":\"x\""), "\"id\":1,", -32600,
         "\"params\" must be an object or an array"},
    };
    for (int answers = 0; answers < 2; answers++) {
        Fixture f;
        set_up_with(&f, answers, &funcs);
        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
            receive(&f, cases[i].text);
            IpbJsonWriter *w = ipb_json_writer_new();
            ipb_json_write_string(w, cases[i].why);
            g_autofree char *why = ipb_json_writer_finish(w, NULL);
            g_autofree char *log = g_strdup_printf("invalid PROTOCOL: %s\n", cases[i].why);
            g_autofree char *sent = g_strdup_printf(
                LINE("%s\"error\":{\"code\":%d,\"message\":%s}"), cases[i].id, cases[i].code, why);
            CHECK_LOG(log);
            CHECK_SENT(answers ? sent : "");
        }
        receive(&f, MESSAGE("\"method\":\"a\",\"id\":1,\"result\":1"));
        CHECK_LOG("invalid PROTOCOL: a message cannot be both a request and an answer\n");
        CHECK_SENT("");
        tear_down(&f);
    }
}

static void
test_limit(void)
{
    Fixture f;
    set_up(&f);
    ipb_rpc_peer_free(f.peer);
    IpbRpcPeerOptions options = {{40, 10, 10}, false};
    f.peer = ipb_rpc_peer_new(f.loop, &options, &funcs, &f);
    receive(&f, MESSAGE("\"method\":\"a long one\""));
    CHECK_LOG("notification a long one \n");
    receive(&f, MESSAGE("\"method\":\"a longer one\""));
    CHECK_LOG("invalid LIMIT: the JSON text is too long: 41 bytes, the maximum is 40\n");
    tear_down(&f);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json/rpc-peer/calls", test_calls);
    g_test_add_func("/json/rpc-peer/answers", test_answers);
    g_test_add_func("/json/rpc-peer/answers-to-no-call", test_answers_to_no_call);
    g_test_add_func("/json/rpc-peer/steal-document", test_steal_document);
    g_test_add_func("/json/rpc-peer/timeout", test_timeout);
    g_test_add_func("/json/rpc-peer/cancel", test_cancel);
    g_test_add_func("/json/rpc-peer/call-again", test_call_again);
    g_test_add_func("/json/rpc-peer/too-many-calls", test_too_many_calls);
    g_test_add_func("/json/rpc-peer/free-ends-calls", test_free_ends_calls);
    g_test_add_func("/json/rpc-peer/free-in-callbacks", test_free_in_callbacks);
    g_test_add_func("/json/rpc-peer/act-while-sending", test_act_while_sending);
    g_test_add_func("/json/rpc-peer/requests", test_requests);
    g_test_add_func("/json/rpc-peer/request-outlives-peer", test_request_outlives_peer);
    g_test_add_func("/json/rpc-peer/too-many-requests", test_too_many_requests);
    g_test_add_func("/json/rpc-peer/notifications", test_notifications);
    g_test_add_func("/json/rpc-peer/no-callbacks", test_no_callbacks);
    g_test_add_func("/json/rpc-peer/invalid", test_invalid);
    g_test_add_func("/json/rpc-peer/limit", test_limit);
    return g_test_run();
}
