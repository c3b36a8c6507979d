/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions with a kernel provider that uses no forkserver. Its kernels are objects in this process
 * that print the code of a cell. They lack most capabilities. The session must reject options that
 * need these, instead of ignoring the options.
 */
#include "session/session.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"

typedef struct {
    IpbKernelProvider base;
    IpbLoop *loop;
    unsigned n_kernels;
    bool is_started, is_stopped, cannot_start;
} FakeProvider;

typedef struct {
    IpbKernel base;
    FakeProvider *provider;
    IpbTimer *timer;
    char *code;
    uint64_t cell;
    bool is_ready, is_ready_awaited;
    void (*stopped)(void *data);
    void *stopped_data;
} FakeKernel;

/* --- a kernel --------------------------------------------------------------------------------- */

static void
report(FakeKernel *kernel, IpbEvent event)
{
    event.text_size = event.text != NULL ? strlen(event.text) : 0;
    kernel->base.on_event(&event, kernel->base.data);
}

static void
end_cell(FakeKernel *kernel, IpbCellStatus status, const char *text)
{
    uint64_t cell = kernel->cell;
    kernel->cell = 0;
    g_clear_pointer(&kernel->code, g_free);
    report(kernel,
           (IpbEvent){.type = IPB_EVENT_DONE, .cell = cell, .status = status, .text = text});
}

static void
on_turn(void *data)
{
    FakeKernel *kernel = data;
    g_clear_pointer(&kernel->timer, ipb_timer_free);
    if (kernel->stopped != NULL) {
        kernel->stopped(kernel->stopped_data);
        return;
    }
    if (kernel->provider->cannot_start) {
        kernel->is_ready_awaited = false;
        report(kernel, (IpbEvent){.type = IPB_EVENT_START_FAILED, .text = "no room"});
        if (kernel->cell != 0)
            end_cell(kernel, IPB_CELL_LOST, "no room");
        return;
    }
    if (!kernel->is_ready || kernel->is_ready_awaited)
        report(kernel, (IpbEvent){.type = IPB_EVENT_READY});
    kernel->is_ready = true;
    kernel->is_ready_awaited = false;
    if (kernel->cell == 0)
        return;
    report(kernel,
           (IpbEvent){.type = IPB_EVENT_STARTED, .cell = kernel->cell, .execution_count = 1});
    report(kernel,
           (IpbEvent){.type = IPB_EVENT_STDOUT, .cell = kernel->cell, .text = kernel->code});
    end_cell(kernel, IPB_CELL_OK, "/");
}

static void
schedule_turn(FakeKernel *kernel)
{
    if (kernel->timer == NULL)
        kernel->timer = ipb_timer_new(kernel->provider->loop, 0, on_turn, kernel);
}

static void
start(IpbKernel *base, bool rehearses)
{
    ((FakeKernel *) base)->is_ready_awaited = true;
    schedule_turn((FakeKernel *) base);
}

static bool
execute(IpbKernel *base, const IpbKernelCode *code, uint64_t cell, GError **error)
{
    FakeKernel *kernel = (FakeKernel *) base;
    /* It prints the code of a cell, and a message of a comm. */
    kernel->code = code->comm != NULL
                       ? g_strndup(g_bytes_get_data(code->comm, NULL), g_bytes_get_size(code->comm))
                       : g_strdup(code->code);
    kernel->cell = cell;
    schedule_turn(kernel);
    return true;
}

static bool
request(IpbKernel *base, const char *method, const char *params, IpbKernelReplyFunc func,
        void *data, GError **error)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "no requests");
    return false;
}

static void
interrupt(IpbKernel *base)
{
}

static void
reset(IpbKernel *base)
{
    ((FakeKernel *) base)->is_ready = false;
}

static void
stop(IpbKernel *base, void (*done)(void *data), void *data)
{
    FakeKernel *kernel = (FakeKernel *) base;
    kernel->stopped = done;
    kernel->stopped_data = data;
    schedule_turn(kernel);
}

static void
set_paused(IpbKernel *base, bool paused)
{
}

static void
report_late_output(IpbKernel *base)
{
    report((FakeKernel *) base, (IpbEvent){.type = IPB_EVENT_LATE_OUTPUT, .text = "late"});
}

static bool
has_socket(const IpbKernel *base, uint64_t inode)
{
    return false;
}

static void
free_kernel(IpbKernel *base)
{
    FakeKernel *kernel = (FakeKernel *) base;
    kernel->provider->n_kernels--;
    ipb_timer_free(kernel->timer);
    g_free(kernel->code);
    g_free(kernel);
}

/* --- the provider ----------------------------------------------------------------------------- */

static IpbKernel *
make_kernel(IpbKernelProvider *base, const IpbKernelOptions *options, IpbEventFunc on_event,
            void *data, GError **error)
{
    static const IpbKernelOps ops = {
        .start = start,
        .execute = execute,
        .request = request,
        .interrupt = interrupt,
        .reset = reset,
        .stop = stop,
        .set_paused = set_paused,
        .report_late_output = report_late_output,
        .has_socket = has_socket,
        .free = free_kernel,
    };
    FakeKernel *kernel = g_new0(FakeKernel, 1);
    kernel->base = (IpbKernel){.ops = &ops, .on_event = on_event, .data = data};
    kernel->provider = (FakeProvider *) base;
    kernel->provider->n_kernels++;
    return &kernel->base;
}

static void
start_provider(IpbKernelProvider *base)
{
    ((FakeProvider *) base)->is_started = true;
}

static void
stop_provider(IpbKernelProvider *base, void (*done)(void *data), void *data)
{
    ((FakeProvider *) base)->is_stopped = true;
    done(data);
}

static void
free_provider(IpbKernelProvider *base)
{
    FakeProvider *provider = (FakeProvider *) base;
    g_assert_cmpuint(provider->n_kernels, ==, 0);
    ipb_loop_unref(provider->loop);
    g_free(provider);
}

static FakeProvider *
new_provider(IpbLoop *loop)
{
    static const IpbKernelProviderOps ops = {
        .name = "fake",
        .capabilities = IPB_KERNEL_ORDERS_OUTPUT,
        .make_kernel = make_kernel,
        .start = start_provider,
        .stop = stop_provider,
        .free = free_provider,
    };
    FakeProvider *provider = g_new0(FakeProvider, 1);
    provider->base = (IpbKernelProvider){.ops = &ops, .references = 1};
    provider->loop = ipb_loop_ref(loop);
    return provider;
}

/* --- tests ------------------------------------------------------------------------------------ */

typedef struct {
    IpbRuntime *runtime;
    FakeProvider *provider;
    char *workspace;
    GString *trace; /* "started stdout(1) done(ok) " */
} Fixture;

static void
on_event(const IpbEvent *event, void *data)
{
    Fixture *fixture = data;
    g_string_append(fixture->trace, ipb_event_name(event->type));
    if (event->type == IPB_EVENT_DONE)
        g_string_append_printf(fixture->trace, "(%s)", ipb_cell_status_name(event->status));
    else if (event->text != NULL)
        g_string_append_printf(fixture->trace, "(%s)", event->text);
    g_string_append_c(fixture->trace, ' ');
}

static void
set_up(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *root = g_canonicalize_filename("../..", g_getenv("G_TEST_SRCDIR"));
    g_autofree char *host = g_build_filename(root, "python/ipybox/kernel_host", NULL);
    fixture->workspace = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    /* No interpreter is started, so any file will do. */
    IpbRuntimeOptions options = {
        .python = "/bin/false", .host_directory = host, .state_dir = fixture->workspace};
    fixture->runtime = ipb_runtime_new(NULL, &options, &error);
    g_assert_no_error(error);
    fixture->provider = new_provider(ipb_runtime_loop(fixture->runtime));
    ipb_runtime_add_kernel_provider(fixture->runtime, &fixture->provider->base);
    fixture->trace = g_string_new(NULL);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    ipb_kernel_provider_unref(&fixture->provider->base);
    ipb_runtime_unref(fixture->runtime);
    g_assert_true(ipb_file_remove_tree(fixture->workspace, NULL));
    g_free(fixture->workspace);
    g_string_free(fixture->trace, TRUE);
}

static IpbSessionOptions
session_options(Fixture *fixture)
{
    return (IpbSessionOptions){
        .workspace = fixture->workspace,
        .approval_timeout_ms = -1,
        .kernel_provider = &fixture->provider->base,
        .on_event = on_event,
        .data = fixture,
    };
}

static IpbSession *
open_session(Fixture *fixture)
{
    g_autoptr(GError) error = NULL;
    IpbSessionOptions options = session_options(fixture);
    IpbSession *session = ipb_session_new(fixture->runtime, &options, &error);
    g_assert_no_error(error);
    return session;
}

static void
set_true(void *data)
{
    *(bool *) data = true;
}

static void
close_session(IpbSession *session)
{
    bool is_closed = false;
    ipb_session_close(session, set_true, &is_closed);
    while (!is_closed)
        g_main_context_iteration(NULL, TRUE);
    ipb_session_free(session);
}

static void
wait_for(Fixture *fixture, const char *text)
{
    while (strstr(fixture->trace->str, text) == NULL)
        g_main_context_iteration(NULL, TRUE);
}

static void
test_cells(Fixture *fixture, const void *unused)
{
    IpbSession *session = open_session(fixture);
    g_assert_cmpuint(fixture->provider->n_kernels, ==, 1);
    g_assert_cmpuint(ipb_session_execute(session, "one", 0, on_event, fixture, NULL), ==, 1);
    g_assert_cmpuint(ipb_session_execute(session, "two", 0, on_event, fixture, NULL), ==, 2);
    wait_for(fixture, "stdout(two) done(ok) ");
    g_assert_cmpstr(fixture->trace->str, ==,
                    "ready started stdout(one) done(ok) started stdout(two) done(ok) ");
    close_session(session);
}

/* A message of a comm waits in the queue of cells. In the record, what its handlers print belongs
 * to no cell. */
static void
test_comms(Fixture *fixture, const void *unused)
{
    g_autofree char *path = g_build_filename(fixture->workspace, "record.jsonl", NULL);
    g_autoptr(GError) error = NULL;
    IpbSessionOptions options = session_options(fixture);
    options.record = path;
    IpbSession *session = ipb_session_new(fixture->runtime, &options, &error);
    g_assert_no_error(error);
    g_autoptr(GBytes) comm =
        ipb_comm_write(&(IpbComm){.kind = IPB_COMM_CLOSE, .comm_id = "c"}, NULL);
    IpbCellOptions of_comm = {.comm = comm};
    ipb_session_execute(session, "one", 0, on_event, fixture, NULL);
    ipb_session_execute_with(session, "", &of_comm, on_event, fixture, NULL);
    ipb_session_execute(session, "two", 0, on_event, fixture, NULL);
    wait_for(fixture, "stdout(two) done(ok) ");
#define MESSAGE "{\"kind\":\"close\",\"comm_id\":\"c\",\"data\":{},\"buffers\":[]}"
    g_assert_cmpstr(fixture->trace->str, ==,
                    "ready started stdout(one) done(ok) started stdout(" MESSAGE
                    ") done(ok) started stdout(two) done(ok) ");
    close_session(session);
    g_autofree char *record = NULL;
    g_assert_true(g_file_get_contents(path, &record, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(record, "\n", -1);
    static const char *const PARTS[] = {
        "\"record\"", "\"ready\"",  "\"cell\":1,\"code\":\"one\"", "\"started\"", "\"stdout\"",
        "\"done\"",   "\"stdout\"", "\"cell\":3,\"code\":\"two\"", "\"started\"", "\"stdout\"",
        "\"done\"",
    };
    /* The cells are recorded when they start; the kernel may be ready before or after. */
    g_assert_cmpuint(g_strv_length(lines), ==, G_N_ELEMENTS(PARTS) + 1);
    g_assert_nonnull(strstr(lines[6], "\"stdout\""));
    g_assert_null(strstr(lines[6], "\"cell\""));
    for (size_t i = 3; i < G_N_ELEMENTS(PARTS); i++)
        g_assert_nonnull(strstr(lines[i], PARTS[i]));
}

static void
test_readiness(Fixture *fixture, const void *unused)
{
    IpbSession *session = open_session(fixture);
    ipb_session_start(session, false);
    g_assert_cmpstr(fixture->trace->str, ==, ""); /* callbacks run only from the main loop */
    wait_for(fixture, "ready ");
    ipb_session_start(session, false);
    wait_for(fixture, "ready ready ");
    ipb_session_report_late_output(session);
    g_assert_cmpstr(fixture->trace->str, ==, "ready ready late(late) ");
    close_session(session);
}

static void
test_failed_start(Fixture *fixture, const void *unused)
{
    fixture->provider->cannot_start = true;
    IpbSession *session = open_session(fixture);
    ipb_session_start(session, false);
    wait_for(fixture, "start_failed(no room) ");
    ipb_session_execute(session, "x", 0, on_event, fixture, NULL);
    wait_for(fixture, "done(lost) ");
    close_session(session);
}

static void
assert_refused(Fixture *fixture, const IpbSessionOptions *options, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_session_new(fixture->runtime, options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_cmpstr(error->message, ==, message);
}

#define ADVICE ": leave the option out, or use another kind"

static void
test_capabilities(Fixture *fixture, const void *unused)
{
    IpbSessionOptions shell = session_options(fixture), sandbox = shell, directory = shell,
                      servers = shell;
    shell.approves_shell_cmds = true;
    assert_refused(fixture, &shell,
                   "kernels of the kind \"fake\" cannot approve shell commands" ADVICE);
    sandbox.is_sandboxed = true;
    assert_refused(fixture, &sandbox,
                   "kernels of the kind \"fake\" cannot run in a sandbox" ADVICE);
    directory.working_dir = fixture->workspace;
    assert_refused(fixture, &directory,
                   "kernels of the kind \"fake\" cannot return to a working directory" ADVICE);
    servers.allowed_servers = "{}";
    assert_refused(fixture, &servers, "kernels of the kind \"fake\" cannot call tools" ADVICE);
    g_autoptr(GError) error = NULL;
    IpbSession *session = open_session(fixture);
    IpbRegisterOptions registration = {.name = "server"};
    g_assert_cmpuint(ipb_session_register(session, &registration, NULL, NULL, &error), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    close_session(session);
}

static void
test_runtime_stops_providers(Fixture *fixture, const void *unused)
{
    bool is_stopped = false;
    ipb_runtime_stop(fixture->runtime, set_true, &is_stopped);
    while (!is_stopped)
        g_main_context_iteration(NULL, TRUE);
    g_assert_true(fixture->provider->is_stopped);
    g_assert_false(fixture->provider->is_started);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(path, func)                                                                            \
    g_test_add("/session/kernel-provider/" path, Fixture, NULL, set_up, func, tear_down)
    ADD("cells", test_cells);
    ADD("comms", test_comms);
    ADD("readiness", test_readiness);
    ADD("failed-start", test_failed_start);
    ADD("capabilities", test_capabilities);
    ADD("runtime-stops-providers", test_runtime_stops_providers);
    return g_test_run();
}
