/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP client's protocol: handshake, lists, calls. Against the script
 * "hostile" of tests/scripted_server.
 */
#include "mcp-fixture.h"

#include <string.h>

#include "base/error.h"

static void
test_handshake(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    start_fake(&fixture, NULL);
    g_auto(Answer) connected = {0};
    ipb_mcp_client_connect(fixture.client, on_answer, &connected);
    wait_for(&connected);
    g_assert_no_error(connected.error);
    g_assert_cmpstr(ipb_json_get_string(connected.result, "protocolVersion"), ==, "2025-11-25");
    const char *sent = ipb_json_get_string(connected.result, "instructions");
    g_assert_contains(sent, "\"capabilities\": {}, \"clientInfo\": {\"name\": \"ipybox\"");

    g_auto(Answer) tools = {0};
    list_tools(&fixture, &tools);
    g_assert_no_error(tools.error);
    const IpbJson *tool = ipb_json_first(ipb_json_get(tools.result, "tools"));
    g_assert_cmpstr(ipb_json_get_string(tool, "name"), ==, "echo");
    g_assert_cmpstr(ipb_json_number(ipb_json_get(tool, "x")), ==, "1180591620717411303424");
    close_and_wait(&fixture);
    g_assert_cmpuint(fixture.n_closed, ==, 0);
}

static void
test_arguments(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "line",
            "{ \"n\" : 1180591620717411303424, \"f\":[ 1e400,-0,0.10 ],\n\"s\":\"\\ud800 "
            "\\u0000\\/ \\u2028 é\", \"n\":{} }",
            &answer);
    g_assert_contains(answer_text(&answer),
                      "\"arguments\":{\"n\":1180591620717411303424,\"f\":[1e400,-0,0.10],\"s\":"
                      "\"\\ud800 \\u0000\\/ \\u2028 é\",\"n\":{}}");
    g_assert_contains(answer_text(&answer), "\"_meta\":{\"progressToken\":");

    static const char *const BAD[] = {"", "[]", "{", "{}{}", "nonsense", "{\"a\":1}\n{\"id\":7}"};
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        g_auto(Answer) refused = {0};
        call(&fixture, "echo", BAD[i], &refused);
        assert_answer_error(&refused, IPYBOX_ERROR_INVALID, "arguments of the call");
    }
}

static void
test_results(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) all = {0};
    call_ok(&fixture, "contents", "{}", &all);
    g_assert_cmpuint(ipb_json_length(ipb_json_get(all.result, "content")), ==, 6);
    g_assert_true(ipb_json_get_bool(all.result, "isError", false));
    g_assert_cmpstr(
        ipb_json_number(ipb_json_get(ipb_json_get(all.result, "structuredContent"), "big")), ==,
        "1180591620717411303424");

    g_auto(Answer) exact = {0};
    call_ok(&fixture, "result", "{\"text\":\"{\\\"structuredContent\\\": [1e400, -0]}\"}", &exact);
    IpbSpan raw = ipb_json_raw(exact.result);
    g_assert_cmpmem(raw.start, raw.size, "{\"structuredContent\": [1e400, -0]}", 34);

    static const char *const BAD[] = {"{}", "[]", "null", "{\\\"content\\\":5}",
                                      "{\\\"content\\\":5,\\\"structuredContent\\\":{}}"};
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        g_auto(Answer) answer = {0};
        g_autofree char *arguments = g_strdup_printf("{\"text\":\"%s\"}", BAD[i]);
        call(&fixture, "result", arguments, &answer);
        assert_answer_error(&answer, IPYBOX_ERROR_PROTOCOL, "has no \"content\" array");
    }
    g_auto(Answer) item = {0};
    call(&fixture, "result", "{\"text\":\"{\\\"content\\\":[{\\\"type\\\":\\\"x\\\"},{}]}\"}",
         &item);
    assert_answer_error(&item, IPYBOX_ERROR_PROTOCOL, "content[1] of its result");
    g_auto(Answer) broken = {0};
    call(&fixture, "result", "{\"text\":\"{\\\"content\\\":[NaN]}\"}", &broken);
    assert_answer_error(&broken, IPYBOX_ERROR_PROTOCOL, "its answer cannot be read: invalid JSON");
    g_auto(Answer) marked = {0}; /* with a byte order mark */
    call_ok(&fixture, "raw", "{\"text\":\"\\ufeff\"}", &marked);

    g_auto(Answer) error = {0};
    call(&fixture, "error", "{}", &error);
    assert_answer_error(
        &error, IPYBOX_ERROR_SERVER,
        "MCP server fake: tool error: no good\357\277\275 (code -32602, data {\"why\": [1, "
        "2]})");
}

static void
test_revisions(void)
{
    static const char *const KNOWN[] = {"revision=2024-11-05", "revision=2025-03-26",
                                        "revision=2025-06-18", "revision=2025-11-25", "picky"};
    for (size_t i = 0; i < G_N_ELEMENTS(KNOWN); i++) {
        g_auto(Fixture) fixture;
        set_up_fake(&fixture, KNOWN[i]);
        g_auto(Answer) answer = {0};
        call_ok(&fixture, "echo", "{}", &answer);
    }
    static const struct {
        const char *mode;
        int code;
        const char *message;
    } WRONG[] = {
        {"revision=2026-07-28", IPYBOX_ERROR_PROTOCOL,
         "MCP server fake: it speaks revision \"2026-07-28\" of MCP, ipybox 2024-11-05, "},
        {"revision=\033[2J", IPYBOX_ERROR_PROTOCOL, "revision \"\""},
        {"refuse", IPYBOX_ERROR_SERVER, "initialize: not today (code -32000)"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(WRONG); i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        start_fake(&fixture, WRONG[i].mode);
        g_auto(Answer) answer = {0};
        ipb_mcp_client_connect(fixture.client, on_answer, &answer);
        wait_for(&answer);
        assert_answer_error(&answer, WRONG[i].code, WRONG[i].message);
        g_auto(Answer) later = {0};
        call(&fixture, "echo", "{}", &later);
        assert_answer_error(&later, WRONG[i].code, WRONG[i].message);
        close_and_wait(&fixture);
        g_assert_cmpuint(fixture.n_closed, ==, 0);
    }
}

static void
test_batches(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, "revision=2025-03-26");
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "batch", "{}", &answer);
    g_assert_cmpstr(answer_text(&answer), ==, "batch");
    g_assert_contains(fixture.log->str, "info: in a batch\n");
}

static void
test_lists(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, "pages");
    g_auto(Answer) pages = {0};
    list_tools(&fixture, &pages);
    g_assert_no_error(pages.error);
    const IpbJson *tools = ipb_json_get(pages.result, "tools");
    g_assert_cmpuint(ipb_json_length(tools), ==, 15);
    unsigned number = 0;
    IPB_JSON_FOREACH (tool, tools) {
        g_autofree char *name = g_strdup_printf("tool-%u-%u", number / 3, number % 3);
        g_assert_cmpstr(ipb_json_get_string(tool, "name"), ==, name);
        number++;
    }

    static const char *const EMPTY[] = {"empty-cursor", "no-tools"};
    for (size_t i = 0; i < G_N_ELEMENTS(EMPTY); i++) {
        g_auto(Fixture) other;
        set_up_fake(&other, EMPTY[i]);
        g_auto(Answer) answer = {0};
        list_tools(&other, &answer);
        g_assert_no_error(answer.error);
        g_assert_cmpuint(ipb_json_length(ipb_json_get(answer.result, "tools")), ==, 0);
    }
    static const struct {
        const char *mode;
        int code;
        const char *message;
    } WRONG[] = {
        {"loop", IPYBOX_ERROR_PROTOCOL, "leads back"},
        {"endless", IPYBOX_ERROR_LIMIT, "more than 1000 pages"},
        {"many", IPYBOX_ERROR_LIMIT, "more than 10000 tools"},
        {"bad-tool", IPYBOX_ERROR_PROTOCOL, "tools[1] has no \"name\""},
        {"bad-list", IPYBOX_ERROR_PROTOCOL, "no \"tools\" array"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(WRONG); i++) {
        g_auto(Fixture) other;
        set_up_fake(&other, WRONG[i].mode);
        g_auto(Answer) answer = {0};
        list_tools(&other, &answer);
        assert_answer_error(&answer, WRONG[i].code, WRONG[i].message);
        g_auto(Answer) still = {0};
        call_ok(&other, "echo", "{}", &still);
    }
}

static void
test_progress(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "progress", "{}", &answer);
    g_assert_cmpstr(answer.progress->str, ==, "0/0 step 0\n0.5/0 step 1\n1/1 -\n");
}

/* Log messages are made harmless, and too many are left out. */
static void
test_much_progress(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    int64_t began = g_get_monotonic_time();
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "much_progress", "{}", &answer);
    int64_t n_windows = 1 + (g_get_monotonic_time() - began) / G_USEC_PER_SEC;
    g_assert_true(g_str_has_prefix(answer.progress->str, "0/0 xxxx"));
    g_assert_null(strchr(answer.progress->str, '\033'));
    g_assert_cmpuint(answer.progress->len, <, (size_t) n_windows * 100 * 4200);
}

/* The steps together take longer than the timeout; each restarts it. */
static void
test_progress_restarts_timeout(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture.call_timeout_ms = 4000;
    start_fake(&fixture, NULL);
    fixture_connect(&fixture);
    g_auto(Answer) slow = {0};
    call_ok(&fixture, "slow_progress", "{\"steps\":21,\"seconds\":0.2}", &slow);
    g_auto(Answer) never = {0};
    call(&fixture, "never", "{}", &never);
    assert_answer_error(&never, IPYBOX_ERROR_TIMEOUT,
                        "tool never: no answer and no progress within 4 s (\"timeout\" in its "
                        "server_params is this limit, in seconds)");
    g_auto(Answer) told = {0};
    call_ok(&fixture, "cancelled", "{}", &told);
    g_assert_contains(answer_text(&told), "\"reason\": \"timeout\"");
}

static void
test_cancel(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) never = {0};
    int64_t id =
        ipb_mcp_client_call_tool(fixture.client, "never", "{}", 2, NULL, on_answer, &never);
    ipb_mcp_client_cancel(fixture.client, id + 1000);
    ipb_mcp_client_cancel(fixture.client, id);
    ipb_mcp_client_cancel(fixture.client, id);
    g_assert_cmpuint(never.n_ended, ==, 0);
    wait_for(&never);
    assert_answer_error(&never, IPYBOX_ERROR_CANCELLED, "tool never was cancelled");
    ipb_mcp_client_cancel(fixture.client, id);
    g_auto(Answer) told = {0};
    call_ok(&fixture, "cancelled", "{}", &told);
    g_autoptr(IpbJsonDoc) list = ipb_json_parse(answer_text(&told), strlen(answer_text(&told)),
                                                &IPB_JSON_LIMITS_SMALL, NULL);
    g_assert_cmpuint(ipb_json_length(ipb_json_root(list)), ==, 1);
    const IpbJson *params = ipb_json_first(ipb_json_root(list));
    g_assert_true(ipb_json_is(ipb_json_get(params, "requestId"), IPB_JSON_NUMBER));
}

/* Late answers do not count as garbage, however big they are. */
static void
test_late_answer(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) late = {0};
    int64_t id = ipb_mcp_client_call_tool(fixture.client, "late", "{\"size\":3000000}", 16, NULL,
                                          on_answer, &late);
    ipb_mcp_client_cancel(fixture.client, id);
    wait_for(&late);
    assert_answer_error(&late, IPYBOX_ERROR_CANCELLED, "cancelled");
    g_auto(Answer) still = {0};
    call_ok(&fixture, "echo", "{}", &still);
    g_assert_cmpuint(fixture.n_closed, ==, 0);
}

static void
test_server_requests(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "ask", "{}", &answer);
    const IpbJson *answers =
        ipb_json_get(ipb_json_get(answer.result, "structuredContent"), "answers");
    g_assert_cmpuint(ipb_json_length(answers), ==, 5);
    unsigned number = 0;
    IPB_JSON_FOREACH (item, answers) {
        g_autofree char *id = g_strdup_printf("ask-%u", number);
        g_assert_cmpstr(ipb_json_get_string(item, "id"), ==, id);
        int64_t code = 0;
        const IpbJson *error = ipb_json_get(item, "error");
        if (number == 0)
            g_assert_true(ipb_json_is(ipb_json_get(item, "result"), IPB_JSON_OBJECT));
        else
            g_assert_true(ipb_json_get_int64(error, "code", &code) && code == -32601);
        number++;
    }
}

static void
test_notifications(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) logged = {0};
    call_ok(&fixture, "log", "{}", &logged);
    g_assert_contains(fixture.log->str, "error: me: oh\ninfo: {\"a\": [1]}\n");
    g_auto(Answer) changed = {0};
    call_ok(&fixture, "changed", "{}", &changed);
    while (fixture.n_changed == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(fixture.n_changed, <, 10);

    static const char *const ODD[] = {
        "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":999,\\\"result\\\":{}}\\n",
        "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"notifications/progress\\\"}\\n",
        "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"notifications/message\\\","
        "\\\"params\\\":[]}\\n",
        "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"notifications/unknown\\\"}\\r\\n",
        "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":null,\\\"error\\\":{\\\"code\\\":1,"
        "\\\"message\\\":\\\"\\\"}}\\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ODD); i++) {
        g_auto(Answer) answer = {0};
        g_autofree char *arguments = g_strdup_printf("{\"text\":\"%s\"}", ODD[i]);
        call_ok(&fixture, "raw", arguments, &answer);
    }
}

/* A thousand answers come at once, in any order. */
static void
test_many_calls(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    enum { COUNT = 1000 };
    g_autofree Answer *answers = g_new0(Answer, COUNT);
    for (int i = 0; i < COUNT; i++) {
        g_autofree char *arguments = g_strdup_printf("{\"i\":%d}", i);
        ipb_mcp_client_call_tool(fixture.client, "echo", arguments, strlen(arguments), NULL,
                                 on_answer, &answers[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        wait_for(&answers[i]);
        int64_t number = -1;
        g_assert_true(
            ipb_json_get_int64(ipb_json_get(answers[i].result, "structuredContent"), "i", &number));
        g_assert_cmpint(number, ==, i);
        answer_clear(&answers[i]);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/mcp/client/handshake", test_handshake);
    add_test("/mcp/client/arguments", test_arguments);
    add_test("/mcp/client/results", test_results);
    add_test("/mcp/client/revisions", test_revisions);
    add_test("/mcp/client/batches", test_batches);
    add_test("/mcp/client/lists", test_lists);
    add_test("/mcp/client/progress", test_progress);
    add_test("/mcp/client/much-progress", test_much_progress);
    add_test("/mcp/client/progress-restarts-timeout", test_progress_restarts_timeout);
    add_test("/mcp/client/cancel", test_cancel);
    add_test("/mcp/client/late-answer", test_late_answer);
    add_test("/mcp/client/server-requests", test_server_requests);
    add_test("/mcp/client/notifications", test_notifications);
    add_test("/mcp/client/many-calls", test_many_calls);
    return g_test_run();
}
