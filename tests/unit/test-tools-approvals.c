/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/approvals.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include <glib/gstdio.h>

#include "base/error.h"

/* The events as one line: "ask 1 …", "wait", "run", "done ok". */
typedef struct {
    IpbLoop *loop;
    IpbApprovals *approvals;
    GString *log;
    int answer_at_once; /* 0: not at all; 1: accept; -1: reject */
} Test;

static void
on_ask(const IpbApprovalRequest *request, void *data)
{
    Test *test = data;
    g_string_append_printf(test->log, "ask %d %s.%s %.*s; ", (int) request->id,
                           request->server_name, request->tool_name, (int) request->arguments_size,
                           request->arguments_json);
    if (test->answer_at_once != 0)
        g_assert_true(
            ipb_approvals_respond(test->approvals, request->id, test->answer_at_once > 0));
}

static void
on_wait(bool is_waiting, void *data)
{
    Test *test = data;
    g_string_append(test->log, is_waiting ? "wait; " : "run; ");
}

static void
on_answer(const GError *error, void *data)
{
    Test *test = data;
    g_string_append_printf(test->log, "%s; ", error == NULL ? "ok" : error->message);
}

static void
set_up(Test *test, IpbApprovalPolicy policy, int64_t timeout_ms, bool can_ask)
{
    *test = (Test){.loop = ipb_loop_new(NULL, NULL), .log = g_string_new(NULL)};
    IpbApprovalOptions options = {
        .policy = policy,
        .timeout_ms = timeout_ms,
        .ask = can_ask ? on_ask : NULL,
        .on_wait = on_wait,
        .data = test,
    };
    test->approvals = ipb_approvals_new(test->loop, &options);
}

static void
tear_down(Test *test)
{
    ipb_approvals_free(test->approvals);
    ipb_loop_unref(test->loop);
    g_string_free(test->log, TRUE);
}

static uint64_t
request(Test *test, const char *arguments)
{
    return ipb_approvals_request(test->approvals, "github", NULL, "search", arguments,
                                 strlen(arguments), on_answer, test);
}

static void
run_loop(void)
{
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

static void
expect(Test *test, const char *log)
{
    g_assert_cmpstr(test->log->str, ==, log);
    g_string_truncate(test->log, 0);
}

static void
test_allow(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ALLOW, -1, true);
    request(&test, "{}");
    expect(&test, ""); /* never from within the call */
    run_loop();
    expect(&test, "ok; ");
    tear_down(&test);
}

static void
test_deny_and_no_one(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_DENY, -1, true);
    request(&test, "{}");
    run_loop();
    expect(&test, "the call of github.search was refused: this session allows no tool calls; ");
    tear_down(&test);
    set_up(&test, IPB_APPROVAL_ASK, -1, false);
    request(&test, "{}");
    run_loop();
    expect(&test,
           "Approval request for github.search failed: it needs an approval and there is no one "
           "to ask; ");
    tear_down(&test);
}

static void
test_ask(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ASK, -1, true);
    uint64_t first = request(&test, "{\"q\":1}");
    uint64_t second = request(&test, "{\"q\":2}");
    expect(&test, "wait; ask 1 github.search {\"q\":1}; ask 2 github.search {\"q\":2}; ");
    run_loop();
    expect(&test, "");
    g_assert_true(ipb_approvals_respond(test.approvals, second, true));
    /* Each request has one decision, whatever comes afterwards. */
    g_assert_false(ipb_approvals_respond(test.approvals, second, false));
    run_loop();
    expect(&test, "ok; ");
    g_assert_true(ipb_approvals_respond(test.approvals, first, false));
    run_loop();
    expect(&test, "run; Approval request for github.search rejected; ");
    g_assert_false(ipb_approvals_respond(test.approvals, first, true));
    g_assert_false(ipb_approvals_respond(test.approvals, 99, true));
    tear_down(&test);
}

static void
test_answer_at_once(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ASK, 10000, true);
    test.answer_at_once = 1;
    request(&test, "{}");
    expect(&test, "wait; ask 1 github.search {}; run; ");
    run_loop();
    expect(&test, "ok; ");
    tear_down(&test);
}

static void
test_timeout(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ASK, 5, true);
    uint64_t id = request(&test, "{}");
    g_string_truncate(test.log, 0);
    while (test.log->len < strlen("run; x"))
        g_main_context_iteration(NULL, TRUE);
    expect(&test, "run; Approval request for github.search expired; ");
    g_assert_false(ipb_approvals_respond(test.approvals, id, true));
    tear_down(&test);
}

static void
test_cancel(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ASK, -1, true);
    uint64_t id = request(&test, "{}");
    request(&test, "{}");
    g_string_truncate(test.log, 0);
    ipb_approvals_cancel(test.approvals, id);
    run_loop();
    const char *cancelled =
        "the call of github.search was cancelled while it waited for approval; ";
    expect(&test, cancelled);
    ipb_approvals_cancel_all(test.approvals);
    expect(&test, "run; ");
    run_loop();
    expect(&test, cancelled);
    /* The request was accepted, but the caller left before that was reported: it must not run. */
    id = request(&test, "{}");
    ipb_approvals_respond(test.approvals, id, true);
    ipb_approvals_cancel(test.approvals, id);
    g_string_truncate(test.log, 0);
    run_loop();
    expect(&test, cancelled);
    tear_down(&test);
}

static void
test_free_cancels(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ASK, 1000, true);
    uint64_t id = request(&test, "{}");
    request(&test, "{}");
    ipb_approvals_respond(test.approvals, id, true);
    g_string_truncate(test.log, 0);
    g_clear_pointer(&test.approvals, ipb_approvals_free);
    g_autofree char *twice = g_strdup_printf(
        "%1$s%1$s", "the call of github.search was cancelled while it waited for approval; ");
    expect(&test, twice);
    tear_down(&test);
}

static void
test_policy_changes(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ASK, -1, true);
    uint64_t id = request(&test, "{}");
    ipb_approvals_set_policy(test.approvals, IPB_APPROVAL_ALLOW);
    g_string_truncate(test.log, 0);
    request(&test, "{}");
    run_loop();
    expect(&test, "ok; "); /* the first one still waits for its answer */
    g_assert_true(ipb_approvals_respond(test.approvals, id, false));
    run_loop();
    expect(&test, "run; Approval request for github.search rejected; ");
    tear_down(&test);
}

static void
test_flood(void)
{
    Test test;
    set_up(&test, IPB_APPROVAL_ASK, -1, true);
    for (int i = 0; i < 1000; i++)
        request(&test, "{}");
    g_string_truncate(test.log, 0);
    request(&test, "{}");
    run_loop();
    expect(&test, "the call of github.search was refused: 1000 others wait already; ");
    tear_down(&test);
}

/* Rules come before the policy, and a decision is in the log before it is reported. */
static void
test_rules_and_audit_log(void)
{
    static const char RULES[] =
        "{\"rules\": [{\"arguments\": {\"q\": \"a*\"}, \"decision\": \"allow\"},"
        "{\"arguments\": {\"q\": \"b*\"}, \"decision\": \"deny\", \"reason\": \"no b\"},"
        "{\"arguments\": {\"q\": \"c*\"}, \"decision\": \"ask\"}]}";
    g_autofree char *directory = g_dir_make_tmp("ipb-approval-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(directory, "audit", NULL);
    g_autoptr(IpbApprovalRules) rules =
        ipb_approval_rules_parse(RULES, strlen(RULES), "rules", NULL);
    Test test = {.loop = ipb_loop_new(NULL, NULL), .log = g_string_new(NULL), .answer_at_once = 1};
    IpbApprovalOptions options = {
        .policy = IPB_APPROVAL_DENY,
        .rules = rules,
        .audit_log = ipb_audit_log_open(NULL, path, NULL),
        .timeout_ms = -1,
        .ask = on_ask,
        .data = &test,
    };
    test.approvals = ipb_approvals_new(test.loop, &options);
    static const char *const ARGUMENTS[] = {"{\"q\":\"ab\"}", "{\"q\":\"b\"}", "{\"q\":\"c\"}",
                                            "{\"q\":\"d\"}"};
    for (size_t i = 0; i < G_N_ELEMENTS(ARGUMENTS); i++)
        request(&test, ARGUMENTS[i]);
    run_loop();
    expect(&test, "ask 3 github.search {\"q\":\"c\"}; ok; "
                  "the call of github.search was refused by approval rule 2: no b; ok; "
                  "the call of github.search was refused: no approval rule allows it; ");
    test.answer_at_once = 0;
    request(&test, ARGUMENTS[2]);
    tear_down(&test);
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 6);
    static const char *const ENDS[] = {
        "\"arguments\":{\"q\":\"ab\"},\"decision\":\"allow\",\"by\":\"rule\",\"rule\":1}",
        "\"decision\":\"deny\",\"by\":\"rule\",\"rule\":2,\"reason\":\"no b\"}",
        "\"decision\":\"allow\",\"by\":\"user\",\"rule\":3}",
        "\"decision\":\"deny\",\"by\":\"policy\"}",
        "\"decision\":\"deny\",\"by\":\"cancel\",\"rule\":3}",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ENDS); i++)
        if (!g_str_has_suffix(lines[i], ENDS[i]))
            g_error("%s should end with %s", lines[i], ENDS[i]);
    g_assert_cmpint(g_remove(path), ==, 0);
    g_assert_cmpint(g_rmdir(directory), ==, 0);
}

/* It fails closed: a call that cannot be logged does not run. */
static void
test_audit_log_that_is_full(void)
{
    struct rlimit before, limit;
    g_autofree char *directory = g_dir_make_tmp("ipb-approval-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(directory, "audit", NULL);
    Test test = {.loop = ipb_loop_new(NULL, NULL), .log = g_string_new(NULL)};
    IpbApprovalOptions options = {
        .policy = IPB_APPROVAL_ALLOW,
        .audit_log = ipb_audit_log_open(NULL, path, NULL),
        .timeout_ms = -1,
        .data = &test,
    };
    test.approvals = ipb_approvals_new(test.loop, &options);
    signal(SIGXFSZ, SIG_IGN);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
    limit = before;
    limit.rlim_cur = 0;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    request(&test, "{}");
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
    run_loop();
    g_assert_nonnull(strstr(test.log->str, "was refused: cannot write to the audit log"));
    tear_down(&test);
    g_assert_cmpint(g_remove(path), ==, 0);
    g_assert_cmpint(g_rmdir(directory), ==, 0);
}

static void
install(Test *test, IpbApprovalPolicy policy, bool is_default, const char *rules_text)
{
    static const char ARGUMENTS[] = "{\"package\":\"numpy\"}";
    g_autoptr(IpbApprovalRules) rules =
        rules_text != NULL ? ipb_approval_rules_parse(rules_text, strlen(rules_text), "rules", NULL)
                           : NULL;
    *test = (Test){.loop = ipb_loop_new(NULL, NULL), .log = g_string_new(NULL)};
    test->approvals = ipb_approvals_new(test->loop, &(IpbApprovalOptions){
                                                        .policy = policy,
                                                        .is_policy_default = is_default,
                                                        .rules = rules,
                                                        .timeout_ms = -1,
                                                        .data = test,
                                                    });
    request(test, "{}");
    ipb_approvals_request_own(test->approvals, IPB_APPROVAL_OF_INSTALLATION, ARGUMENTS,
                              strlen(ARGUMENTS), on_answer, test);
    run_loop();
}

#define NO_ONE_TO_ASK                                                                              \
    "Approval request for ipybox.install_package failed: it needs an approval and there is no "    \
    "one to ask; "

/* Only a policy or a rule that the user chose allows an installation. */
static void
test_installations(void)
{
    Test test;
    install(&test, IPB_APPROVAL_ALLOW, true, NULL);
    expect(&test, "ok; " NO_ONE_TO_ASK);
    ipb_approvals_set_policy(test.approvals, IPB_APPROVAL_ALLOW); /* now it is chosen */
    ipb_approvals_request_own(test.approvals, IPB_APPROVAL_OF_INSTALLATION, "{}", 2, on_answer,
                              &test);
    run_loop();
    expect(&test, "ok; ");
    tear_down(&test);
    install(&test, IPB_APPROVAL_ALLOW, false, NULL);
    expect(&test, "ok; ok; ");
    tear_down(&test);
    install(&test, IPB_APPROVAL_ALLOW, true,
            "{\"rules\":[{\"server\":\"files\",\"decision\":\"allow\"}]}");
    expect(&test, "ok; " NO_ONE_TO_ASK);
    tear_down(&test);
    install(&test, IPB_APPROVAL_ALLOW, true,
            "{\"rules\":[{\"server\":\"ipybox\",\"arguments\":{\"package\":\"numpy\"},"
            "\"decision\":\"allow\"}]}");
    expect(&test, "ok; ok; ");
    tear_down(&test);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tools/approvals/allow", test_allow);
    g_test_add_func("/tools/approvals/deny-and-no-one", test_deny_and_no_one);
    g_test_add_func("/tools/approvals/ask", test_ask);
    g_test_add_func("/tools/approvals/answer-at-once", test_answer_at_once);
    g_test_add_func("/tools/approvals/timeout", test_timeout);
    g_test_add_func("/tools/approvals/cancel", test_cancel);
    g_test_add_func("/tools/approvals/free-cancels", test_free_cancels);
    g_test_add_func("/tools/approvals/policy-changes", test_policy_changes);
    g_test_add_func("/tools/approvals/flood", test_flood);
    g_test_add_func("/approval/rules-and-audit-log", test_rules_and_audit_log);
    g_test_add_func("/approval/audit-log-that-is-full", test_audit_log_that_is_full);
    g_test_add_func("/tools/approvals/installations", test_installations);
    return g_test_run();
}
