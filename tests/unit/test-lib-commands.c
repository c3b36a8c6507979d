/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands beside a kernel: what they get and return, output as it is printed, and their ends.
 */
#include "lib-fixture.h"

#include <signal.h>
#include <string.h>

#define MUCH ((gsize) 3 * 1000 * 1000)

/* What on_output got. */
typedef struct {
    GString *out, *err;
    unsigned n_pieces;
    void (*on_first)(IpyboxSession *session); /* or NULL */
} Heard;

static void
heard_clear(Heard *heard)
{
    g_string_free(heard->out, TRUE);
    g_string_free(heard->err, TRUE);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Heard, heard_clear)

static Heard
new_heard(void)
{
    return (Heard){.out = g_string_new(NULL), .err = g_string_new(NULL)};
}

static void
on_output(IpyboxSession *session, IpyboxCommandStream stream, const char *bytes, gsize size,
          gpointer data)
{
    Heard *heard = data;
    g_assert_cmpuint(size, >, 0);
    g_assert_cmpuint(size, <=, 65536);
    g_string_append_len(stream == IPYBOX_COMMAND_STDERR ? heard->err : heard->out, bytes,
                        (gssize) size);
    if (heard->n_pieces++ == 0 && heard->on_first != NULL)
        heard->on_first(session);
}

static IpyboxCommandResult *
run_script(IpyboxSession *session, const char *script, const IpyboxCommandOptions *options)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    g_autoptr(GError) error = NULL;
    IpyboxCommandResult *result = ipybox_session_run_command(session, argv, options, NULL, &error);
    g_assert_no_error(error);
    return result;
}

static void
start_script(IpyboxSession *session, const char *script, const IpyboxCommandOptions *options,
             GCancellable *cancellable, Answer *answer)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    ipybox_session_run_command_async(session, argv, options, cancellable, on_answer, answer);
}

static void
assert_output(const IpyboxCommandResult *result, IpyboxCommandStream stream, const char *text)
{
    gsize size;
    const char *bytes = ipybox_command_result_get_output(result, stream, &size);
    g_assert_cmpstr(bytes, ==, text);
    g_assert_cmpuint(size, ==, strlen(text));
    g_assert_false(ipybox_command_result_is_output_cut(result, stream));
}

static void
assert_fails(Answer *answer, IpyboxError code)
{
    g_autoptr(GError) error = NULL;
    wait_for(answer);
    g_assert_null(ipybox_session_run_command_finish(NULL, answer->result, &error));
    g_assert_error(error, IPYBOX_ERROR, (int) code);
}

/* --- what it gets and returns ----------------------------------------------------------------- */

static void
test_result(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    const char *const env[] = {"MORE=blue=1", NULL};
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.env = env;
    options.cwd = "..";
    options.input = "input\n";
    options.input_size = 6;
    g_autoptr(IpyboxCommandResult) result =
        run_script(fixture.session, "cat; echo $MORE; pwd; echo err >&2; exit 7", &options);
    g_autofree char *expected = g_strconcat("input\nblue=1\n", fixture.place, "\n", NULL);
    assert_output(result, IPYBOX_COMMAND_STDOUT, expected);
    assert_output(result, IPYBOX_COMMAND_STDERR, "err\n");
    g_assert_cmpint(ipybox_command_result_get_exit_status(result), ==, 7);
    g_assert_cmpint(ipybox_command_result_get_signal(result), ==, 0);
    g_assert_false(ipybox_command_result_is_timeout(result));
    g_assert_null(ipybox_command_result_get_limit(result));
    g_autoptr(IpyboxCommandResult) killed = run_script(fixture.session, "kill -USR1 $$", NULL);
    g_assert_cmpint(ipybox_command_result_get_exit_status(killed), ==, -1);
    g_assert_cmpint(ipybox_command_result_get_signal(killed), ==, SIGUSR1);
}

static void
test_in_a_sandbox(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.sandbox = IPYBOX_SANDBOX_ON;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    g_autofree char *outside = g_build_filename(fixture.place, "outside", NULL);
    g_autofree char *script = g_strdup_printf("echo x > %s; pwd", outside);
    g_autofree char *workspace = g_strconcat(fixture.workspace, "\n", NULL);
    g_autoptr(IpyboxCommandResult) confined = run_script(session, script, NULL);
    assert_output(confined, IPYBOX_COMMAND_STDOUT, workspace);
    g_assert_false(g_file_test(outside, G_FILE_TEST_EXISTS));
    g_autoptr(IpyboxCommandResult) free = run_script(fixture.session, script, NULL);
    assert_output(free, IPYBOX_COMMAND_STDOUT, workspace);
    g_assert_true(g_file_test(outside, G_FILE_TEST_EXISTS));
}

static void
test_output_is_cut(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.max_output = 1000;
    g_autoptr(IpyboxCommandResult) result =
        run_script(fixture.session, "head -c 200000 /dev/zero; echo end >&2", &options);
    gsize size;
    ipybox_command_result_get_output(result, IPYBOX_COMMAND_STDOUT, &size);
    g_assert_cmpuint(size, ==, 1000);
    g_assert_true(ipybox_command_result_is_output_cut(result, IPYBOX_COMMAND_STDOUT));
    assert_output(result, IPYBOX_COMMAND_STDERR, "end\n");
}

static void
test_timeout(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.timeout_ms = 300;
    g_autoptr(IpyboxCommandResult) result =
        run_script(fixture.session, "(setsid sleep 1001 &); sleep 1001", &options);
    g_assert_true(ipybox_command_result_is_timeout(result));
    g_assert_cmpint(ipybox_command_result_get_signal(result), ==, SIGKILL);
}

static void
test_errors(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    const char *const none[] = {"no-such-program", NULL};
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_run_command(fixture.session, none, NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_clear_error(&error);
    const char *const empty[] = {NULL};
    g_assert_null(ipybox_session_run_command(fixture.session, empty, NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    const char *const wrong[] = {"no variable", NULL};
    const char *const argv[] = {"true", NULL};
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.env = wrong;
    g_assert_null(ipybox_session_run_command(fixture.session, argv, &options, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    options = (IpyboxCommandOptions) IPYBOX_COMMAND_OPTIONS_INIT;
    options.max_output = (gsize) 33 << 20;
    g_assert_null(ipybox_session_run_command(fixture.session, argv, &options, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_clear_error(&error);
    options.version = 99;
    g_assert_null(ipybox_session_run_command(fixture.session, argv, &options, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_true(ipybox_session_close(fixture.session, &error));
    g_assert_null(ipybox_session_run_command(fixture.session, argv, NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
}

/* --- output as it is printed ------------------------------------------------------------------ */

static void
test_pieces(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Heard) heard = new_heard();
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.on_output = on_output;
    options.user_data = &heard;
    g_autoptr(IpyboxCommandResult) result =
        run_script(fixture.session, "head -c 3000000 /dev/zero; echo err >&2; exit 3", &options);
    g_assert_cmpuint(heard.out->len, ==, MUCH);
    g_assert_cmpstr(heard.err->str, ==, "err\n");
    g_assert_cmpint(ipybox_command_result_get_exit_status(result), ==, 3);
    assert_output(result, IPYBOX_COMMAND_STDOUT, "");
    assert_output(result, IPYBOX_COMMAND_STDERR, "");
}

static void
pause_session(IpyboxSession *session)
{
    ipybox_session_set_paused(session, TRUE);
}

/* A command of a paused session waits, and nothing is lost. One whose output is kept does not. */
static void
test_paused(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Heard) heard = new_heard();
    heard.on_first = pause_session;
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.on_output = on_output;
    options.user_data = &heard;
    g_auto(Answer) answer = {0};
    start_script(fixture.session, "head -c 3000000 /dev/zero", &options, NULL, &answer);
    while (heard.n_pieces == 0)
        g_main_context_iteration(NULL, TRUE);
    gsize size = heard.out->len;
    g_assert_cmpuint(size, <=, 65536);
    for (int i = 0; i < 3; i++) {
        g_autoptr(IpyboxCommandResult) other =
            run_script(fixture.session, "head -c 200000 /dev/zero", NULL);
        g_assert_cmpint(ipybox_command_result_get_exit_status(other), ==, 0);
    }
    g_assert_cmpuint(heard.out->len, ==, size);
    g_assert_cmpuint(answer.n_told, ==, 0);
    ipybox_session_set_paused(fixture.session, FALSE);
    wait_for(&answer);
    g_autoptr(IpyboxCommandResult) result =
        ipybox_session_run_command_finish(NULL, answer.result, NULL);
    g_assert_nonnull(result);
    g_assert_cmpuint(heard.out->len, ==, MUCH);
}

/* --- its ends --------------------------------------------------------------------------------- */

static void
reset(IpyboxSession *session)
{
    ipybox_session_reset_async(session, NULL, NULL);
}

static void
close_session(IpyboxSession *session)
{
    ipybox_session_close_async(session, NULL, NULL);
}

static void
free_session(IpyboxSession *session)
{
    ipybox_session_free(session);
}

static GCancellable *cancelled_on_first;

static void
cancel(IpyboxSession *session)
{
    g_cancellable_cancel(cancelled_on_first);
}

/* From within on_output. No output comes afterwards. */
static void
end_in_callback(void (*end)(IpyboxSession *session), IpyboxError code, const char *script)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    cancelled_on_first = cancellable;
    g_auto(Heard) heard = new_heard();
    heard.on_first = end;
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.on_output = on_output;
    options.user_data = &heard;
    g_auto(Answer) answer = {0};
    start_script(fixture.session, script, &options, cancellable, &answer);
    assert_fails(&answer, code);
    if (end == free_session) {
        g_assert_cmpuint(heard.n_pieces, ==, 1);
        fixture.session = NULL;
    } else if (end != close_session) {
        assert_prints(fixture.session, "print(6 * 7)", "42");
    }
}

static void
test_ends_in_callback(void)
{
    /* Both streams have something to read, and one is read first. */
    const char *script = "yes >&2 & exec yes";
    end_in_callback(reset, IPYBOX_ERROR_CANCELLED, script);
    end_in_callback(close_session, IPYBOX_ERROR_CANCELLED, script);
    end_in_callback(free_session, IPYBOX_ERROR_CANCELLED, script);
    end_in_callback(cancel, IPYBOX_ERROR_CANCELLED, script);
}

/* What is read at the end is passed on by the same function. */
static void
test_ends_in_last_callback(void)
{
    const char *script = "exec 2>&-; echo last";
    for (int i = 0; i < 10; i++) {
        g_auto(Fixture) fixture = {0};
        fixture_set_up(&fixture, NULL);
        g_auto(Heard) heard = new_heard();
        heard.on_first = i % 2 == 0 ? reset : free_session;
        IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
        options.on_output = on_output;
        options.user_data = &heard;
        g_auto(Answer) answer = {0};
        start_script(fixture.session, script, &options, NULL, &answer);
        assert_fails(&answer, IPYBOX_ERROR_CANCELLED);
        if (i % 2 != 0)
            fixture.session = NULL;
    }
}

static void
test_ends_before_it_runs(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_auto(Answer) answer = {0}, other = {0};
    start_script(fixture.session, "sleep 1001", NULL, cancellable, &answer);
    g_cancellable_cancel(cancellable);
    assert_fails(&answer, IPYBOX_ERROR_CANCELLED);
    start_script(fixture.session, "sleep 1001", NULL, NULL, &other);
    ipybox_session_free(g_steal_pointer(&fixture.session));
    assert_fails(&other, IPYBOX_ERROR_CANCELLED);
}

static void
test_kernel_dies(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) answer = {0};
    assert_prints(fixture.session, "print(1)", "1");
    start_script(fixture.session, "sleep 1001", NULL, NULL, &answer);
    g_autoptr(IpyboxResult) result =
        run(fixture.session, "import os; os.kill(os.getpid(), 9)", IPYBOX_STATUS_LOST);
    assert_fails(&answer, IPYBOX_ERROR_KERNEL_DIED);
    g_autoptr(IpyboxCommandResult) fresh = run_script(fixture.session, "echo fresh", NULL);
    assert_output(fresh, IPYBOX_COMMAND_STDOUT, "fresh\n");
}

static void
test_blocking_in_callback(IpyboxSession *session)
{
    const char *const argv[] = {"true", NULL};
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_run_command(session, argv, NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
}

static void
test_no_blocking_in_callback(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Heard) heard = new_heard();
    heard.on_first = test_blocking_in_callback;
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.on_output = on_output;
    options.user_data = &heard;
    g_autoptr(IpyboxCommandResult) result = run_script(fixture.session, "echo out", &options);
    g_assert_cmpstr(heard.out->str, ==, "out\n");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/lib/commands/result", test_result);
    add_test("/lib/commands/sandbox", test_in_a_sandbox);
    add_test("/lib/commands/cut", test_output_is_cut);
    add_test("/lib/commands/timeout", test_timeout);
    add_test("/lib/commands/errors", test_errors);
    add_test("/lib/commands/pieces", test_pieces);
    add_test("/lib/commands/paused", test_paused);
    add_test("/lib/commands/ends-in-callback", test_ends_in_callback);
    add_test("/lib/commands/ends-in-last-callback", test_ends_in_last_callback);
    add_test("/lib/commands/ends-before-it-runs", test_ends_before_it_runs);
    add_test("/lib/commands/kernel-dies", test_kernel_dies);
    add_test("/lib/commands/no-blocking-in-callback", test_no_blocking_in_callback);
    return g_test_run();
}
