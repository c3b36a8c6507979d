/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions with real kernels, which use the Python of .venv: many sessions in one process, how they
 * are closed and freed, and errors.
 */
#include "session/session.h"

#include <dirent.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

#define N_SESSIONS 12

typedef struct {
    IpbRuntime *runtime;
    char *workspace;
} Fixture;

typedef struct {
    IpbSession *session;
    GString *output;
    GString *order; /* a character per finished cell: the initial of its status */
    unsigned n_done;
} Client;

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

static void
set_up(Fixture *fixture, const void *unused)
{
    g_autofree char *root = g_canonicalize_filename("../..", g_getenv("G_TEST_SRCDIR"));
    g_autofree char *python = g_build_filename(root, ".venv/bin/python3", NULL);
    g_autofree char *host = g_build_filename(root, "python/ipybox/kernel_host", NULL);
    fixture->workspace = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    g_autoptr(GError) error = NULL;
    IpbRuntimeOptions options = {
        .python = python, .host_directory = host, .state_dir = fixture->workspace};
    fixture->runtime = ipb_runtime_new(NULL, &options, &error);
    g_assert_no_error(error);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    ipb_runtime_unref(fixture->runtime);
    g_assert_true(ipb_file_remove_tree(fixture->workspace, NULL));
    g_free(fixture->workspace);
}

static void
on_event(const IpbEvent *event, void *data)
{
    Client *client = data;
    if (event->type == IPB_EVENT_STDOUT)
        g_string_append(client->output, event->text);
    if (event->type != IPB_EVENT_DONE)
        return;
    g_string_append_c(client->order, "oetcl"[event->status]);
    client->n_done++;
}

static void
open_client(Fixture *fixture, Client *client)
{
    g_autoptr(GError) error = NULL;
    IpbSessionOptions options = {.workspace = fixture->workspace, .approval_timeout_ms = -1};
    client->session = ipb_session_new(fixture->runtime, &options, &error);
    g_assert_no_error(error);
    client->output = g_string_new(NULL);
    client->order = g_string_new(NULL);
    client->n_done = 0;
}

static uint64_t
execute(Client *client, const char *code)
{
    g_autoptr(GError) error = NULL;
    uint64_t cell = ipb_session_execute(client->session, code, 0, on_event, client, &error);
    g_assert_no_error(error);
    return cell;
}

static void
wait_for(const Client *client, unsigned n_done)
{
    while (client->n_done < n_done)
        g_main_context_iteration(NULL, TRUE);
}

static void
on_closed(void *data)
{
    *(bool *) data = true;
}

static void
close_client(Client *client)
{
    bool is_closed = false;
    ipb_session_close(client->session, on_closed, &is_closed);
    while (!is_closed)
        g_main_context_iteration(NULL, TRUE);
    ipb_session_free(client->session);
    g_string_free(client->output, TRUE);
    g_string_free(client->order, TRUE);
}

static void
test_many_sessions(Fixture *fixture, const void *unused)
{
    /* The first session opens fds that stay open as long as the runtime. */
    Client first;
    open_client(fixture, &first);
    execute(&first, "1");
    wait_for(&first, 1);
    close_client(&first);
    unsigned before = count_fds();

    Client clients[N_SESSIONS];
    for (unsigned i = 0; i < N_SESSIONS; i++) {
        g_autofree char *code = g_strdup_printf("x = %u", i);
        open_client(fixture, &clients[i]);
        execute(&clients[i], code);
        execute(&clients[i], "1/0");
        execute(&clients[i], "print(x)");
    }
    for (unsigned i = 0; i < N_SESSIONS; i++) {
        g_autofree char *wanted = g_strdup_printf("%u\n", i);
        wait_for(&clients[i], 3);
        g_assert_cmpstr(clients[i].output->str, ==, wanted);
        g_assert_cmpstr(clients[i].order->str, ==, "oeo");
    }
    for (unsigned i = 0; i < N_SESSIONS; i++)
        close_client(&clients[i]);
    g_assert_cmpuint(count_fds(), ==, before);
}

/* Closing a session ends the running cell and the waiting cells, and reports each, in order. */
static void
test_close_while_busy(Fixture *fixture, const void *unused)
{
    Client client;
    open_client(fixture, &client);
    execute(&client, "print('begun', flush=True)\nimport time\ntime.sleep(1000)");
    execute(&client, "2");
    while (client.output->len == 0)
        g_main_context_iteration(NULL, TRUE);
    bool is_closed = false;
    ipb_session_close(client.session, on_closed, &is_closed);
    while (!is_closed)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(client.order->str, ==, "ll");
    g_autoptr(GError) error = NULL;
    g_assert_cmpuint(ipb_session_execute(client.session, "3", 0, on_event, &client, &error), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    ipb_session_free(client.session);
    g_string_free(client.output, TRUE);
    g_string_free(client.order, TRUE);
}

static void
test_cancel(Fixture *fixture, const void *unused)
{
    Client client;
    open_client(fixture, &client);
    execute(&client, "x = 5\nprint('begun', flush=True)\nimport time\ntime.sleep(1000)");
    uint64_t waiting = execute(&client, "x = 6");
    execute(&client, "print(x)");
    while (client.output->len == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_true(ipb_session_cancel(client.session, waiting));
    g_assert_false(ipb_session_cancel(client.session, waiting));
    ipb_session_interrupt(client.session);
    wait_for(&client, 3);
    g_assert_cmpstr(client.order->str, ==, "cco");
    g_assert_cmpstr(client.output->str, ==, "begun\n5\n");
    close_client(&client);
}

/* If a session is freed while a cell runs, it reports no further event. */
static void
test_free_while_busy(Fixture *fixture, const void *unused)
{
    Client client;
    open_client(fixture, &client);
    execute(&client, "print('begun', flush=True)\nimport time\ntime.sleep(1000)");
    execute(&client, "2");
    while (client.output->len == 0)
        g_main_context_iteration(NULL, TRUE);
    ipb_session_free(client.session);
    g_main_context_iteration(NULL, FALSE);
    g_assert_cmpuint(client.n_done, ==, 0);
    g_string_free(client.output, TRUE);
    g_string_free(client.order, TRUE);
}

static void
test_errors(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    IpbSessionOptions options = {.workspace = "/no/such/place"};
    g_assert_null(ipb_session_new(fixture->runtime, &options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_clear_error(&error);
    Client client;
    open_client(fixture, &client);
    g_assert_cmpuint(ipb_session_execute(client.session, "\xff", 0, on_event, &client, &error), ==,
                     0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_autofree char *large = g_strnfill(33 << 20, ' ');
    g_assert_cmpuint(ipb_session_execute(client.session, large, 0, on_event, &client, &error), ==,
                     0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    close_client(&client);
}

/* Records what Jupyter clients need: execution counts and user expressions. */
typedef struct {
    GString *trace;
    unsigned n_done;
} Notebook;

static void
on_notebook_event(const IpbEvent *event, void *data)
{
    Notebook *notebook = data;
    if (event->type == IPB_EVENT_STARTED || event->type == IPB_EVENT_RESULT)
        g_string_append_printf(notebook->trace, "%s %d, ",
                               event->type == IPB_EVENT_STARTED ? "in" : "out",
                               (int) event->execution_count);
    if (event->type != IPB_EVENT_DONE)
        return;
    IpbSpan values = ipb_json_raw(event->user_expressions);
    g_string_append_printf(notebook->trace, "done %d %.*s", (int) event->execution_count,
                           (int) (event->user_expressions != NULL ? values.size : 0), values.start);
    notebook->n_done++;
}

static void
assert_trace(IpbSession *session, const char *code, const IpbCellOptions *options,
             const char *trace)
{
    Notebook notebook = {.trace = g_string_new(NULL)};
    g_autoptr(GError) error = NULL;
    ipb_session_execute_with(session, code, options, on_notebook_event, &notebook, &error);
    g_assert_no_error(error);
    while (notebook.n_done == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(notebook.trace->str, ==, trace);
    g_string_free(notebook.trace, TRUE);
}

static void
test_notebook_cells(Fixture *fixture, const void *unused)
{
    Client client;
    open_client(fixture, &client);
    const IpbCellOptions plain = {.stores_history = true},
                         silent = {.is_silent = true, .stores_history = true}, unstored = {0};
    const IpbCellOptions asking = {.stores_history = true,
                                   .user_expressions = "{\"a\": \"x + 1\"}"};
    assert_trace(client.session, "x = 1", &plain, "in 1, done 1 ");
    assert_trace(client.session, "x", &plain, "in 2, out 2, done 2 ");
    assert_trace(client.session, "x", &silent, "in 2, done 2 ");
    assert_trace(client.session, "x += 1", &unstored, "in 2, done 2 ");
    assert_trace(client.session, "x += 1", &asking,
                 "in 3, done 3 {\"a\":{\"status\":\"ok\",\"data\":{\"text/plain\":\"4\"},"
                 "\"metadata\":{}}}");
    ipb_session_reset(client.session, NULL, NULL);
    assert_trace(client.session, "1", &plain, "in 1, out 1, done 1 ");
    g_autoptr(GError) error = NULL;
    const IpbCellOptions wrong = {.stores_history = true, .user_expressions = "{\"a\": 1}"};
    assert_trace(client.session, "1", &wrong, "done 0 "); /* the kernel rejects the cell */
    close_client(&client);
}

static void
on_reply(const IpbJson *result, const GError *error, void *data)
{
    GString *trace = data;
    g_string_append(trace, error != NULL ? error->message : ipb_json_get_string(result, "status"));
}

static void
ask(Client *client, const char *code)
{
    g_autofree char *params = g_strdup_printf("{\"code\": \"%s\"}", code);
    g_autoptr(GError) error = NULL;
    ipb_session_request(client->session, "is_complete", params, on_reply, client->output, &error);
    g_assert_no_error(error);
}

static void
wait_for_output(const Client *client, const char *output)
{
    while (client->output->len < strlen(output))
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(client->output->str, ==, output);
    g_string_truncate(client->output, 0);
}

static void
test_requests(Fixture *fixture, const void *unused)
{
    Client client;
    open_client(fixture, &client);
    ask(&client, "1");
    ask(&client, "for x in y:");
    wait_for_output(&client, "completeincomplete");
    execute(&client, "print('started', flush=True); __import__('time').sleep(1000)");
    wait_for_output(&client, "started\n");
    ask(&client, "1");
    ipb_session_reset(client.session, NULL, NULL);
    wait_for_output(&client, "the kernel was reset");
    ask(&client, "1");
    wait_for_output(&client, "complete");
    /* The session closes before the answer arrives, so the answer may or may not be reported. */
    ask(&client, "1");
    close_client(&client);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(path, func) g_test_add("/session/session/" path, Fixture, NULL, set_up, func, tear_down)
    ADD("many-sessions", test_many_sessions);
    ADD("close-while-busy", test_close_while_busy);
    ADD("cancel", test_cancel);
    ADD("free-while-busy", test_free_while_busy);
    ADD("errors", test_errors);
    ADD("notebook-cells", test_notebook_cells);
    ADD("requests", test_requests);
    return g_test_run();
}
