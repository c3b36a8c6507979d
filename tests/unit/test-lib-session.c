/* SPDX-License-Identifier: Apache-2.0
 *
 * The lives of sessions and runtimes through the library, and what happens to those who use it in a
 * wrong way or a wrong order.
 */
#include "lib-fixture.h"

#include <string.h>

#include <glib/gstdio.h>

static const char *const NO_ENTRY[] = {"NAME", NULL};

/* --- options -----------------------------------------------------------------------------------
 * */

static void
assert_no_session(Fixture *fixture, const IpyboxSessionOptions *options, int code)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_new(fixture->runtime, options, &error));
    g_assert_error(error, IPYBOX_ERROR, code);
}

static void
test_options_of_a_session(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.version = 2;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.version = 0;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options = session_options(&fixture);
    options.workspace = "/no/such/folder";
    assert_no_session(&fixture, &options, IPYBOX_ERROR_NOT_FOUND);
    options = session_options(&fixture);
    options.seed = INT64_C(1) << 32;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.seed = -2;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options = session_options(&fixture);
    options.kernel_env = NO_ENTRY;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options = session_options(&fixture);
    options.env = NO_ENTRY;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    g_autofree char *registry = g_build_filename(fixture.state, "servers.json", NULL);
    g_assert_cmpint(g_mkdir_with_parents(fixture.state, 0700), ==, 0);
    g_assert_true(g_file_set_contents(registry, "{", -1, NULL));
    options = session_options(&fixture);
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_runtime_list_servers(fixture.runtime, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static void
test_options_of_calls(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxRuntimeOptions runtime = IPYBOX_RUNTIME_OPTIONS_INIT;
    runtime.version = 2;
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_runtime_new(&runtime, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    runtime.version = 1;
    runtime.python = "/no/such/python";
    g_assert_null(ipybox_runtime_new(&runtime, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_clear_error(&error);
    runtime.python = NULL;
    runtime.kernel_host = fixture.place;
    g_assert_null(ipybox_runtime_new(&runtime, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_clear_error(&error);
    IpyboxExecuteOptions execute = IPYBOX_EXECUTE_OPTIONS_INIT;
    execute.version = 2;
    g_assert_null(ipybox_session_execute(fixture.session, "1", &execute, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    IpyboxRegisterOptions options = {0};
    g_assert_null(ipybox_session_register(fixture.session, "x", "{}", &options, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static void
count_event(IpyboxSession *session, const IpyboxEvent *event, gpointer user_data)
{
    unsigned *counts = user_data;
    IpyboxEventType type = ipybox_event_get_type(event);
    g_assert_true(type == IPYBOX_EVENT_READY || type == IPYBOX_EVENT_START_FAILED);
    g_assert_cmpint(ipybox_event_get_text(event) != NULL, ==, type == IPYBOX_EVENT_START_FAILED);
    counts[type == IPYBOX_EVENT_START_FAILED]++;
}

static void
test_events_of_a_session(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    unsigned counts[2] = {0};
    IpyboxSessionOptions options = session_options(&fixture);
    options.on_event = count_event;
    options.user_data = counts;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    for (unsigned i = 1; i <= 2; i++) { /* the second time it is ready already */
        ipybox_session_start(session);
        while (counts[0] < i)
            g_main_context_iteration(NULL, TRUE);
    }
    assert_prints(session, "print(1)", "1");
    g_assert_true(ipybox_session_close(session, NULL));
    g_assert_cmpuint(counts[0], ==, 2);
    g_assert_cmpuint(counts[1], ==, 0);
}

static void
test_seed_and_environment(void)
{
    static const char *const ENV[] = {"GREETING=hello", NULL};
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autofree char *drawn[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        IpyboxSessionOptions options = session_options(&fixture);
        options.seed = 7;
        options.kernel_env = ENV;
        g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
        g_autoptr(IpyboxResult) result =
            run(session, "import os, random\nos.environ['GREETING'], random.random()",
                IPYBOX_STATUS_OK);
        drawn[i] = g_strdup(ipybox_result_get_text(result));
    }
    g_assert_cmpstr(drawn[0], ==, drawn[1]);
    g_assert_nonnull(strstr(drawn[0], "'hello'"));
    g_free(drawn[1]);
    drawn[1] = NULL;
}

/* What is no Python is found out when the first cell needs it; the message says what to do. */
static void
test_python_that_is_none(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxRuntimeOptions options = IPYBOX_RUNTIME_OPTIONS_INIT;
    options.python = "/bin/true";
    options.state_dir = fixture.state;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxRuntime) runtime = ipybox_runtime_new(&options, &error);
    g_assert_no_error(error);
    g_autoptr(IpyboxSession) session = ipybox_session_new(runtime, NULL, &error);
    g_assert_no_error(error);
    g_autoptr(IpyboxResult) result = run(session, "1", IPYBOX_STATUS_LOST);
    g_assert_nonnull(strstr(ipybox_result_get_message(result), "/bin/true"));
}

/* --- sandboxes ---------------------------------------------------------------------------------
 * */

static void
write_config(const Fixture *fixture, const char *path, const char *writable)
{
    g_autofree char *text = g_strdup_printf(
        "{\"network\": {\"allowedDomains\": [], \"deniedDomains\": []}, \"filesystem\": "
        "{\"denyRead\": [], \"allowWrite\": [\"%s\"], \"denyWrite\": []}}",
        writable);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

/* One runtime has sessions with and without; the configuration is that of a session. */
static void
test_sandbox(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autofree char *outside = g_build_filename(fixture.place, "outside", NULL);
    g_autofree char *config = g_build_filename(fixture.place, "sandbox.json", NULL);
    g_autofree char *code = g_strdup_printf("open('%s/file', 'w').write('x')", outside);
    g_assert_cmpint(g_mkdir(outside, 0700), ==, 0);
    assert_prints(fixture.session, code, "1");
    IpyboxSessionOptions options = session_options(&fixture);
    options.sandbox = IPYBOX_SANDBOX_ON;
    g_autoptr(IpyboxSession) closed = new_session(&fixture, &options);
    assert_prints(closed, "open('file', 'w').write('x')", "1");
    g_autoptr(IpyboxResult) result = run(closed, code, IPYBOX_STATUS_ERROR);
    g_autoptr(IpyboxResult) denied = run(closed, "open('/etc/file', 'w')", IPYBOX_STATUS_ERROR);
    const char *const *violations = ipybox_result_get_violations(denied);
    g_assert_true(violations[0] != NULL &&
                  g_str_has_prefix(violations[0], "operation not permitted: "));
    g_autoptr(IpyboxResult) fine = run(closed, "1", IPYBOX_STATUS_OK);
    g_assert_null(ipybox_result_get_violations(fine)[0]);
    write_config(&fixture, config, outside);
    options.sandbox_config = config;
    g_autoptr(IpyboxSession) configured = new_session(&fixture, &options);
    assert_prints(configured, code, "1");
    options.limits = "{\"openFiles\": 77}";
    g_autoptr(IpyboxSession) limited = new_session(&fixture, &options);
    assert_prints(limited, "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)",
                  "(77, 77)");
    options.limits = NULL;
    g_assert_true(g_file_set_contents(config, "{\"nonsense\": 1}", -1, NULL));
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.sandbox_config = "/no/such/sandbox.json";
    assert_no_session(&fixture, &options, IPYBOX_ERROR_NOT_FOUND);
    options.sandbox = IPYBOX_SANDBOX_OFF;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.sandbox_config = NULL;
    options.allowed_domains = (const char *const[]){"example.com", NULL};
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.sandbox = IPYBOX_SANDBOX_ON;
    options.allowed_domains = (const char *const[]){"a..b", NULL};
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
    options.allowed_domains = NULL;
    options.sandbox = (IpyboxSandbox) 7;
    assert_no_session(&fixture, &options, IPYBOX_ERROR_INVALID);
}

static void
on_early_log(IpyboxSession *session, const char *level, const char *text, gpointer data)
{
    g_string_append_printf(data, "%s %s|", session == NULL ? "before" : "after", text);
}

/* A line of the workspace's .env that is none is logged while there is no session yet. */
static void
write_bad_env(const Fixture *fixture)
{
    g_autofree char *path = g_build_filename(fixture->workspace, ".env", NULL);
    g_assert_true(g_file_set_contents(path, "= nothing\n", -1, NULL));
}

static void
test_log_before_the_session(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    write_bad_env(&fixture);
    g_autoptr(GString) log = g_string_new(NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.on_log = on_early_log;
    options.user_data = log;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    g_assert_true(g_str_has_prefix(log->str, "before "));
    g_assert_nonnull(strstr(log->str, ".env"));
}

static void
on_log_free(IpyboxSession *session, const char *level, const char *text, gpointer data)
{
    g_assert_null(session);
    g_clear_pointer((IpyboxRuntime **) data, ipybox_runtime_free);
}

/* The only callback from within a call: the runtime is gone when the session was made. */
static void
test_free_runtime_in_the_log(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxRuntime *runtime = new_runtime(fixture.state, NULL);
    write_bad_env(&fixture);
    IpyboxSessionOptions options = session_options(&fixture);
    options.on_log = on_log_free;
    options.user_data = &runtime;
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_new(runtime, &options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_assert_null(runtime);
    assert_prints(fixture.session, "1", "1");
}

/* --- saved variables -------------------------------------------------------------------------- */

static void
test_saved_variables(void)
{
    static const char *const NAMES[] = {"x", "f", "gone", NULL};
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GError) error = NULL;
    ipybox_result_free(run(fixture.session, "x = [1]\ndef f(): pass", IPYBOX_STATUS_OK));
    g_autofree char *saved =
        ipybox_session_save(fixture.session, "state", NAMES, 60000, NULL, &error);
    g_assert_no_error(error);
    g_assert_true(g_str_has_prefix(saved, "{\"names\":[\"x\"],\"failed\":{"));
    g_assert_nonnull(strstr(saved, "\"gone\":\"there is no such variable\""));
    g_assert_true(ipybox_session_reset(fixture.session, NULL));
    g_autofree char *loaded = ipybox_session_load(fixture.session, "state", 60000, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(loaded, ==, "{\"names\":[\"x\"],\"failed\":{}}");
    assert_prints(fixture.session, "print(x)", "[1]");
}

static void
test_variables_that_are_not_saved(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_load(fixture.session, "none", 0, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CODE);
    g_assert_nonnull(strstr(error->message, "FileNotFoundError"));
    g_clear_error(&error);
    g_assert_null(ipybox_session_save(fixture.session, "", NULL, 0, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_cancellable_cancel(cancellable);
    g_assert_null(ipybox_session_save(fixture.session, "state", NULL, 0, cancellable, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED);
}

/* Freeing the session ends what waits. */
static void
test_session_is_freed_while_it_saves(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) save = {0}, load = {0};
    ipybox_session_save_async(fixture.session, "state", NULL, 0, NULL, on_answer, &save);
    ipybox_session_load_async(fixture.session, "state", 0, NULL, on_answer, &load);
    g_clear_pointer(&fixture.session, ipybox_session_free);
    wait_for(&save);
    wait_for(&load);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_save_finish(NULL, save.result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED);
    g_clear_error(&error);
    g_assert_null(ipybox_session_load_finish(NULL, load.result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED);
}

/* --- closed ------------------------------------------------------------------------------------
 * */

static void
assert_all_busy(IpyboxSession *session)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_execute(session, "1", NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_clear_error(&error);
    g_assert_false(ipybox_session_reset(session, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_clear_error(&error);
    g_assert_null(ipybox_session_register(session, "x", "{}", NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_clear_error(&error);
    g_assert_null(ipybox_session_install(session, "six", NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_clear_error(&error);
    g_assert_null(ipybox_session_save(session, "state", NULL, 0, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_clear_error(&error);
    g_assert_null(ipybox_session_load(session, "state", 0, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    g_clear_error(&error);
    g_assert_false(ipybox_session_close(session, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
}

static void
assert_closed(IpyboxSession *session)
{
    assert_all_busy(session);
    ipybox_session_start(session);
    ipybox_session_interrupt(session);
    ipybox_session_set_paused(session, TRUE);
    g_assert_nonnull(ipybox_session_get_workspace(session));
}

static void
test_use_after_close(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "1", "1");
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_close(fixture.session, &error));
    g_assert_no_error(error);
    assert_closed(fixture.session);
}

/* The runtime closes what is open; nothing can be made of it afterwards. */
static void
test_runtime_close(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) cell = {0}, closed = {0};
    ipybox_session_execute_async(fixture.session, "while True: pass", NULL, NULL, on_answer, &cell);
    g_main_context_iteration(NULL, FALSE);
    ipybox_session_close_async(fixture.session, on_answer, &closed);
    g_autoptr(IpyboxSession) second = new_session(&fixture, NULL);
    ipybox_session_start(second);
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_runtime_close(fixture.runtime, &error));
    g_assert_no_error(error);
    wait_for(&cell);
    wait_for(&closed);
    g_autoptr(IpyboxResult) result = ipybox_session_execute_finish(NULL, cell.result, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_LOST);
    assert_closed(fixture.session);
    assert_closed(second);
    assert_no_session(&fixture, NULL, IPYBOX_ERROR_BUSY);
    g_assert_false(ipybox_runtime_close(fixture.runtime, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    ipybox_runtime_start(fixture.runtime);
    g_assert_true(g_str_has_suffix(ipybox_runtime_get_python(fixture.runtime), "/python3"));
}

/* The runtime does not wait for a session that is freed while it closes. */
static void
test_free_while_the_runtime_closes(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) closed = {0};
    assert_prints(fixture.session, "1", "1");
    ipybox_runtime_close_async(fixture.runtime, on_answer, &closed);
    g_clear_pointer(&fixture.session, ipybox_session_free);
    wait_for(&closed);
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_runtime_close_finish(fixture.runtime, closed.result, &error));
    g_assert_no_error(error);
}

/* --- freed -------------------------------------------------------------------------------------
 * */

static void
assert_cancelled(Answer *answer)
{
    wait_for(answer);
    g_autoptr(GError) error = NULL;
    gboolean (*finish)(IpyboxSession *, GAsyncResult *, GError **) = ipybox_session_close_finish;
    if (g_async_result_is_tagged(answer->result, ipybox_session_execute_async))
        g_assert_null(ipybox_session_execute_finish(NULL, answer->result, &error));
    else
        g_assert_false(finish(NULL, answer->result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED);
}

static void
test_free_in_the_middle(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) first = {0}, second = {0}, closed = {0};
    assert_prints(fixture.session, "1", "1");
    ipybox_session_execute_async(fixture.session, "while True: pass", NULL, NULL, on_answer,
                                 &first);
    ipybox_session_execute_async(fixture.session, "2", NULL, NULL, on_answer, &second);
    ipybox_session_close_async(fixture.session, on_answer, &closed);
    g_clear_pointer(&fixture.session, ipybox_session_free);
    g_assert_cmpuint(first.n_told + second.n_told + closed.n_told, ==, 0);
    wait_for(&first);
    assert_cancelled(&closed);
}

static void
test_free_runtime_in_the_middle(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) cell = {0}, closed = {0};
    assert_prints(fixture.session, "1", "1");
    ipybox_session_execute_async(fixture.session, "while True: pass", NULL, NULL, on_answer, &cell);
    g_main_context_iteration(NULL, FALSE);
    g_clear_pointer(&fixture.runtime, ipybox_runtime_free);
    assert_cancelled(&cell);
    assert_closed(fixture.session);
}

typedef struct {
    Fixture *fixture;
    unsigned n_events;
    void (*act)(Fixture *fixture);
} Act;

static void
on_event_act(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    Act *act = data;
    act->n_events++;
    act->act(act->fixture);
    /* Still there for as long as the callback runs. */
    g_assert_nonnull(ipybox_event_get_text(event));
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
free_both(Fixture *fixture)
{
    free_runtime(fixture);
    free_session(fixture);
}

static void
free_in_callback(void (*act)(Fixture *fixture))
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    Act data = {&fixture, 0, act};
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_event_act;
    options.user_data = &data;
    g_auto(Answer) answer = {0};
    ipybox_session_execute_async(fixture.session, "print(1, flush=True)\n1/0", &options, NULL,
                                 on_answer, &answer);
    assert_cancelled(&answer);
    g_assert_cmpuint(data.n_events, ==, 1);
}

static void
test_free_from_a_callback(void)
{
    free_in_callback(free_session);
    free_in_callback(free_runtime);
    free_in_callback(free_both);
}

static void
on_closed_free(GObject *source, GAsyncResult *result, gpointer data)
{
    Fixture *fixture = data;
    g_assert_true(ipybox_session_close_finish(fixture->session, result, NULL));
    free_session(fixture);
}

static void
test_free_when_closed(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "1", "1");
    ipybox_session_close_async(fixture.session, on_closed_free, &fixture);
    while (fixture.session != NULL)
        g_main_context_iteration(NULL, TRUE);
}

/* --- blocking ----------------------------------------------------------------------------------
 * */

static void
block(Fixture *fixture)
{
    assert_all_busy(fixture->session);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_runtime_close(fixture->runtime, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
}

static void
test_block_in_a_callback(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    Act act = {&fixture, 0, block};
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_event_act;
    options.user_data = &act;
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute(fixture.session, "print(1)", &options, NULL, NULL);
    g_assert_true(ipybox_result_check(result, NULL));
    g_assert_cmpuint(act.n_events, ==, 1);
    assert_prints(fixture.session, "2", "2"); /* it was not closed */
}

static void
on_ready_block(GObject *source, GAsyncResult *result, gpointer data)
{
    block(data);
    ((Fixture *) data)->workspace[0] = '!';
}

static void
test_block_in_an_answer(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    ipybox_session_execute_async(fixture.session, "1", NULL, NULL, on_ready_block, &fixture);
    while (fixture.workspace[0] != '!')
        g_main_context_iteration(NULL, TRUE);
    fixture.workspace[0] = '/';
}

static void *
block_in_thread(void *data)
{
    Fixture *fixture = data;
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_execute(fixture->session, "1", NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    return NULL;
}

static void
test_block_in_a_wrong_thread(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_assert_true(g_main_context_acquire(NULL));
    g_thread_join(g_thread_new(NULL, block_in_thread, &fixture));
    g_main_context_release(NULL);
}

/* --- contexts and threads ----------------------------------------------------------------------
 * */

/* The default context calls nothing; the other one need not be the thread's default. */
static void
test_other_context(void)
{
    g_auto(Fixture) fixture = {0};
    GMainContext *context = g_main_context_new();
    fixture_set_up(&fixture, context);
    assert_prints(fixture.session, "1", "1");
    g_auto(Answer) answer = {0};
    ipybox_session_execute_async(fixture.session, "2", NULL, NULL, on_answer, &answer);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    while (answer.n_told == 0)
        g_main_context_iteration(context, TRUE);
    g_autoptr(IpyboxResult) result = ipybox_session_execute_finish(NULL, answer.result, NULL);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "2");
    g_assert_true(ipybox_session_close(fixture.session, NULL));
    g_assert_true(ipybox_runtime_close(fixture.runtime, NULL));
    g_main_context_unref(context);
}

static void *
live_in_thread(void *data)
{
    g_autoptr(GMainContext) context = g_main_context_new();
    g_main_context_push_thread_default(context);
    {
        g_auto(Fixture) fixture = {0};
        fixture_set_up(&fixture, NULL);
        g_autofree char *code = g_strdup_printf("x = %d", GPOINTER_TO_INT(data));
        g_autofree char *text = g_strdup_printf("%d", GPOINTER_TO_INT(data));
        assert_prints(fixture.session, code, "");
        for (int i = 0; i < 20; i++)
            assert_prints(fixture.session, "x", text);
        g_assert_true(ipybox_runtime_close(fixture.runtime, NULL));
    }
    g_main_context_pop_thread_default(context);
    return NULL;
}

static void
test_threads(void)
{
    GThread *threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = g_thread_new(NULL, live_in_thread, GINT_TO_POINTER(i + 1));
    for (int i = 0; i < 2; i++)
        g_thread_join(threads[i]);
}

static void
test_version(void)
{
    g_assert_cmpstr(ipybox_get_version(), ==, IPYBOX_VERSION);
    g_autofree char *numbers = g_strdup_printf("%d.%d.%d", IPYBOX_VERSION_MAJOR,
                                               IPYBOX_VERSION_MINOR, IPYBOX_VERSION_MICRO);
    g_assert_true(g_str_has_prefix(IPYBOX_VERSION, numbers));
    g_assert_cmpstr(g_quark_to_string(IPYBOX_ERROR), ==, "ipybox-error");
}

static void
test_null(void)
{
    ipybox_runtime_free(NULL);
    ipybox_session_free(NULL);
    ipybox_result_free(NULL);
    ipybox_server_free(NULL);
    ipybox_approval_unref(NULL);
}

#define EXPECT_CRITICAL(expression)                                                                \
    (g_test_expect_message(NULL, G_LOG_LEVEL_CRITICAL, "*assertion*failed*"), expression,          \
     g_test_assert_expected_messages())

/* A mistake of the program is logged, and nothing happens. */
static void
test_mistakes(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) answer = {0};
    EXPECT_CRITICAL(ipybox_session_new(NULL, NULL, NULL));
    EXPECT_CRITICAL(ipybox_session_execute(NULL, "1", NULL, NULL, NULL));
    EXPECT_CRITICAL(ipybox_session_execute(fixture.session, NULL, NULL, NULL, NULL));
    EXPECT_CRITICAL(ipybox_session_execute_async(fixture.session, NULL, NULL, NULL, NULL, NULL));
    EXPECT_CRITICAL(ipybox_session_register(fixture.session, NULL, "{}", NULL, NULL, NULL));
    EXPECT_CRITICAL(ipybox_session_install(fixture.session, NULL, NULL, NULL));
    EXPECT_CRITICAL(ipybox_runtime_add_server(fixture.runtime, "x", NULL, NULL));
    EXPECT_CRITICAL(ipybox_result_get_text(NULL));
    EXPECT_CRITICAL(ipybox_event_get_text(NULL));
    EXPECT_CRITICAL(ipybox_approval_respond(NULL, TRUE));
    /* The result of one operation is none of another. */
    ipybox_session_execute_async(fixture.session, "1", NULL, NULL, on_answer, &answer);
    wait_for(&answer);
    EXPECT_CRITICAL(ipybox_session_reset_finish(fixture.session, answer.result, NULL));
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute_finish(fixture.session, answer.result, NULL);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "1");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/session/saved-variables", test_saved_variables);
    add_test("/session/variables-that-are-not-saved", test_variables_that_are_not_saved);
    add_test("/session/freed-while-it-saves", test_session_is_freed_while_it_saves);
    add_test("/session/options-of-a-session", test_options_of_a_session);
    add_test("/session/events", test_events_of_a_session);
    add_test("/session/options-of-calls", test_options_of_calls);
    add_test("/session/seed-and-environment", test_seed_and_environment);
    add_test("/session/python-that-is-none", test_python_that_is_none);
    add_test("/session/sandbox", test_sandbox);
    add_test("/session/log-before-the-session", test_log_before_the_session);
    add_test("/session/free-runtime-in-the-log", test_free_runtime_in_the_log);
    add_test("/session/use-after-close", test_use_after_close);
    add_test("/session/runtime-close", test_runtime_close);
    add_test("/session/free-while-the-runtime-closes", test_free_while_the_runtime_closes);
    add_test("/session/free-in-the-middle", test_free_in_the_middle);
    add_test("/session/free-runtime-in-the-middle", test_free_runtime_in_the_middle);
    add_test("/session/free-from-a-callback", test_free_from_a_callback);
    add_test("/session/free-when-closed", test_free_when_closed);
    add_test("/session/block-in-a-callback", test_block_in_a_callback);
    add_test("/session/block-in-an-answer", test_block_in_an_answer);
    add_test("/session/block-in-a-wrong-thread", test_block_in_a_wrong_thread);
    add_test("/session/other-context", test_other_context);
    add_test("/session/threads", test_threads);
    add_test("/session/version", test_version);
    add_test("/session/null", test_null);
    add_test("/session/mistakes", test_mistakes);
    return g_test_run();
}
