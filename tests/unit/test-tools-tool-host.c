/* SPDX-License-Identifier: Apache-2.0
 *
 * Behaviour that the tool channel does not show (tests/integration/test_tool_channel.py tests the
 * rest).
 */
#include "tools/tool-host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "json/writer.h"

typedef struct {
    IpbLoop *loop;
    IpbApprovals *approvals;
    IpbToolHost *host;
    GString *log;      /* "fake stderr text\n" for each */
    GString *progress; /* "fake.tool 0.5\n" for each */
    size_t n_asked;
} Test;

typedef struct {
    unsigned n_ended;
    char *result; /* the result, or "CODE: message" */
} Answer;

static void
on_log(const char *server_name, const char *level, const char *text, void *data)
{
    g_string_append_printf(((Test *) data)->log, "%s %s %s\n", server_name, level, text);
}

static void
on_progress(const char *server_name, const char *tool_name, const IpbMcpProgress *progress,
            void *data)
{
    g_string_append_printf(((Test *) data)->progress, "%s.%s %g\n", server_name, tool_name,
                           progress->progress);
}

static void
count_approval(const IpbApprovalRequest *request, void *data)
{
    g_assert_nonnull(request->server_params);
    ((Test *) data)->n_asked++;
}

static void
set_up_with(Test *test, IpbApprovalPolicy policy, bool takes_params)
{
    *test =
        (Test){ipb_loop_new(NULL, NULL), .log = g_string_new(NULL), .progress = g_string_new(NULL)};
    test->approvals = ipb_approvals_new(
        test->loop, &(IpbApprovalOptions){.policy = policy,
                                          .timeout_ms = -1,
                                          .ask = takes_params ? count_approval : NULL,
                                          .data = test});
    static const char *const ENV[] = {"GIVEN=silent", NULL};
    IpbToolHostOptions options = {
        .approvals = test->approvals,
        .env = ENV,
        .connect_timeout_ms = 20000,
        .takes_params = takes_params,
        .on_log = on_log,
        .on_progress = on_progress,
        .data = test,
    };
    test->host = ipb_tool_host_new(test->loop, &options);
}

static void
set_up(Test *test, IpbApprovalPolicy policy)
{
    set_up_with(test, policy, false);
}

static void
tear_down(Test *test)
{
    ipb_tool_host_free(test->host);
    ipb_approvals_free(test->approvals);
    ipb_loop_unref(test->loop);
    g_string_free(test->log, TRUE);
    g_string_free(test->progress, TRUE);
}

static const char *
find_python(void)
{
    static char path[4096];
    if (*path == '\0') {
        FILE *output = popen("python3 -c 'import sys; print(sys.executable)'", "r");
        g_assert_nonnull(fgets(path, sizeof path, output));
        pclose(output);
        path[strcspn(path, "\n")] = '\0';
    }
    return path;
}

static const char *
find_server(void)
{
    return g_test_get_filename(G_TEST_DIST, "..", "scripted_server", "scripted_server.py", NULL);
}

/* Allows the script "hostile" in a mode; returns its id. */
static char *
allow(Test *test, const char *mode)
{
    g_autofree char *params =
        g_strdup_printf("{\"command\":\"%s\",\"args\":[\"-I\",\"-S\",\"%s\",\"hostile\",\"%s\"]}",
                        find_python(), find_server(), mode);
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(params, strlen(params), &IPB_JSON_LIMITS_SMALL, NULL);
    char *id = ipb_registry_make_id("fake", ipb_json_root(document));
    char *no_roots[] = {NULL};
    ipb_tool_host_allow(test->host, &(IpbRegistration){id, (char *) "fake", params, no_roots});
    return id;
}

static void
on_ended(GBytes *result, const GError *error, void *data)
{
    Answer *answer = data;
    g_assert_true((result == NULL) != (error == NULL));
    answer->n_ended++;
    if (error != NULL) {
        answer->result = g_strdup_printf("%d: %s", error->code, error->message);
    } else {
        gsize size;
        const char *text = g_bytes_get_data(result, &size);
        answer->result = g_strndup(text, size);
    }
}

static uint64_t
call(Test *test, const char *id, const char *tool, Answer *answer)
{
    *answer = (Answer){0};
    uint64_t handle = ipb_tool_host_call(test->host, id, "fake", NULL, tool, "{}", 2,
                                         IPB_TOOL_RESULT_VALUE, on_ended, answer);
    g_assert_cmpuint(answer->n_ended, ==, 0);
    return handle;
}

static void
expect(Answer *answer, const char *prefix)
{
    while (answer->n_ended == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(answer->n_ended, ==, 1);
    if (!g_str_has_prefix(answer->result, prefix))
        g_error("\"%s\" does not begin with \"%s\"", answer->result, prefix);
    g_free(answer->result);
}

static void
expect_error(Answer *answer, int code)
{
    g_autofree char *prefix = g_strdup_printf("%d: ", code);
    expect(answer, prefix);
}

static void
on_done(void *data)
{
    ++*(int *) data;
}

static void
wait_done(const int *n_done)
{
    while (*n_done == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpint(*n_done, ==, 1);
}

/* --- replaced registrations --- */

static char *
make_params(int timeout)
{
    return g_strdup_printf(
        "{\"command\":\"%s\",\"args\":[\"-I\",\"-S\",\"%s\",\"hostile\"],\"timeout\":%d}",
        find_python(), find_server(), timeout);
}

/* Registers the fake server with this timeout and root. Returns its id. */
static char *
allow_at(Test *test, int timeout, const char *root)
{
    g_autofree char *params = make_params(timeout);
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(params, strlen(params), &IPB_JSON_LIMITS_SMALL, NULL);
    char *id = ipb_registry_make_id("fake", ipb_json_root(document));
    char *roots[] = {(char *) root, NULL};
    ipb_tool_host_allow(test->host, &(IpbRegistration){id, (char *) "fake", params, roots});
    return id;
}

static void
expect_replaced(Test *test, const char *id, const char *by)
{
    Answer answer;
    g_autofree char *error =
        g_strdup_printf("%d: MCP server \"fake\" (id %s) was replaced by the registration %s (%s, "
                        "package in /r): ",
                        IPYBOX_ERROR_NOT_FOUND, id, by, find_python());
    call(test, id, "echo", &answer);
    expect(&answer, error);
}

static void
test_superseded(void)
{
    Test test;
    Answer answer;
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *elsewhere = allow_at(&test, 100, "/elsewhere");
    g_autofree char *first = allow_at(&test, 101, "/r");
    call(&test, first, "echo", &answer);
    expect(&answer, "{}");
    g_autofree char *second = allow_at(&test, 102, "/r");
    expect_replaced(&test, first, second);
    call(&test, second, "echo", &answer);
    expect(&answer, "{}");
    call(&test, elsewhere, "echo", &answer);
    expect(&answer, "{}");
    /* The first one again. */
    g_autofree char *again = allow_at(&test, 101, "/r");
    g_assert_cmpstr(again, ==, first);
    expect_replaced(&test, second, first);
    call(&test, first, "echo", &answer);
    expect(&answer, "{}");
    tear_down(&test);
}

/* A package was replaced before the session began, so only the name is known. */
static void
test_superseded_earlier(void)
{
    static const char OLD[] = "0123456789abcdef0123456789abcdef";
    Test test;
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *id = allow_at(&test, 100, "/r");
    expect_replaced(&test, OLD, id);
    tear_down(&test);
}

/* --- servers by parameters --- */

static uint64_t
call_by_params(Test *test, const char *name, const char *params, const char *tool, Answer *answer)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(params, strlen(params), &IPB_JSON_LIMITS_SMALL, NULL);
    *answer = (Answer){0};
    return ipb_tool_host_call(test->host, NULL, name, ipb_json_root(document), tool, "{}", 2,
                              IPB_TOOL_RESULT_VALUE, on_ended, answer);
}

static void
test_unregistered(void)
{
    Test test;
    Answer answer;
    g_autofree char *params =
        g_strdup_printf("{\"command\":\"%s\",\"args\":[\"-I\",\"-S\",\"%s\",\"hostile\"]}",
                        find_python(), find_server());
    g_autofree char *turned =
        g_strdup_printf("{ \"args\":[\"-I\",\"-S\",\"%s\",\"hostile\"],\"command\":\"%s\" }",
                        find_server(), find_python());
    set_up_with(&test, IPB_APPROVAL_ALLOW, true);
    call_by_params(&test, "fake", params, "pid", &answer);
    while (answer.n_ended == 0)
        g_main_context_iteration(NULL, TRUE);
    g_autofree char *pid = answer.result;
    g_assert_cmpint(atoi(pid + 1), >, 1); /* a JSON string */
    call_by_params(&test, "fake", turned, "pid", &answer);
    expect(&answer, pid);
    /* It was registered in the meantime, and is the same server. */
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(params, strlen(params), &IPB_JSON_LIMITS_SMALL, NULL);
    g_autofree char *id = ipb_registry_make_id("fake", ipb_json_root(document));
    char *no_roots[] = {NULL};
    ipb_tool_host_allow(test.host, &(IpbRegistration){id, (char *) "fake", params, no_roots});
    call(&test, id, "pid", &answer);
    expect(&answer, pid);
    /* A registration that was requested with other parameters. */
    g_autoptr(IpbJsonDoc) other =
        ipb_json_parse("{\"command\":\"x\"}", 15, &IPB_JSON_LIMITS_SMALL, NULL);
    ipb_tool_host_add_alias(test.host, "fake", ipb_json_root(other), id);
    call_by_params(&test, "fake", "{\"command\":\"x\"}", "pid", &answer);
    expect(&answer, pid);
    tear_down(&test);
}

/* Its parameters do not lead to it: without a sandbox, the call is one of a server that is not
 * registered. */
static void
test_superseded_by_params(void)
{
    for (int takes_params = 0; takes_params <= 1; takes_params++) {
        Test test;
        Answer answer;
        set_up_with(&test, takes_params ? IPB_APPROVAL_ASK : IPB_APPROVAL_ALLOW, takes_params);
        g_autofree char *params = make_params(101);
        g_autofree char *other = make_params(103);
        g_autofree char *first = allow_at(&test, 101, "/r");
        g_autoptr(IpbJsonDoc) asked =
            ipb_json_parse(other, strlen(other), &IPB_JSON_LIMITS_SMALL, NULL);
        ipb_tool_host_add_alias(test.host, "fake", ipb_json_root(asked), first);
        g_autofree char *second = allow_at(&test, 102, "/r");
        g_autofree char *error =
            g_strdup_printf("%d: MCP server \"fake\" (id %s) was replaced by the registration %s",
                            IPYBOX_ERROR_NOT_FOUND, first, second);
        const char *const each[] = {params, other};
        for (size_t i = 0; i < G_N_ELEMENTS(each); i++) {
            call_by_params(&test, "fake", each[i], "echo", &answer);
            while (takes_params && test.n_asked <= i)
                g_main_context_iteration(NULL, TRUE);
            if (!takes_params)
                expect(&answer, error);
        }
        tear_down(&test);
    }
}

static void
test_unregistered_refused(void)
{
    Test test;
    Answer answer;
    g_autofree char *many = g_strnfill(64 * 1024, 'x');
    g_autofree char *large = g_strdup_printf("{\"command\":\"%s\"}", many);
    set_up_with(&test, IPB_APPROVAL_ALLOW, true);
    call_by_params(&test, "fake", "{}", "echo", &answer);
    expect_error(&answer, IPYBOX_ERROR_INVALID);
    call_by_params(&test, "a b", "{\"command\":\"x\"}", "echo", &answer);
    expect_error(&answer, IPYBOX_ERROR_INVALID);
    call_by_params(&test, "ipybox", "{\"command\":\"x\"}", "shell", &answer);
    expect_error(&answer, IPYBOX_ERROR_INVALID);
    call_by_params(&test, "fake", large, "echo", &answer);
    expect_error(&answer, IPYBOX_ERROR_LIMIT);
    tear_down(&test);
    set_up(&test, IPB_APPROVAL_ALLOW);
    call_by_params(&test, "fake", "{\"command\":\"x\"}", "echo", &answer);
    expect_error(&answer, IPYBOX_ERROR_NOT_FOUND);
    tear_down(&test);
}

/* Each server waits for an answer, so none can be removed. */
static void
test_unregistered_many(void)
{
    enum { MAX = 64 };
    Test test;
    Answer answers[MAX], answer;
    uint64_t calls[MAX];
    set_up_with(&test, IPB_APPROVAL_ASK, true);
    for (int i = 0; i < MAX; i++) {
        g_autofree char *params = g_strdup_printf("{\"command\":\"x%d\"}", i);
        calls[i] = call_by_params(&test, "fake", params, "echo", &answers[i]);
    }
    call_by_params(&test, "fake", "{\"command\":\"y\"}", "echo", &answer);
    expect_error(&answer, IPYBOX_ERROR_LIMIT);
    ipb_tool_host_cancel(test.host, calls[7]);
    call_by_params(&test, "fake", "{\"command\":\"y\"}", "echo", &answer);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    g_assert_cmpuint(answer.n_ended, ==, 0);
    tear_down(&test);
}

static void
test_log_and_progress(void)
{
    Test test;
    Answer answer;
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *id = allow(&test, "");
    call(&test, id, "progress", &answer);
    expect(&answer, "\"done\"");
    g_assert_cmpstr(test.progress->str, ==,
                    "fake.progress 0\nfake.progress 0.5\nfake.progress 1\n");
    call(&test, id, "log", &answer);
    expect(&answer, "\"\"");
    g_assert_true(g_str_has_prefix(test.log->str, "fake error "));
    tear_down(&test);
}

/* Calls that wait for one connect get its error, and the next call tries again. */
static void
test_connect_fails(void)
{
    Test test;
    Answer first, second;
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *id = allow(&test, "refuse");
    call(&test, id, "echo", &first);
    call(&test, id, "echo", &second);
    expect_error(&first, IPYBOX_ERROR_SERVER);
    expect_error(&second, IPYBOX_ERROR_SERVER);
    call(&test, id, "echo", &first);
    expect_error(&first, IPYBOX_ERROR_SERVER);
    tear_down(&test);
}

static void
test_missing_variable(void)
{
    Test test;
    Answer first, second;
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *id = allow(&test, "${MISSING}");
    call(&test, id, "echo", &first);
    call(&test, id, "echo", &second);
    while (first.n_ended == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_nonnull(strstr(first.result, "MISSING"));
    expect_error(&first, IPYBOX_ERROR_NOT_FOUND);
    expect_error(&second, IPYBOX_ERROR_NOT_FOUND);
    tear_down(&test);
}

/* TIMEOUT is kept for approvals: a silent server gives SERVER. */
static void
test_silent_server(void)
{
    Test test;
    Answer answer;
    set_up(&test, IPB_APPROVAL_ALLOW);
    ipb_tool_host_free(test.host);
    static const char *const ENV[] = {"GIVEN=silent", NULL};
    test.host = ipb_tool_host_new(
        test.loop,
        &(IpbToolHostOptions){.approvals = test.approvals, .env = ENV, .connect_timeout_ms = 50});
    g_autofree char *id = allow(&test, "${GIVEN}"); /* the variable is replaced */
    call(&test, id, "echo", &answer);
    expect_error(&answer, IPYBOX_ERROR_SERVER);
    tear_down(&test);
}

static void
test_reset_while_connecting(void)
{
    Test test;
    Answer first, second;
    int n_done = 0;
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *id = allow(&test, "");
    call(&test, id, "pid", &first);
    while (g_main_context_iteration(NULL, FALSE))
        ; /* approved, and the server starts */
    ipb_tool_host_reset(test.host, on_done, &n_done);
    g_assert_cmpuint(first.n_ended, ==, 0);
    g_assert_cmpint(n_done, ==, 0);
    /* The call runs at once, in another server, which the end of the first does not affect. */
    call(&test, id, "pid", &second);
    expect_error(&first, IPYBOX_ERROR_CANCELLED);
    expect(&second, "\"");
    wait_done(&n_done);
    call(&test, id, "echo", &second);
    expect(&second, "{}");
    tear_down(&test);
}

static void
test_reset(void)
{
    Test test;
    Answer answer;
    int n_done = 0, n_done_again = 0;
    set_up(&test, IPB_APPROVAL_ALLOW);
    ipb_tool_host_reset(test.host, on_done, &n_done); /* nothing runs */
    g_assert_cmpint(n_done, ==, 0);
    wait_done(&n_done);
    g_autofree char *id = allow(&test, "");
    call(&test, id, "echo", &answer);
    expect(&answer, "{}");
    call(&test, id, "never", &answer);
    n_done = 0;
    ipb_tool_host_reset(test.host, on_done, &n_done);
    ipb_tool_host_reset(test.host, on_done, &n_done_again);
    expect_error(&answer, IPYBOX_ERROR_CANCELLED);
    wait_done(&n_done);
    wait_done(&n_done_again);
    call(&test, id, "echo", &answer);
    expect(&answer, "{}");
    tear_down(&test);
}

static void
test_cancel(void)
{
    Test test;
    Answer waiting, running, next;
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *id = allow(&test, "");
    uint64_t first = call(&test, id, "echo", &waiting);
    ipb_tool_host_cancel(test.host, first);
    call(&test, id, "echo", &next);
    expect(&next, "{}");
    uint64_t second = call(&test, id, "never", &running);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    ipb_tool_host_cancel(test.host, second);
    ipb_tool_host_cancel(test.host, second);
    call(&test, id, "cancelled", &next);
    expect(&next, "\"[{\\\"requestId\\\"");
    g_assert_cmpuint(waiting.n_ended + running.n_ended, ==, 0);
    tear_down(&test);
}

static void
test_no_one_to_ask(void)
{
    Test test;
    Answer answer;
    set_up(&test, IPB_APPROVAL_ASK);
    g_autofree char *id = allow(&test, "");
    call(&test, id, "echo", &answer);
    expect_error(&answer, IPYBOX_ERROR_REFUSED);
    call(&test, "unknown", "echo", &answer);
    expect_error(&answer, IPYBOX_ERROR_NOT_FOUND);
    tear_down(&test);
}

/* The host is freed in every state of a call: waiting for approval, for the server, for an answer.
 * The leak checker finds what remains. */
static void
test_free_with_calls(void)
{
    enum { APPROVAL, CONNECT, ANSWER, N_STATES };
    for (int state = APPROVAL; state < N_STATES; state++) {
        Test test;
        Answer answer, other;
        set_up(&test, IPB_APPROVAL_ALLOW);
        g_autofree char *id = allow(&test, "");
        if (state == ANSWER) {
            call(&test, id, "echo", &answer);
            expect(&answer, "{}");
        }
        call(&test, id, "never", &answer);
        if (state != APPROVAL)
            g_main_context_iteration(NULL, TRUE);
        call(&test, "unknown", "echo", &other);
        tear_down(&test);
        g_assert_cmpuint(answer.n_ended + other.n_ended, ==, 0);
    }
}

static void
test_too_many(void)
{
    Test test;
    Answer answer;
    static Answer many[1000];
    set_up(&test, IPB_APPROVAL_ALLOW);
    g_autofree char *id = allow(&test, "");
    for (size_t i = 0; i < G_N_ELEMENTS(many); i++)
        call(&test, id, "never", &many[i]);
    call(&test, id, "never", &answer);
    expect_error(&answer, IPYBOX_ERROR_LIMIT);
    tear_down(&test);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tools/tool-host/superseded", test_superseded);
    g_test_add_func("/tools/tool-host/superseded-earlier", test_superseded_earlier);
    g_test_add_func("/tools/tool-host/unregistered", test_unregistered);
    g_test_add_func("/tools/tool-host/superseded-by-params", test_superseded_by_params);
    g_test_add_func("/tools/tool-host/unregistered-refused", test_unregistered_refused);
    g_test_add_func("/tools/tool-host/unregistered-many", test_unregistered_many);
    g_test_add_func("/tools/tool-host/log-and-progress", test_log_and_progress);
    g_test_add_func("/tools/tool-host/connect-fails", test_connect_fails);
    g_test_add_func("/tools/tool-host/missing-variable", test_missing_variable);
    g_test_add_func("/tools/tool-host/silent-server", test_silent_server);
    g_test_add_func("/tools/tool-host/reset-while-connecting", test_reset_while_connecting);
    g_test_add_func("/tools/tool-host/reset", test_reset);
    g_test_add_func("/tools/tool-host/cancel", test_cancel);
    g_test_add_func("/tools/tool-host/no-one-to-ask", test_no_one_to_ask);
    g_test_add_func("/tools/tool-host/free-with-calls", test_free_with_calls);
    g_test_add_func("/tools/tool-host/too-many", test_too_many);
    return g_test_run();
}
