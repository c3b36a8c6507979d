/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the library share; see the header.
 */
#include "lib-fixture.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/wait.h>

#include <glib/gstdio.h>

static int
remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

static unsigned
count_fds(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

IpyboxRuntime *
new_runtime(const char *state_dir, GMainContext *context)
{
    g_autofree char *root = g_canonicalize_filename("../..", g_getenv("G_TEST_SRCDIR"));
    g_autofree char *python = g_build_filename(root, ".venv/bin/python3", NULL);
    IpyboxRuntimeOptions options = IPYBOX_RUNTIME_OPTIONS_INIT;
    options.python = python;
    options.state_dir = state_dir;
    options.context = context;
    g_autoptr(GError) error = NULL;
    IpyboxRuntime *runtime = ipybox_runtime_new(&options, &error);
    g_assert_no_error(error);
    return runtime;
}

IpyboxSessionOptions
session_options(const Fixture *fixture)
{
    IpyboxSessionOptions options = IPYBOX_SESSION_OPTIONS_INIT;
    options.workspace = fixture->workspace;
    return options;
}

IpyboxSession *
new_session(Fixture *fixture, const IpyboxSessionOptions *options)
{
    g_autoptr(GError) error = NULL;
    IpyboxSession *session = ipybox_session_new(fixture->runtime, options, &error);
    g_assert_no_error(error);
    return session;
}

void
fixture_set_up(Fixture *fixture, GMainContext *context)
{
    fixture->place = g_dir_make_tmp("ipybox-test-XXXXXX", NULL);
    fixture->workspace = g_build_filename(fixture->place, "workspace", NULL);
    fixture->state = g_build_filename(fixture->place, "state", NULL);
    g_assert_cmpint(g_mkdir(fixture->workspace, 0700), ==, 0);
    fixture->runtime = new_runtime(fixture->state, context);
    IpyboxSessionOptions options = session_options(fixture);
    fixture->session = new_session(fixture, &options);
}

void
fixture_tear_down(Fixture *fixture)
{
    ipybox_session_free(fixture->session);
    ipybox_runtime_free(fixture->runtime);
    g_assert_cmpint(nftw(fixture->place, remove_entry, 8, FTW_DEPTH | FTW_PHYS), ==, 0);
    g_free(fixture->place);
    g_free(fixture->workspace);
    g_free(fixture->state);
}

IpyboxResult *
run(IpyboxSession *session, const char *code, IpyboxStatus status)
{
    g_autoptr(GError) error = NULL;
    IpyboxResult *result = ipybox_session_execute(session, code, NULL, NULL, &error);
    g_assert_no_error(error);
    if (ipybox_result_get_status(result) != status)
        g_error("status %d: %s %s", ipybox_result_get_status(result),
                ipybox_result_get_message(result), ipybox_result_get_traceback(result));
    return result;
}

void
assert_prints(IpyboxSession *session, const char *code, const char *text)
{
    g_autoptr(IpyboxResult) result = run(session, code, IPYBOX_STATUS_OK);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, text);
}

char *
fake_server_params(const char *mode)
{
    const char *server =
        g_test_get_filename(G_TEST_DIST, "..", "scripted_server", "scripted_server.py", NULL);
    return g_strdup_printf("{\"command\": \"python3\", \"args\": [\"-I\", \"-S\", \"%s\", "
                           "\"hostile\", \"%s\"]}",
                           server, mode);
}

void
register_fake_server(IpyboxSession *session)
{
    g_autofree char *params = fake_server_params("");
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) modules = ipybox_session_register(session, "fake", params, NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_true(g_strv_contains((const char *const *) modules, "echo"));
}

char *
call_tool(const char *tool)
{
    return g_strdup_printf("from mcptools.fake.%s import run, Params\nrun(Params())", tool);
}

void
on_answer(GObject *source, GAsyncResult *result, gpointer data)
{
    Answer *answer = data;
    g_assert_null(source);
    g_assert_cmpuint(answer->n_told++, ==, 0);
    answer->result = g_object_ref(result);
}

void
wait_for(const Answer *answer)
{
    while (answer->n_told == 0)
        g_main_context_iteration(NULL, TRUE);
}

void
answer_clear(Answer *answer)
{
    g_clear_object(&answer->result);
}

static void
run_test(const void *data)
{
    void (*test)(void) = (void (*)(void)) data;
    /* GLib opens some of its own at the first task and keeps them. */
    g_autoptr(GTask) task = g_task_new(NULL, NULL, NULL, NULL);
    g_task_return_boolean(task, TRUE);
    g_main_context_iteration(NULL, FALSE);
    unsigned fds = count_fds();
    test();
    /* Sources that were only removed are freed in the context's next turn. */
    while (g_main_context_iteration(NULL, FALSE))
        ;
    g_assert_cmpuint(count_fds(), ==, fds);
    g_assert_cmpint(waitpid(-1, NULL, WNOHANG), ==, -1);
    g_assert_cmpint(errno, ==, ECHILD);
}

void
add_test(const char *path, void (*test)(void))
{
    g_test_add_data_func(path, (const void *) test, run_test);
}
