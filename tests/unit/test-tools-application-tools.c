/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools of an application: what is read, and how a tool host takes their calls.
 */
#include "tools/application-tools.h"

#include <string.h>

#include "base/error.h"
#include "tools/tool-host.h"

#define TOOLS                                                                                      \
    "{\"app\":[{\"name\":\"a\",\"inputSchema\":{}},{\"name\":\"b/c\",\"inputSchema\":{}}]}"

static IpbApplicationTools *
make(const char *text)
{
    g_autoptr(GError) error = NULL;
    IpbApplicationTools *tools = ipb_application_tools_new(text, strlen(text), &error);
    g_assert_no_error(error);
    return tools;
}

/* --- what is read ---------------------------------------------------------------------------- */

static void
test_packages(void)
{
    g_autoptr(IpbApplicationTools) tools = make(TOOLS);
    gsize size;
    const char *text = g_bytes_get_data(ipb_application_tools_packages(tools), &size);
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *package = ipb_json_get(ipb_json_root(document), "app");
    static const char *const NAMES[] = {"__init__.py", "a.py", "b_c.py", ".tools.jsonl"};
    g_assert_cmpuint(ipb_json_length(package), ==, G_N_ELEMENTS(NAMES));
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++)
        g_assert_nonnull(ipb_json_get_string(package, NAMES[i]));
    g_assert_nonnull(strstr(ipb_json_get_string(package, "__init__.py"), "\"application:app\""));
}

static void
assert_not_found(const IpbApplicationTools *tools, const char *id, const char *tool)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_application_tools_find(tools, id, tool, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
}

static void
test_find(void)
{
    g_autoptr(IpbApplicationTools) tools = make(TOOLS);
    g_assert_cmpstr(ipb_application_tools_find(tools, "application:app", "b/c", NULL), ==, "app");
    assert_not_found(tools, "application:app", "b_c");
    assert_not_found(tools, "application:app", "A");
    assert_not_found(tools, "application:", "a");
    assert_not_found(tools, "app", "a");
    assert_not_found(NULL, "application:app", "a");
    g_assert_true(ipb_application_tools_is_id("application:"));
    g_assert_false(ipb_application_tools_is_id("app"));
    g_autoptr(IpbApplicationTools) none = make("{}");
    assert_not_found(none, "application:app", "a");
}

/* --- calls ----------------------------------------------------------------------------------- */

typedef struct {
    IpbLoop *loop;
    IpbApprovals *approvals;
    IpbToolHost *host;
    uint64_t given;     /* the call that the application runs; 0: none */
    uint64_t cancelled; /* likewise, the last one that was cancelled */
    unsigned n_ended;
    char *ended; /* the result, or "CODE: message" */
} Test;

static void
on_application_call(uint64_t call, const char *server_name, const char *tool_name,
                    const char *arguments, size_t size, void *data)
{
    Test *test = data;
    g_assert_cmpstr(server_name, ==, "app");
    g_assert_cmpstr(tool_name, ==, "a");
    g_assert_cmpmem(arguments, size, "{\"x\":1}", 7);
    test->given = call;
}

static void
on_application_cancel(uint64_t call, void *data)
{
    ((Test *) data)->cancelled = call;
}

static void
on_ended(GBytes *result, const GError *error, void *data)
{
    Test *test = data;
    test->n_ended++;
    g_free(test->ended);
    if (error != NULL) {
        test->ended = g_strdup_printf("%d: %s", error->code, error->message);
        return;
    }
    gsize size;
    const char *text = g_bytes_get_data(result, &size);
    test->ended = g_strndup(text, size);
}

static void
set_up(Test *test, IpbApprovalPolicy policy)
{
    g_autoptr(IpbApplicationTools) tools = make(TOOLS);
    *test = (Test){ipb_loop_new(NULL, NULL)};
    test->approvals = ipb_approvals_new(
        test->loop, &(IpbApprovalOptions){.policy = policy, .timeout_ms = -1, .data = test});
    test->host = ipb_tool_host_new(test->loop, &(IpbToolHostOptions){
                                                   .approvals = test->approvals,
                                                   .application_tools = tools,
                                                   .on_application_call = on_application_call,
                                                   .on_application_cancel = on_application_cancel,
                                                   .data = test,
                                               });
}

static void
tear_down(Test *test)
{
    ipb_tool_host_free(test->host);
    ipb_approvals_free(test->approvals);
    ipb_loop_unref(test->loop);
    g_free(test->ended);
}

static uint64_t
call(Test *test, const char *id, const char *tool, IpbToolResultForm form)
{
    unsigned n_ended = test->n_ended;
    test->given = 0;
    uint64_t handle =
        ipb_tool_host_call(test->host, id, "any", NULL, tool, "{\"x\":1}", 7, form, on_ended, test);
    while (test->given == 0 && test->n_ended == n_ended)
        g_main_context_iteration(NULL, TRUE);
    return handle;
}

static void
answer(Test *test, const char *text)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
    ipb_tool_host_answer_application(test->host, test->given, ipb_json_root(document), &document,
                                     NULL);
}

static void
test_answers(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ALLOW);
    static const char *const CASES[][2] = {
        {"{\"structuredContent\":[1]}", "[1]"},
        {"{\"content\":[{\"type\":\"text\",\"text\":\"t\"}]}", "\"t\""},
        {"{}", "null"},
        {"{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"no\"}]}", "app.a: no"},
        {"[]", "no result of a tool"},
        {"{\"content\":{}}", "no result of a tool"},
        {"{\"content\":[null]}", "no result of a tool"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        call(&test, "application:app", "a", IPB_TOOL_RESULT_VALUE);
        answer(&test, CASES[i][0]);
        answer(&test, "{\"structuredContent\":\"second\"}");
        g_assert_cmpuint(test.n_ended, ==, i + 1);
        if (strstr(test.ended, CASES[i][1]) == NULL)
            g_error("%s: %s", CASES[i][0], test.ended);
    }
    call(&test, "application:app", "a", IPB_TOOL_RESULT_WHOLE);
    answer(&test, "{\"structuredContent\":1,\"more\":2}");
    g_assert_cmpstr(test.ended, ==, "{\"structuredContent\":1,\"more\":2}");
    tear_down(&test);
}

/* A text of any length, cut between two characters. */
static void
test_long_error(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ALLOW);
    call(&test, "application:app", "a", IPB_TOOL_RESULT_VALUE);
    g_autoptr(GString) text = g_string_new("x");
    while (text->len < 200000)
        g_string_append(text, "ä");
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT, text->str);
    ipb_tool_host_answer_application(test.host, test.given, NULL, NULL, error);
    g_assert_true(g_utf8_validate(test.ended, -1, NULL));
    g_assert_true(g_str_has_suffix(test.ended, "ä…"));
    g_assert_cmpuint(strlen(test.ended), <, 66000);
    /* A timeout would be one of an approval. */
    g_autofree char *prefix = g_strdup_printf("%d: app.a: xä", IPYBOX_ERROR_SERVER);
    g_assert_true(g_str_has_prefix(test.ended, prefix));
    tear_down(&test);
}

static void
test_calls_that_are_refused(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *not_found = g_strdup_printf("%d: ", IPYBOX_ERROR_NOT_FOUND);
    static const char *const CASES[][2] = {
        {"application:app", "nosuch"}, {"application:other", "a"}, {"application:", "a"}};
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        call(&test, CASES[i][0], CASES[i][1], IPB_TOOL_RESULT_VALUE);
        g_assert_cmpuint(test.given, ==, 0);
        g_assert_true(g_str_has_prefix(test.ended, not_found));
    }
    tear_down(&test);
    set_up(&test, IPB_APPROVAL_DENY);
    call(&test, "application:app", "a", IPB_TOOL_RESULT_VALUE);
    g_assert_cmpuint(test.given, ==, 0);
    g_autofree char *refused = g_strdup_printf("%d: ", IPYBOX_ERROR_REFUSED);
    g_assert_true(g_str_has_prefix(test.ended, refused));
    tear_down(&test);
}

static void
test_cancel(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ALLOW);
    uint64_t handle = call(&test, "application:app", "a", IPB_TOOL_RESULT_VALUE);
    ipb_tool_host_cancel(test.host, handle);
    g_assert_cmpuint(test.cancelled, ==, test.given);
    answer(&test, "{}");
    g_assert_cmpuint(test.n_ended, ==, 0);
    call(&test, "application:app", "a", IPB_TOOL_RESULT_VALUE);
    ipb_tool_host_reset(test.host, NULL, NULL);
    g_assert_cmpuint(test.cancelled, ==, test.given);
    answer(&test, "{}");
    while (test.n_ended == 0)
        g_main_context_iteration(NULL, TRUE);
    g_autofree char *cancelled = g_strdup_printf("%d: ", IPYBOX_ERROR_CANCELLED);
    g_assert_true(g_str_has_prefix(test.ended, cancelled));
    call(&test, "application:app", "a", IPB_TOOL_RESULT_VALUE);
    uint64_t last = test.given;
    tear_down(&test);
    g_assert_cmpuint(test.cancelled, ==, last);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tools/application-tools/packages", test_packages);
    g_test_add_func("/tools/application-tools/find", test_find);
    g_test_add_func("/tools/application-tools/answers", test_answers);
    g_test_add_func("/tools/application-tools/long-error", test_long_error);
    g_test_add_func("/tools/application-tools/refused", test_calls_that_are_refused);
    g_test_add_func("/tools/application-tools/cancel", test_cancel);
    return g_test_run();
}
