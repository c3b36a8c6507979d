/* SPDX-License-Identifier: Apache-2.0
 *
 * A staged workspace through the library. It is not in test-lib-session.c, because valgrind knows
 * no overlays, and ThreadSanitizer does not see the locks within GLib by which GTask passes an
 * operation to its thread.
 */
#include "lib-fixture.h"

#include <string.h>

static void
test_staged(void)
{
    static const char *const PATHS[] = {"new", NULL};
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GError) error = NULL;
    /* The workspace of the fixture's own session is live. */
    g_assert_null(ipybox_session_get_layer(fixture.session));
    g_assert_null(ipybox_session_changes(fixture.session, TRUE, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    IpyboxSessionOptions options = session_options(&fixture);
    options.workspace_mode = IPYBOX_WORKSPACE_STAGED;
    g_assert_null(ipybox_session_new(fixture.runtime, &options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    options.sandbox = IPYBOX_SANDBOX_ON;
    IpyboxSession *session = new_session(&fixture, &options);
    g_autofree char *path = g_build_filename(ipybox_session_get_workspace(session), "new", NULL);
    IpyboxResult *result = run(session, "open('new', 'w').write('new')", IPYBOX_STATUS_OK);
    g_assert_cmpstr(ipybox_result_get_changes(result), ==,
                    "[{\"path\":\"new\",\"kind\":\"added\",\"type\":\"file\"}]");
    g_assert_null(ipybox_result_get_changes_cut(result));
    ipybox_result_free(result);
    g_assert_true(g_file_test(ipybox_session_get_layer(session), G_FILE_TEST_IS_DIR));
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    g_autofree char *changes = ipybox_session_changes(session, TRUE, NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(strstr(changes, "\"path\":\"new\",\"kind\":\"added\""));
    g_assert_nonnull(strstr(changes, "+new"));
    g_autofree char *done = ipybox_session_commit(session, PATHS, NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(strstr(done, "\"done\":true"));
    g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
    g_assert_null(ipybox_session_discard(session, PATHS, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_clear_error(&error);
    g_auto(Answer) answer = {0};
    ipybox_session_discard_async(session, NULL, NULL, on_answer, &answer);
    wait_for(&answer);
    g_autofree char *undone = ipybox_session_discard_finish(session, answer.result, &error);
    g_assert_no_error(error);
    g_assert_nonnull(strstr(undone, "\"total\":0"));
    g_assert_true(ipybox_session_close(session, &error));
    ipybox_session_free(session);
}

static uint64_t
checkpoint_of(IpyboxSession *session)
{
    g_autoptr(GError) error = NULL;
    uint64_t checkpoint = ipybox_session_checkpoint(session, NULL, &error);
    g_assert_no_error(error);
    return checkpoint;
}

static void
end(IpyboxSession *session)
{
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_close(session, &error));
    ipybox_session_free(session);
}

/* Both work in one layer, which ends with the last of them. */
static void
test_fork(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GError) error = NULL;
    IpyboxSessionOptions options = session_options(&fixture);
    options.workspace_mode = IPYBOX_WORKSPACE_STAGED;
    options.sandbox = IPYBOX_SANDBOX_ON;
    IpyboxSession *session = new_session(&fixture, &options);
    ipybox_result_free(run(session, "x = 1; open('a', 'w').write('1')", IPYBOX_STATUS_OK));
    uint64_t checkpoint = checkpoint_of(session);
    IpyboxSession *branch = ipybox_session_fork(session, NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(strstr(ipybox_session_get_warnings(branch)[0], "files are shared"));
    g_autofree char *layer = g_strdup(ipybox_session_get_layer(session));
    g_assert_cmpstr(ipybox_session_get_layer(branch), ==, layer);
    ipybox_result_free(run(branch, "x = 2; open('a', 'w').write('2')", IPYBOX_STATUS_OK));

    g_assert_false(ipybox_session_restore(session, checkpoint, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_assert_nonnull(strstr(error->message, "1 other session shares the files"));
    g_clear_error(&error);
    ipybox_session_set_restores_files(session, FALSE);
    g_assert_true(ipybox_session_restore(session, checkpoint, &error));
    ipybox_result_free(run(session, "assert open('a').read() == '2'", IPYBOX_STATUS_OK));
    ipybox_session_set_restores_files(session, TRUE);
    end(branch);
    g_assert_true(g_file_test(layer, G_FILE_TEST_IS_DIR));
    g_assert_true(ipybox_session_restore(session, checkpoint, &error));
    ipybox_result_free(run(session, "assert open('a').read() == '1'", IPYBOX_STATUS_OK));
    g_autofree char *undone = ipybox_session_discard(session, NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(strstr(undone, "\"total\":1"));
    end(session);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/staged/changes", test_staged);
    add_test("/staged/fork", test_fork);
    return g_test_run();
}
