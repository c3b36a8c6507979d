/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions that are forked, through the library: their state, their ends in every order, and what
 * refuses a fork.
 */
#include "lib-fixture.h"

#include <string.h>

static IpyboxSession *
fork_session(IpyboxSession *session)
{
    g_autoptr(GError) error = NULL;
    IpyboxSession *branch = ipybox_session_fork(session, NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(branch);
    return branch;
}

static void
assert_refuses(IpyboxSession *session, const IpyboxForkOptions *options, IpyboxError code,
               const char *text)
{
    g_autoptr(GError) error = NULL;
    IpyboxSession *branch = ipybox_session_fork(session, options, NULL, &error);
    g_assert_null(branch);
    g_assert_error(error, IPYBOX_ERROR, (int) code);
    if (strstr(error->message, text) == NULL)
        g_error("%s", error->message);
}

static void
test_state(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "x = [1]\nprint(x)", "[1]");
    g_autoptr(IpyboxSession) branch = fork_session(fixture.session);
    g_assert_cmpstr(ipybox_session_get_workspace(branch), ==,
                    ipybox_session_get_workspace(fixture.session));
    g_assert_null(ipybox_session_get_warnings(branch)[0]);
    assert_prints(branch, "x.append(2)\nprint(x)", "[1, 2]");
    assert_prints(fixture.session, "print(x)", "[1]");
}

static void
test_seed(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "import random\nprint(1)", "1");
    IpyboxForkOptions options = IPYBOX_FORK_OPTIONS_INIT;
    options.seed = 7;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxSession) branch = ipybox_session_fork(fixture.session, &options, NULL, &error);
    g_assert_no_error(error);
    assert_prints(branch, "print(random.random() == random.Random(7).random())", "True");
    options.seed = -2;
    assert_refuses(fixture.session, &options, IPYBOX_ERROR_INVALID, "seed");
}

/* The session that was forked ends first, and the branch of a branch remains. */
static void
test_ends(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "x = 1\nprint(x)", "1");
    IpyboxSession *first = fork_session(fixture.session);
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_close(fixture.session, &error));
    g_assert_no_error(error);
    g_autoptr(IpyboxSession) second = fork_session(first);
    ipybox_session_free(first);
    assert_prints(second, "x += 1\nprint(x)", "2");
    assert_refuses(fixture.session, NULL, IPYBOX_ERROR_BUSY, "closed");
}

static void
test_refusals(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_refuses(fixture.session, NULL, IPYBOX_ERROR_INVALID, "no kernel process");
    assert_prints(fixture.session,
                  "import threading\nend = threading.Event()\n"
                  "thread = threading.Thread(target=end.wait, name='busy')\nthread.start()\n"
                  "print(1)",
                  "1");
    assert_refuses(fixture.session, NULL, IPYBOX_ERROR_REFUSED, "the thread busy runs");
    assert_prints(fixture.session, "end.set()\nthread.join()\nprint(2)", "2");
    g_autoptr(IpyboxSession) branch = fork_session(fixture.session);
    assert_prints(branch, "print(end.is_set())", "True");
}

static void
test_running_cell(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Answer) answer = {0};
    fixture_set_up(&fixture, NULL);
    ipybox_session_execute_async(fixture.session, "x = 1", NULL, NULL, on_answer, &answer);
    assert_refuses(fixture.session, NULL, IPYBOX_ERROR_BUSY, "between cells");
    wait_for(&answer);
}

/* A fork that was cancelled, or whose session was freed, leaves nothing: add_test() checks it. */
static void
test_cancel(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Answer) cancelled = {0}, freed = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "print(1)", "1");
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    ipybox_session_fork_async(fixture.session, NULL, cancellable, on_answer, &cancelled);
    g_cancellable_cancel(cancellable);
    wait_for(&cancelled);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_fork_finish(NULL, cancelled.result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED);
    g_clear_error(&error);
    ipybox_session_fork_async(fixture.session, NULL, NULL, on_answer, &freed);
    g_clear_pointer(&fixture.session, ipybox_session_free);
    wait_for(&freed);
    g_assert_null(ipybox_session_fork_finish(NULL, freed.result, &error));
    g_assert_nonnull(error);
}

/* The runtime ends while a session is being forked. */
static void
test_runtime_end(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Answer) answer = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "print(1)", "1");
    ipybox_session_fork_async(fixture.session, NULL, NULL, on_answer, &answer);
    g_clear_pointer(&fixture.session, ipybox_session_free);
    g_clear_pointer(&fixture.runtime, ipybox_runtime_free);
    wait_for(&answer);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_fork_finish(NULL, answer.result, &error));
    g_assert_nonnull(error);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/lib/fork/state", test_state);
    add_test("/lib/fork/seed", test_seed);
    add_test("/lib/fork/ends", test_ends);
    add_test("/lib/fork/refusals", test_refusals);
    add_test("/lib/fork/running-cell", test_running_cell);
    add_test("/lib/fork/cancel", test_cancel);
    add_test("/lib/fork/runtime-end", test_runtime_end);
    return g_test_run();
}
