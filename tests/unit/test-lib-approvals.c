/* SPDX-License-Identifier: Apache-2.0
 *
 * Tool calls of cells and who decides on them, through the library: the application, at once and
 * later, rules, or no one.
 */
#include "lib-fixture.h"

#include <string.h>

/* What the application does about a request, and what it saw. */
typedef struct {
    IpyboxApproval *kept;      /* not answered yet */
    IpyboxApproval *withdrawn; /* as told; borrowed from `kept` */
    int answer;                /* 1: yes, -1: no, 0: keeps it */
    unsigned n_asked;
    GCancellable *cancellable; /* cancelled when a request is kept; or NULL */
    void (*act)(Fixture *fixture);
    Fixture *fixture;
} Judge;

static void
on_approval(IpyboxSession *session, IpyboxApproval *approval, gpointer data)
{
    Judge *judge = data;
    judge->n_asked++;
    g_assert_cmpstr(ipybox_approval_get_server(approval), ==, "fake");
    g_assert_cmpstr(ipybox_approval_get_arguments(approval), ==, "{}");
    g_autofree char *question =
        g_strdup_printf("Tool call: fake.%s\nArguments: none", ipybox_approval_get_tool(approval));
    g_assert_cmpstr(ipybox_approval_get_question(approval), ==, question);
    if (judge->answer != 0) {
        g_assert_true(ipybox_approval_respond(approval, judge->answer > 0));
        g_assert_false(ipybox_approval_respond(approval, TRUE)); /* it is answered */
        return;
    }
    judge->kept = ipybox_approval_ref(approval);
    if (judge->cancellable != NULL)
        g_cancellable_cancel(judge->cancellable);
    if (judge->act != NULL)
        judge->act(judge->fixture);
}

static void
on_withdrawn(IpyboxSession *session, IpyboxApproval *approval, gpointer data)
{
    Judge *judge = data;
    g_assert_true(approval == judge->kept);
    judge->withdrawn = approval;
    g_assert_false(ipybox_approval_respond(approval, TRUE));
}

static IpyboxSessionOptions
judged_options(const Fixture *fixture, Judge *judge)
{
    IpyboxSessionOptions options = session_options(fixture);
    options.on_approval = on_approval;
    options.on_withdrawn = on_withdrawn;
    options.user_data = judge;
    return options;
}

/* The fixture's session is one that asks @judge, and there is a server. */
static void
set_up(Fixture *fixture, Judge *judge)
{
    fixture_set_up(fixture, NULL);
    ipybox_session_free(fixture->session);
    judge->fixture = fixture;
    IpyboxSessionOptions options = judged_options(fixture, judge);
    fixture->session = new_session(fixture, &options);
    register_fake_server(fixture->session);
}

static void
judge_clear(Judge *judge)
{
    ipybox_approval_unref(judge->kept);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Judge, judge_clear)

static void
assert_rejected(IpyboxSession *session, const char *tool, const char *why)
{
    g_autofree char *code = call_tool(tool);
    g_autoptr(IpyboxResult) result = run(session, code, IPYBOX_STATUS_ERROR);
    g_assert_cmpstr(ipybox_result_get_error_name(result), ==, "ApprovalRejectedError");
    if (strstr(ipybox_result_get_error_value(result), why) == NULL)
        g_error("%s", ipybox_result_get_error_value(result));
}

static void
assert_echoes(IpyboxSession *session)
{
    g_autofree char *code = call_tool("echo");
    assert_prints(session, code, "'{}'");
}

static void
test_at_once(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Judge) judge = {.answer = 1};
    set_up(&fixture, &judge);
    assert_echoes(fixture.session);
    judge.answer = -1;
    assert_rejected(fixture.session, "echo", "rejected");
    g_assert_cmpuint(judge.n_asked, ==, 2);
}

static void
start_call(Fixture *fixture, GCancellable *cancellable, Answer *answer)
{
    g_autofree char *code = call_tool("echo");
    ipybox_session_execute_async(fixture->session, code, NULL, cancellable, on_answer, answer);
}

static void
wait_until_asked(const Judge *judge)
{
    while (judge->kept == NULL)
        g_main_context_iteration(NULL, TRUE);
}

static void
wait_until_withdrawn(const Judge *judge)
{
    while (judge->withdrawn == NULL)
        g_main_context_iteration(NULL, TRUE);
}

static void
assert_status(Answer *answer, IpyboxStatus status)
{
    wait_for(answer);
    g_autoptr(IpyboxResult) result = ipybox_session_execute_finish(NULL, answer->result, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, status);
}

/* While it waits, the clock of the cell is paused, and another session runs. */
static void
test_later(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Judge) judge = {0};
    set_up(&fixture, &judge);
    g_auto(Answer) answer = {0};
    start_call(&fixture, NULL, &answer);
    wait_until_asked(&judge);
    IpyboxSessionOptions options = session_options(&fixture);
    g_autoptr(IpyboxSession) other = new_session(&fixture, &options);
    assert_prints(other, "1", "1");
    g_assert_cmpuint(answer.n_told, ==, 0);
    g_assert_cmpstr(ipybox_approval_get_tool(judge.kept), ==, "echo");
    g_assert_true(ipybox_approval_respond(judge.kept, TRUE));
    assert_status(&answer, IPYBOX_STATUS_OK);
    g_assert_null(judge.withdrawn);
}

static void
test_timeout(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Judge) judge = {0};
    set_up(&fixture, &judge);
    IpyboxSessionOptions options = judged_options(&fixture, &judge);
    options.approval_timeout_ms = 10;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    g_autofree char *code = call_tool("echo");
    g_autoptr(IpyboxResult) result = run(session, code, IPYBOX_STATUS_ERROR);
    g_assert_nonnull(strstr(ipybox_result_get_error_value(result), " expired"));
    wait_until_withdrawn(&judge);
}

/* --- the ends of cells while they wait ---------------------------------------------------------
 * */

static void
test_cell_is_cancelled(void)
{
    g_auto(Fixture) fixture = {0};
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_auto(Judge) judge = {.cancellable = cancellable};
    set_up(&fixture, &judge);
    g_auto(Answer) answer = {0};
    start_call(&fixture, cancellable, &answer);
    assert_status(&answer, IPYBOX_STATUS_CANCELLED);
    wait_until_withdrawn(&judge);
}

static void
test_session_is_reset(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Judge) judge = {0};
    set_up(&fixture, &judge);
    g_auto(Answer) answer = {0}, reset = {0};
    start_call(&fixture, NULL, &answer);
    wait_until_asked(&judge);
    ipybox_session_reset_async(fixture.session, on_answer, &reset);
    g_assert_null(judge.withdrawn); /* never from within the call */
    assert_status(&answer, IPYBOX_STATUS_LOST);
    wait_until_withdrawn(&judge);
    wait_for(&reset);
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

/* From within the callback and from outside of it. A request that is kept can still be looked at.
 * */
static void
free_while_asked(void (*act)(Fixture *fixture), bool from_callback)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Judge) judge = {.act = from_callback ? act : NULL};
    set_up(&fixture, &judge);
    g_auto(Answer) answer = {0};
    start_call(&fixture, NULL, &answer);
    wait_until_asked(&judge);
    if (!from_callback)
        act(&fixture);
    wait_for(&answer);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_execute_finish(NULL, answer.result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED);
    g_assert_cmpstr(ipybox_approval_get_tool(judge.kept), ==, "echo");
    g_assert_false(ipybox_approval_respond(judge.kept, TRUE));
    g_assert_null(judge.withdrawn);
}

static void
test_free(void)
{
    free_while_asked(free_session, true);
    free_while_asked(free_session, false);
    free_while_asked(free_runtime, true);
    free_while_asked(free_runtime, false);
}

/* --- without the application -------------------------------------------------------------------
 * */

static void
test_policies(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Judge) judge = {0};
    set_up(&fixture, &judge);
    IpyboxSessionOptions options = judged_options(&fixture, &judge);
    options.approval = IPYBOX_APPROVAL_ALLOW;
    g_autoptr(IpyboxSession) allowing = new_session(&fixture, &options);
    assert_echoes(allowing);
    options.approval = IPYBOX_APPROVAL_DENY;
    g_autoptr(IpyboxSession) denying = new_session(&fixture, &options);
    assert_rejected(denying, "echo", "allows no tool calls");
    options.approval = IPYBOX_APPROVAL_ASK;
    options.on_approval = NULL;
    g_autoptr(IpyboxSession) asking = new_session(&fixture, &options);
    assert_rejected(asking, "echo", "no one to ask");
    g_assert_cmpuint(judge.n_asked, ==, 0);
}

static void
test_rules(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Judge) judge = {.answer = -1};
    set_up(&fixture, &judge);
    g_autofree char *rules = g_build_filename(fixture.workspace, "rules.json", NULL);
    g_autofree char *log = g_build_filename(fixture.workspace, "audit.jsonl", NULL);
    g_autofree char *record = g_build_filename(fixture.workspace, "record.jsonl", NULL);
    g_assert_true(g_file_set_contents(
        rules,
        "{\"rules\": [{\"tool\": \"echo\", \"decision\": \"allow\"}, {\"tool\": \"pid\", "
        "\"decision\": \"deny\", \"reason\": \"no cell needs it\"}]}",
        -1, NULL));
    IpyboxSessionOptions options = judged_options(&fixture, &judge);
    options.approval_rules = rules;
    options.audit_log = log;
    options.record = record;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    assert_echoes(session);
    assert_rejected(session, "pid", "no cell needs it");
    g_assert_cmpuint(judge.n_asked, ==, 0);
    assert_rejected(session, "line", "rejected");
    g_assert_cmpuint(judge.n_asked, ==, 1);
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(log, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 4); /* the last one is empty */
    g_assert_nonnull(strstr(lines[0], "\"decision\":\"allow\",\"by\":\"rule\""));
    g_assert_nonnull(strstr(lines[2], "\"decision\":\"deny\",\"by\":\"user\""));
    g_autofree char *events = NULL;
    g_assert_true(g_file_get_contents(record, &events, NULL, NULL));
    g_assert_true(g_str_has_prefix(events, "{\"type\":\"record\","));
    g_assert_nonnull(strstr(events, "\"decision\":\"deny\",\"by\":\"user\""));
    g_assert_nonnull(strstr(events, "\"type\":\"tool_result\""));
}

static void
assert_no_session(Fixture *fixture, const IpyboxSessionOptions *options, int code)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_new(fixture->runtime, options, &error));
    g_assert_error(error, IPYBOX_ERROR, code);
}

static void
test_options_that_are_wrong(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autofree char *rules = g_build_filename(fixture.workspace, "rules.json", NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.approval_rules = rules;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_NOT_FOUND);
    g_assert_true(g_file_set_contents(rules, "{\"rules\": 1}", -1, NULL));
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.approval_rules = NULL;
    options.audit_log = "/no/such/folder/audit.jsonl";
    assert_no_session(&fixture, &options, IPYBOX_ERROR_SYSTEM);
    options.audit_log = "/dev/null";
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.audit_log = NULL;
    options.record = "/dev/null";
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.record = NULL;
    options.approval = (IpyboxApprovalPolicy) 9;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/approvals/at-once", test_at_once);
    add_test("/approvals/later", test_later);
    add_test("/approvals/timeout", test_timeout);
    add_test("/approvals/cell-is-cancelled", test_cell_is_cancelled);
    add_test("/approvals/session-is-reset", test_session_is_reset);
    add_test("/approvals/free", test_free);
    add_test("/approvals/policies", test_policies);
    add_test("/approvals/rules", test_rules);
    add_test("/approvals/options-that-are-wrong", test_options_that_are_wrong);
    return g_test_run();
}
