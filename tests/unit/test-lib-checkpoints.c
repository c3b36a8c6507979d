/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints and undo through the library: their state, what refuses them, and their ends.
 */
#include "lib-fixture.h"

#include <string.h>

static uint64_t
make_checkpoint(IpyboxSession *session, const char *name)
{
    g_autoptr(GError) error = NULL;
    uint64_t checkpoint = ipybox_session_checkpoint(session, name, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(checkpoint, >, 0);
    return checkpoint;
}

static void
restore(IpyboxSession *session, uint64_t checkpoint)
{
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_restore(session, checkpoint, &error));
    g_assert_no_error(error);
}

static void
test_state(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "x = 1\nprint(x)", "1");
    uint64_t checkpoint = make_checkpoint(fixture.session, NULL);
    for (int i = 0; i < 2; i++) {
        assert_prints(fixture.session, "x += 1\nprint(x)", "2");
        restore(fixture.session, checkpoint);
    }
    assert_prints(fixture.session, "print(x)", "1");
}

static void
test_branch(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "x = 1\nprint(x)", "1");
    IpyboxForkOptions options = IPYBOX_FORK_OPTIONS_INIT;
    options.checkpoint = make_checkpoint(fixture.session, NULL);
    assert_prints(fixture.session, "x = 2\nprint(x)", "2");
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxSession) branch = ipybox_session_fork(fixture.session, &options, NULL, &error);
    g_assert_no_error(error);
    assert_prints(branch, "print(x)", "1");
    options.checkpoint = 99;
    g_assert_null(ipybox_session_fork(fixture.session, &options, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
}

static void
test_list(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "print(1)", "1");
    size_t n;
    g_autofree uint64_t *none = ipybox_session_list_checkpoints(fixture.session, &n);
    g_assert_cmpuint(n, ==, 0);
    uint64_t first = make_checkpoint(fixture.session, "first");
    make_checkpoint(fixture.session, NULL);
    g_autofree uint64_t *two = ipybox_session_list_checkpoints(fixture.session, &n);
    g_assert_cmpuint(n, ==, 2);
    g_assert_cmpuint(two[0], ==, first);
    IpyboxCheckpointInfo info = {.version = IPYBOX_CHECKPOINT_INFO_VERSION};
    g_assert_true(ipybox_session_get_checkpoint(fixture.session, first, &info));
    g_assert_cmpstr(info.name, ==, "first");
    g_assert_cmpuint(info.private_bytes, >, 0);
    g_assert_null(info.warnings[0]);
    g_assert_null(info.lost);
    g_autoptr(GError) error = NULL;
    g_assert_cmpuint(ipybox_session_checkpoint(fixture.session, "first", &error), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_true(ipybox_session_drop_checkpoint(fixture.session, first, &error));
    g_assert_no_error(error);
    g_assert_false(ipybox_session_get_checkpoint(fixture.session, first, &info));
    g_assert_false(ipybox_session_drop_checkpoint(fixture.session, first, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_clear_error(&error);
    g_assert_false(ipybox_session_restore(fixture.session, first, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
}

static void
test_undo(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.undo = 2;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    assert_prints(session, "x = 1\nprint(x)", "1");
    assert_prints(session, "x = 2\nprint(x)", "2");
    assert_prints(session, "x = 3\nprint(x)", "3");
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_undo(session, 2, &error));
    g_assert_no_error(error);
    assert_prints(session, "print(x)", "1");
    g_assert_false(ipybox_session_undo(session, 2, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    options.undo = 101;
    g_assert_null(ipybox_session_new(fixture.runtime, &options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static void
test_undo_on_error(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "x = 1\nprint(x)", "1");
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.undo_on_error = TRUE;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute(fixture.session, "x = 2\n1 / 0", &options, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_ERROR);
    g_assert_true(ipybox_result_is_undone(result));
    assert_prints(fixture.session, "print(x)", "1");
}

/* A checkpoint and a restore that are under way when the session is freed: add_test() checks that
 * they leave nothing. */
static void
test_ends(void)
{
    g_auto(Fixture) fixture = {0};
    g_auto(Answer) made = {0}, restored = {0}, undone = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "print(1)", "1");
    uint64_t checkpoint = make_checkpoint(fixture.session, NULL);
    ipybox_session_checkpoint_async(fixture.session, NULL, on_answer, &made);
    ipybox_session_restore_async(fixture.session, checkpoint, on_answer, &restored);
    ipybox_session_undo_async(fixture.session, 1, on_answer, &undone);
    wait_for(&restored);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_session_restore_finish(NULL, restored.result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_clear_error(&error);
    wait_for(&undone);
    g_assert_false(ipybox_session_undo_finish(NULL, undone.result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    wait_for(&made);
    g_assert_cmpuint(ipybox_session_checkpoint_finish(NULL, made.result, &error), >, 0);
    g_assert_no_error(error);
    g_auto(Answer) freed = {0};
    ipybox_session_restore_async(fixture.session, checkpoint, on_answer, &freed);
    g_clear_pointer(&fixture.session, ipybox_session_free);
    wait_for(&freed);
    g_assert_false(ipybox_session_restore_finish(NULL, freed.result, &error));
    g_assert_nonnull(error);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/lib/checkpoints/state", test_state);
    add_test("/lib/checkpoints/branch", test_branch);
    add_test("/lib/checkpoints/list", test_list);
    add_test("/lib/checkpoints/undo", test_undo);
    add_test("/lib/checkpoints/undo-on-error", test_undo_on_error);
    add_test("/lib/checkpoints/ends", test_ends);
    return g_test_run();
}
