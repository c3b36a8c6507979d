/* SPDX-License-Identifier: Apache-2.0
 *
 * MCP servers through the library: the registry, registrations and their failures, tools that are
 * called; and packages.
 */
#include "lib-fixture.h"

#include <string.h>
#include <unistd.h>

/* --- the registry ------------------------------------------------------------------------------
 * */

static unsigned
count_servers(IpyboxRuntime *runtime)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) servers = ipybox_runtime_list_servers(runtime, &error);
    g_assert_no_error(error);
    return servers->len;
}

static void
test_registry(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_assert_cmpuint(count_servers(fixture.runtime), ==, 0);
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxServer) server = ipybox_runtime_add_server(
        fixture.runtime, "fetch", "{\"command\": \"uvx\", \"env\": {\"KEY\": \"${KEY}\"}}", &error);
    g_assert_no_error(error);
    g_assert_cmpstr(ipybox_server_get_name(server), ==, "fetch");
    g_assert_cmpuint(strlen(ipybox_server_get_id(server)), ==, 32);
    g_assert_nonnull(strstr(ipybox_server_get_params(server), "${KEY}"));
    g_assert_null(ipybox_server_get_roots(server)[0]);
    g_autoptr(GPtrArray) servers = ipybox_runtime_list_servers(fixture.runtime, NULL);
    g_assert_cmpuint(servers->len, ==, 1);
    g_assert_cmpstr(ipybox_server_get_id(servers->pdata[0]), ==, ipybox_server_get_id(server));
    g_assert_true(ipybox_runtime_remove_server(fixture.runtime, "fetch", &error));
    g_assert_no_error(error);
    g_assert_false(ipybox_runtime_remove_server(fixture.runtime, "fetch", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_assert_cmpuint(count_servers(fixture.runtime), ==, 0);
}

/* A program may go to another directory afterwards. */
static void
test_registry_in_a_relative_directory(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autofree char *before = g_get_current_dir();
    g_assert_cmpint(chdir(fixture.workspace), ==, 0);
    g_autoptr(IpyboxRuntime) runtime = new_runtime("state", NULL);
    g_assert_cmpint(chdir(fixture.place), ==, 0);
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxServer) server =
        ipybox_runtime_add_server(runtime, "fetch", "{\"command\": \"uvx\"}", &error);
    g_assert_no_error(error);
    g_assert_cmpint(chdir(before), ==, 0);
    g_autofree char *file = g_build_filename(fixture.workspace, "state", "servers.json", NULL);
    g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
}

static void
test_registry_refuses(void)
{
    static const char *const WRONG[][2] = {
        {"no-identifier", "{\"command\": \"x\"}"},
        {"fine", "{"},
        {"fine", "[]"},
        {"fine", "{}"},
        {"fine", "{\"command\": 5}"},
        {"", "{\"command\": \"x\"}"},
    };
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(WRONG); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(ipybox_runtime_add_server(fixture.runtime, WRONG[i][0], WRONG[i][1], &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
        g_clear_error(&error);
        g_assert_null(
            ipybox_session_register(fixture.session, WRONG[i][0], WRONG[i][1], NULL, NULL, &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    }
    g_assert_cmpuint(count_servers(fixture.runtime), ==, 0);
}

/* --- registrations -----------------------------------------------------------------------------
 * */

static IpyboxSession *
allowing_session(Fixture *fixture)
{
    IpyboxSessionOptions options = session_options(fixture);
    options.approval = IPYBOX_APPROVAL_ALLOW;
    return new_session(fixture, &options);
}

/* The session that registers may call, and so may one that is opened afterwards; a server that was
 * removed is not called. */
static void
test_register(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(IpyboxSession) first = allowing_session(&fixture);
    register_fake_server(first);
    g_autofree char *code = call_tool("echo");
    assert_prints(first, code, "'{}'");
    g_autoptr(IpyboxSession) second = allowing_session(&fixture);
    assert_prints(second, code, "'{}'");
    g_autoptr(GPtrArray) servers = ipybox_runtime_list_servers(fixture.runtime, NULL);
    g_autofree char *root = g_build_filename(fixture.workspace, "mcptools", NULL);
    g_assert_cmpstr(ipybox_server_get_roots(servers->pdata[0])[0], ==, root);
    g_assert_true(ipybox_runtime_remove_server(fixture.runtime, "fake", NULL));
    g_autoptr(IpyboxSession) third = allowing_session(&fixture);
    g_autoptr(IpyboxResult) result = run(third, code, IPYBOX_STATUS_ERROR);
}

static void
test_register_options(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(IpyboxSession) session = allowing_session(&fixture);
    IpyboxRegisterOptions options = IPYBOX_REGISTER_OPTIONS_INIT;
    options.root_dir = "tools/of_mine";
    options.async_api = TRUE;
    g_autofree char *params = fake_server_params("");
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) modules =
        ipybox_session_register(session, "other", params, &options, NULL, &error);
    g_assert_no_error(error);
    assert_prints(session, "from tools.of_mine.other.echo import run, Params\nawait run(Params())",
                  "'{}'");
}

static void
assert_no_registration(IpyboxSession *session, const char *params, int code)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_register(session, "fake", params, NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, code);
}

static void
test_register_fails(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.connect_timeout_ms = 300;
    g_autoptr(IpyboxSession) impatient = new_session(&fixture, &options);
    g_autofree char *silent = fake_server_params("silent");
    assert_no_registration(impatient, silent, IPYBOX_ERROR_TIMEOUT);
    g_autofree char *ending = fake_server_params("exit");
    assert_no_registration(fixture.session, ending, IPYBOX_ERROR_SERVER);
    g_autofree char *refusing = fake_server_params("refuse");
    assert_no_registration(fixture.session, refusing, IPYBOX_ERROR_SERVER);
    g_autofree char *wrong = fake_server_params("bad-list");
    assert_no_registration(fixture.session, wrong, IPYBOX_ERROR_PROTOCOL);
    assert_no_registration(fixture.session, "{\"command\": \"/no/such/server\"}",
                           IPYBOX_ERROR_NOT_FOUND);
    assert_no_registration(fixture.session,
                           "{\"command\": \"x\", \"args\": [\"${IPYBOX_NO_SUCH_VARIABLE}\"]}",
                           IPYBOX_ERROR_NOT_FOUND);
    g_assert_cmpuint(count_servers(fixture.runtime), ==, 0);
}

static void
assert_not_registered(Answer *answer, int code)
{
    wait_for(answer);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_register_finish(NULL, answer->result, &error));
    g_assert_error(error, IPYBOX_ERROR, code);
}

/* Before it began, and while the server is silent; by its cancellable, by the end of the session
 * and by that of the runtime. */
static void
test_register_is_given_up(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autofree char *silent = fake_server_params("silent");
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_auto(Answer) first = {0}, second = {0}, third = {0}, fourth = {0};
    ipybox_session_register_async(fixture.session, "one", silent, NULL, cancellable, on_answer,
                                  &first);
    g_cancellable_cancel(cancellable);
    assert_not_registered(&first, IPYBOX_ERROR_CANCELLED);
    ipybox_session_register_async(fixture.session, "two", silent, NULL, cancellable, on_answer,
                                  &second);
    assert_not_registered(&second, IPYBOX_ERROR_CANCELLED);
    IpyboxSessionOptions options = session_options(&fixture);
    g_autoptr(IpyboxSession) other = new_session(&fixture, &options);
    ipybox_session_register_async(other, "three", silent, NULL, NULL, on_answer, &third);
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_close(other, &error));
    g_assert_no_error(error);
    assert_not_registered(&third, IPYBOX_ERROR_CANCELLED);
    ipybox_session_register_async(fixture.session, "four", silent, NULL, NULL, on_answer, &fourth);
    g_clear_pointer(&fixture.runtime, ipybox_runtime_free);
    assert_not_registered(&fourth, IPYBOX_ERROR_CANCELLED);
}

/* What is generated is not for the kernel to change, which runs already. */
static void
test_register_in_a_sandbox(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.approval = IPYBOX_APPROVAL_ALLOW;
    options.sandbox = IPYBOX_SANDBOX_ON;
    g_autoptr(IpyboxSession) unprepared = new_session(&fixture, &options);
    assert_no_registration(unprepared, "{\"command\": \"true\"}", IPYBOX_ERROR_INVALID);
    options.register_servers = TRUE;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    assert_prints(session, "1", "1");
    register_fake_server(session);
    g_autofree char *code = call_tool("echo");
    assert_prints(session, code, "'{}'");
    g_autoptr(IpyboxResult) result =
        run(session, "open('mcptools/fake/echo.py', 'w')", IPYBOX_STATUS_ERROR);
}

/* --- calls -------------------------------------------------------------------------------------
 * */

static void
on_event(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    if (ipybox_event_get_type(event) == IPYBOX_EVENT_TOOL_PROGRESS)
        g_string_append_printf(data, "%s|", ipybox_event_get_text(event));
}

static void
test_progress(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(IpyboxSession) session = allowing_session(&fixture);
    register_fake_server(session);
    g_autoptr(GString) progress = g_string_new(NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_event;
    options.user_data = progress;
    g_autofree char *code = call_tool("progress");
    g_autoptr(IpyboxResult) result = ipybox_session_execute(session, code, &options, NULL, NULL);
    g_assert_true(ipybox_result_check(result, NULL));
    g_assert_nonnull(strstr(progress->str, "fake.progress: 0.5 step 1|"));
}

static void
on_log(IpyboxSession *session, const char *level, const char *text, gpointer data)
{
    g_string_append_printf(data, "%s: %s|", level, text);
}

static void
test_log(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GString) log = g_string_new(NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.approval = IPYBOX_APPROVAL_ALLOW;
    options.on_log = on_log;
    options.user_data = log;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    register_fake_server(session);
    g_autofree char *code = call_tool("log");
    g_autoptr(IpyboxResult) result = run(session, code, IPYBOX_STATUS_OK);
    g_assert_nonnull(strstr(log->str, "error: fake: me: oh|"));
}

static void
cancel_at_output(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    g_cancellable_cancel(data);
}

/* A tool that never answers; the session continues. */
static void
test_call_is_cancelled(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(IpyboxSession) session = allowing_session(&fixture);
    register_fake_server(session);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = cancel_at_output;
    options.user_data = cancellable;
    g_autofree char *call = call_tool("never");
    g_autofree char *code = g_strconcat("print('go', flush=True)\n", call, NULL);
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute(session, code, &options, cancellable, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_CANCELLED);
    g_autofree char *echo = call_tool("echo");
    assert_prints(session, echo, "'{}'");
}

/* --- packages ----------------------------------------------------------------------------------
 * */

static void
on_line(IpyboxSession *session, const char *line, gpointer data)
{
    g_assert_null(strchr(line, '\n'));
    ++*(unsigned *) data;
}

static IpyboxSession *
session_without_index(Fixture *fixture)
{
    const char *const env[] = {"PIP_NO_INDEX=1", "PATH=/usr/bin:/bin", NULL};
    IpyboxSessionOptions options = session_options(fixture);
    options.env = env;
    return new_session(fixture, &options);
}

static void
assert_not_installed(Answer *answer, int code, const char *message)
{
    wait_for(answer);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_install_finish(NULL, answer->result, &error));
    g_assert_error(error, IPYBOX_ERROR, code);
    if (strstr(error->message, message) == NULL)
        g_error("\"%s\" is not in \"%s\"", message, error->message);
}

static void
test_install_fails(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(IpyboxSession) session = session_without_index(&fixture);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_install(session, "--upgrade", NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    unsigned n_lines = 0;
    g_auto(Answer) first = {0}, second = {0}, third = {0};
    ipybox_session_install_async(session, "ipb_no_such_package", on_line, &n_lines, NULL, on_answer,
                                 &first);
    ipybox_session_install_async(session, "other", NULL, NULL, NULL, on_answer, &second);
    assert_not_installed(&second, IPYBOX_ERROR_BUSY, "under way");
    assert_not_installed(&first, IPYBOX_ERROR_SERVER, "ipb_no_such_package");
    g_assert_cmpuint(n_lines, >, 0);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    ipybox_session_install_async(session, "other", NULL, NULL, cancellable, on_answer, &third);
    g_cancellable_cancel(cancellable);
    assert_not_installed(&third, IPYBOX_ERROR_CANCELLED, "");
}

/* The session and the runtime end while an installer runs. */
static void
test_install_is_left_alone(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) first = {0}, second = {0};
    g_autoptr(IpyboxSession) session = session_without_index(&fixture);
    ipybox_session_install_async(session, "other", NULL, NULL, NULL, on_answer, &first);
    g_assert_true(ipybox_session_close(session, NULL));
    assert_not_installed(&first, IPYBOX_ERROR_CANCELLED, "");
    ipybox_session_install_async(fixture.session, "ipb_no_such_package", NULL, NULL, NULL,
                                 on_answer, &second);
    g_clear_pointer(&fixture.session, ipybox_session_free);
    assert_not_installed(&second, IPYBOX_ERROR_CANCELLED, "");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/servers/registry", test_registry);
    add_test("/servers/registry-in-a-relative-directory", test_registry_in_a_relative_directory);
    add_test("/servers/registry-refuses", test_registry_refuses);
    add_test("/servers/register", test_register);
    add_test("/servers/register-options", test_register_options);
    add_test("/servers/register-fails", test_register_fails);
    add_test("/servers/register-is-given-up", test_register_is_given_up);
    add_test("/servers/register-in-a-sandbox", test_register_in_a_sandbox);
    add_test("/servers/progress", test_progress);
    add_test("/servers/log", test_log);
    add_test("/servers/call-is-cancelled", test_call_is_cancelled);
    add_test("/servers/install-fails", test_install_fails);
    add_test("/servers/install-is-left-alone", test_install_is_left_alone);
    return g_test_run();
}
