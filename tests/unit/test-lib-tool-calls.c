/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools that a program offers to its sessions, through the library: answers at once and later,
 * errors, calls that need no answer any more, branches.
 */
#include "lib-fixture.h"

#include <string.h>

#define TOOLS                                                                                      \
    "{\"home\": [{\"name\": \"measure\", \"description\": \"Measures.\", \"inputSchema\": "        \
    "{\"type\": \"object\", \"properties\": {\"room\": {\"type\": \"string\"}}}, "                 \
    "\"outputSchema\": {}}]}"
#define CELL "from mcptools.home import measure; measure.run(room='kitchen')"

/* What the program does about a call, and what it saw. */
typedef struct {
    const char *value; /* JSON; NULL: see the next one */
    const char *error; /* NULL: the call is kept */
    bool drops;        /* neither: the call is not kept */
    IpyboxToolCall *kept;
    IpyboxToolCall *cancelled; /* as reported; borrowed from `kept` */
    IpyboxSession *caller;
    unsigned n_calls;
    GCancellable *cancellable; /* cancelled when a call is kept; or NULL */
    void (*act)(Fixture *fixture);
    Fixture *fixture;
} Home;

static void
on_tool_call(IpyboxSession *session, IpyboxToolCall *call, gpointer data)
{
    Home *home = data;
    home->n_calls++;
    home->caller = session;
    g_assert_cmpstr(ipybox_tool_call_get_server(call), ==, "home");
    g_assert_cmpstr(ipybox_tool_call_get_tool(call), ==, "measure");
    g_assert_cmpstr(ipybox_tool_call_get_arguments(call), ==, "{\"room\":\"kitchen\"}");
    if (home->value != NULL) {
        g_assert_true(ipybox_tool_call_return(call, home->value, NULL));
        g_autoptr(GError) error = NULL;
        g_assert_false(ipybox_tool_call_return(call, home->value, &error)); /* it has ended */
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED);
    } else if (home->error != NULL) {
        g_assert_true(ipybox_tool_call_fail(call, home->error));
        g_assert_false(ipybox_tool_call_fail(call, home->error));
    } else if (!home->drops) {
        home->kept = ipybox_tool_call_ref(call);
        if (home->cancellable != NULL)
            g_cancellable_cancel(home->cancellable);
        if (home->act != NULL)
            home->act(home->fixture);
    }
}

static void
on_tool_cancelled(IpyboxSession *session, IpyboxToolCall *call, gpointer data)
{
    Home *home = data;
    g_assert_true(call == home->kept);
    home->cancelled = call;
    g_assert_false(ipybox_tool_call_fail(call, "too late"));
}

static IpyboxSessionOptions
home_options(const Fixture *fixture, Home *home)
{
    IpyboxSessionOptions options = session_options(fixture);
    options.approval = IPYBOX_APPROVAL_ALLOW;
    options.application_tools = TOOLS;
    options.on_tool_call = on_tool_call;
    options.on_tool_cancelled = on_tool_cancelled;
    options.user_data = home;
    return options;
}

static void
set_up(Fixture *fixture, Home *home)
{
    fixture_set_up(fixture, NULL);
    ipybox_session_free(fixture->session);
    home->fixture = fixture;
    IpyboxSessionOptions options = home_options(fixture, home);
    fixture->session = new_session(fixture, &options);
}

static void
home_clear(Home *home)
{
    ipybox_tool_call_unref(home->kept);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Home, home_clear)

static void
assert_fails(IpyboxSession *session, const char *why)
{
    g_autoptr(IpyboxResult) result = run(session, CELL, IPYBOX_STATUS_ERROR);
    g_assert_cmpstr(ipybox_result_get_error_name(result), ==, "ToolRunnerError");
    g_assert_cmpstr(ipybox_result_get_error_value(result), ==, why);
}

static void
test_at_once(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Home) home = {.value = "{\"celsius\": 21}"};
    set_up(&fixture, &home);
    assert_prints(fixture.session, CELL, "{'celsius': 21}");
    home.value = "null";
    g_autoptr(IpyboxResult) result = run(fixture.session, CELL, IPYBOX_STATUS_OK);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "");
    home.value = NULL;
    home.error = "it is \xff too cold";
    assert_fails(fixture.session, "home.measure: it is \xef\xbf\xbd too cold");
    home.error = NULL;
    home.drops = true;
    assert_fails(fixture.session, "home.measure: the application has not answered");
    g_assert_cmpuint(home.n_calls, ==, 4);
}

static void
start_call(Fixture *fixture, Home *home, GCancellable *cancellable, Answer *answer)
{
    ipybox_session_execute_async(fixture->session, CELL, NULL, cancellable, on_answer, answer);
    while (home->kept == NULL)
        g_main_context_iteration(NULL, TRUE);
}

static void
test_later(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Home) home = {0};
    g_auto(Answer) answer = {0};
    set_up(&fixture, &home);
    start_call(&fixture, &home, NULL, &answer);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_tool_call_return(home.kept, "{\"a\": 1}, \"isError\": true", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_false(ipybox_tool_call_return(home.kept, "", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_false(ipybox_tool_call_return_text(home.kept, "\xff", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_autofree char *huge = g_strnfill((64 << 20) + 1, '1');
    g_assert_false(ipybox_tool_call_return(home.kept, huge, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_clear_error(&error);
    g_assert_false(ipybox_tool_call_return_text(home.kept, huge, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_true(ipybox_tool_call_return_text(home.kept,
                                               "21 \xc2\xb0"
                                               "C\n",
                                               NULL));
    wait_for(&answer);
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute_finish(fixture.session, answer.result, NULL);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "'21 °C\\n'");
}

/* The call is the program's to the end, whatever ends it. */
static void
test_cancelled(void)
{
    g_auto(Fixture) fixture = {0};
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_auto(Home) home = {.cancellable = cancellable};
    g_auto(Answer) answer = {0};
    set_up(&fixture, &home);
    start_call(&fixture, &home, cancellable, &answer);
    wait_for(&answer);
    while (home.cancelled == NULL)
        g_main_context_iteration(NULL, TRUE);
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute_finish(fixture.session, answer.result, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_CANCELLED);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_tool_call_return(home.kept, "1", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED);
}

static void
close_session(Fixture *fixture)
{
    ipybox_session_close_async(fixture->session, NULL, NULL);
}

static void
free_session(Fixture *fixture)
{
    g_clear_pointer(&fixture->session, ipybox_session_free);
}

static void
free_runtime(Fixture *fixture)
{
    g_clear_pointer(&fixture->runtime, ipybox_runtime_free);
}

static void
test_ends_in_the_callback(void)
{
    void (*const acts[])(Fixture * fixture) = {close_session, free_session, free_runtime};
    for (size_t i = 0; i < G_N_ELEMENTS(acts); i++) {
        g_auto(Fixture) fixture = {0};
        g_auto(Home) home = {.act = acts[i]};
        g_auto(Answer) answer = {0};
        set_up(&fixture, &home);
        start_call(&fixture, &home, NULL, &answer);
        wait_for(&answer);
        while (g_main_context_iteration(NULL, FALSE))
            ;
        g_assert_false(ipybox_tool_call_fail(home.kept, "too late"));
        g_assert_true((home.cancelled != NULL) == (acts[i] == close_session));
        if (fixture.session != NULL)
            free_session(&fixture);
    }
}

static void
test_branches(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Home) home = {.value = "1"};
    set_up(&fixture, &home);
    assert_prints(fixture.session, CELL, "1");
    IpyboxForkOptions options = IPYBOX_FORK_OPTIONS_INIT;
    options.user_data = &home;
    g_autoptr(IpyboxSession) branch = ipybox_session_fork(fixture.session, &options, NULL, NULL);
    g_assert_nonnull(branch);
    free_session(&fixture);
    home.value = "2";
    assert_prints(branch, CELL, "2");
    g_assert_true(home.caller == branch);
}

static void
assert_wrong(const Fixture *fixture, const IpyboxSessionOptions *options, const char *why)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_new(fixture->runtime, options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    if (strstr(error->message, why) == NULL)
        g_error("%s", error->message);
}

static void
test_wrong_options(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Home) home = {0};
    set_up(&fixture, &home);
    IpyboxSessionOptions options = home_options(&fixture, &home);
    options.on_tool_call = NULL;
    assert_wrong(&fixture, &options, "needs on_tool_call");
    options.on_tool_call = on_tool_call;
    options.application_tools = "{\"home\": {}}";
    assert_wrong(&fixture, &options, "home must be an array");
    options.application_tools = "{";
    assert_wrong(&fixture, &options, "application_tools: ");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/lib/tool-calls/at-once", test_at_once);
    add_test("/lib/tool-calls/later", test_later);
    add_test("/lib/tool-calls/cancelled", test_cancelled);
    add_test("/lib/tool-calls/ends-in-the-callback", test_ends_in_the_callback);
    add_test("/lib/tool-calls/branches", test_branches);
    add_test("/lib/tool-calls/wrong-options", test_wrong_options);
    return g_test_run();
}
