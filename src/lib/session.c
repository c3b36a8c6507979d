/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions; see <ipybox/session.h>.
 *
 * A public session is a shell around an IpbSession, its core. The core may end before the shell:
 * when the session was closed, when its runtime was freed, or when the session was freed from
 * within a callback. The callback is on the core's stack then, so the core is freed in the
 * context's next iteration. Calls on a session without a core end with BUSY. Events of a core that
 * is about to be freed are not reported.
 */
#include "lib/session.h"

#include <string.h>

#include "base/error.h"
#include "lib/approval.h"
#include "lib/block.h"
#include "lib/command-result.h"
#include "lib/event.h"
#include "lib/result.h"
#include "lib/runtime.h"
#include "lib/server.h"
#include "lib/tool-call.h"
#include "lib/version.h"
#include "session/saved-state.h"

struct IpyboxSession {
    unsigned references;
    IpyboxRuntime *runtime; /* NULL: it was freed, or the core has ended */
    GMainContext *context;
    IpbSession *core; /* NULL: it has ended */
    char *workspace;
    IpyboxApprovalFunc on_approval;
    IpyboxWithdrawnFunc on_withdrawn;
    IpyboxToolCallFunc on_tool_call;
    IpyboxToolCallFunc on_tool_cancelled;
    IpyboxEventFunc on_event;
    IpyboxLogFunc on_log;
    gpointer user_data;
    bool can_register;
    bool is_closed; /* or being closed */
    bool is_freed;  /* by the program: no callback is called any more */
    IpbCall *closing;
    IpbTimer *close_timer;
    void (*ended)(void *data); /* for the runtime, which waits for the end; or NULL */
    void *ended_data;
    GPtrArray *calls;      /* IpbCall that the core has not ended */
    GPtrArray *approvals;  /* IpyboxApproval that wait; borrowed */
    GPtrArray *tool_calls; /* IpyboxToolCall that wait; borrowed */
    char **warnings;       /* of a session that was forked; or NULL */
    bool keeps_files;      /* at a restore */
};

static bool
is_open(const IpyboxSession *session)
{
    return session->core != NULL && !session->is_closed && !session->is_freed;
}

static IpyboxSession *
session_ref(IpyboxSession *session)
{
    session->references++;
    return session;
}

static void
session_unref(IpyboxSession *session)
{
    if (--session->references > 0)
        return;
    g_ptr_array_unref(session->calls);
    g_ptr_array_unref(session->approvals);
    g_ptr_array_unref(session->tool_calls);
    g_main_context_unref(session->context);
    g_strfreev(session->warnings);
    g_free(session->workspace);
    g_free(session);
}

/* Runs in the context's next iteration; the session is kept until then. */
typedef void (*RunFunc)(IpyboxSession *session, void *data);

typedef struct {
    IpyboxSession *session;
    RunFunc func;
    void *data;
    GDestroyNotify free_data;
} Run;

static void
free_run(gpointer data)
{
    Run *run = data;
    if (run->free_data != NULL)
        run->free_data(run->data);
    session_unref(run->session);
    g_free(run);
}

static gboolean
on_run(gpointer data)
{
    Run *run = data;
    run->func(run->session, run->data);
    return G_SOURCE_REMOVE;
}

static void
run_soon(IpyboxSession *session, RunFunc func, void *data, GDestroyNotify free_data)
{
    Run *run = g_new(Run, 1);
    *run = (Run){session_ref(session), func, data, free_data};
    g_autoptr(GSource) source = g_idle_source_new();
    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, on_run, run, free_run);
    g_source_attach(source, session->context);
}

/* --- callbacks of the core ------------------------------------------------------------------- */

static void
on_approval(const IpbApprovalRequest *request, void *data)
{
    IpyboxSession *session = data;
    if (session->is_freed)
        return;
    g_autoptr(IpyboxApproval) approval =
        ipb_lib_approval_new(request, session->core, session->approvals);
    ipb_block_enter_callback();
    session->on_approval(session, approval, session->user_data);
    ipb_block_leave_callback();
}

static void
report_withdrawn(IpyboxSession *session, void *approval)
{
    if (session->is_freed)
        return;
    ipb_block_enter_callback();
    session->on_withdrawn(session, approval, session->user_data);
    ipb_block_leave_callback();
}

/* Also called from within calls of the program, so it is reported later. If the program did not
 * keep the request, there is nothing to report. */
static void
on_withdrawn(uint64_t id, void *data)
{
    IpyboxSession *session = data;
    IpyboxApproval *approval = ipb_waiting_detach_id(session->approvals, id);
    if (approval != NULL && !session->is_freed)
        run_soon(session, report_withdrawn, ipybox_approval_ref(approval),
                 (GDestroyNotify) ipybox_approval_unref);
}

static void
on_tool_call(const IpbApplicationCall *call, void *data)
{
    IpyboxSession *session = data;
    if (session->is_freed)
        return;
    g_autoptr(IpyboxToolCall) made =
        ipb_lib_tool_call_new(call, session->core, session->tool_calls);
    ipb_block_enter_callback();
    session->on_tool_call(session, made, session->user_data);
    ipb_block_leave_callback();
}

static void
report_cancelled(IpyboxSession *session, void *call)
{
    if (session->is_freed)
        return;
    ipb_block_enter_callback();
    session->on_tool_cancelled(session, call, session->user_data);
    ipb_block_leave_callback();
}

/* As for on_withdrawn. */
static void
on_tool_cancelled(uint64_t id, void *data)
{
    IpyboxSession *session = data;
    IpyboxToolCall *call = ipb_waiting_detach_id(session->tool_calls, id);
    if (call != NULL && !session->is_freed && session->on_tool_cancelled != NULL)
        run_soon(session, report_cancelled, ipybox_tool_call_ref(call),
                 (GDestroyNotify) ipybox_tool_call_unref);
}

static void
on_log(const char *level, const char *text, void *data)
{
    IpyboxSession *session = data;
    if (session->on_log == NULL || session->is_freed)
        return;
    /* While the session is being made, the program does not have it yet. */
    IpyboxSession *source = session->core != NULL ? session : NULL;
    ipb_block_enter_callback();
    session->on_log(source, level, text, session->user_data);
    ipb_block_leave_callback();
}

/* Of the kernel, or late: no cell that runs is concerned. */
static void
on_session_event(const IpbEvent *event, void *data)
{
    IpyboxSession *session = data;
    if (!session->is_freed)
        ipb_lib_event_report(session, event, session->on_event, session->user_data);
}

/* --- opening --------------------------------------------------------------------------------- */

static IpbApprovalPolicy
policy_of(IpyboxApprovalPolicy policy)
{
    switch (policy) {
    case IPYBOX_APPROVAL_ALLOW:
        return IPB_APPROVAL_ALLOW;
    case IPYBOX_APPROVAL_ASK:
        return IPB_APPROVAL_ASK;
    case IPYBOX_APPROVAL_DENY:
        break;
    }
    return IPB_APPROVAL_DENY;
}

static bool
check_environment(const char *const *environment, const char *name, GError **error)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strchr(*environment, '=') > *environment)
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%s: each entry must be \"NAME=value\", not \"%s\"", name, *environment);
        return false;
    }
    return true;
}

static bool
check_options(const IpyboxSessionOptions *options, GError **error)
{
    if (!ipb_lib_check_version(options->version, IPYBOX_SESSION_OPTIONS_VERSION,
                               "IpyboxSessionOptions", error))
        return false;
    if (options->seed < -1 || options->seed > UINT32_MAX) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "seed: an integer from 0 to 4294967295, or -1 for none");
        return false;
    }
    if (options->approval > IPYBOX_APPROVAL_DENY) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "approval: %d is no IpyboxApprovalPolicy", (int) options->approval);
        return false;
    }
    if (options->sandbox > IPYBOX_SANDBOX_ON) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "sandbox: %d is no IpyboxSandbox",
                    (int) options->sandbox);
        return false;
    }
    if (options->workspace_mode > IPYBOX_WORKSPACE_STAGED) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "workspace_mode: %d is no IpyboxWorkspaceMode", (int) options->workspace_mode);
        return false;
    }
    if (options->application_tools != NULL && options->on_tool_call == NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "application_tools needs on_tool_call, which runs their calls");
        return false;
    }
    if (options->sandbox == IPYBOX_SANDBOX_OFF && options->sandbox_config != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "sandbox_config has no effect where sandbox is IPYBOX_SANDBOX_OFF");
        return false;
    }
    if (options->sandbox == IPYBOX_SANDBOX_OFF && options->allowed_domains != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "allowed_domains has no effect where sandbox is IPYBOX_SANDBOX_OFF");
        return false;
    }
    return check_environment(options->kernel_env, "kernel_env", error) &&
           check_environment(options->env, "env", error);
}

static IpbSession *
make_core(IpyboxSession *session, const IpyboxSessionOptions *options, GError **error)
{
    g_autoptr(IpbApplicationTools) tools = NULL;
    const char *described = options->application_tools;
    if (described != NULL &&
        (tools = ipb_application_tools_new(described, strlen(described), error)) == NULL)
        return NULL;
    IpbSessionOptions core_options = {
        .workspace = options->workspace,
        .saves_images = true,
        .images_dir = options->images_dir,
        .kernel_env = options->kernel_env,
        .env = options->env,
        .allowed_servers = options->allowed_servers,
        .approval = policy_of(options->approval),
        .approval_rules = options->approval_rules,
        .audit_log = options->audit_log,
        .record = options->record,
        .undo = options->undo,
        .approval_timeout_ms = options->approval_timeout_ms,
        .on_approval = options->on_approval != NULL ? on_approval : NULL,
        .on_approval_withdrawn = options->on_withdrawn != NULL ? on_withdrawn : NULL,
        .application_tools = tools,
        .on_tool_call = on_tool_call,
        .on_tool_cancelled = on_tool_cancelled,
        .connect_timeout_ms = options->connect_timeout_ms,
        .seed = options->seed,
        .has_seed = options->seed >= 0,
        .is_sandboxed = options->sandbox == IPYBOX_SANDBOX_ON,
        .sandbox_config = options->sandbox_config,
        .allowed_domains = options->allowed_domains,
        .makes_packages = options->register_servers,
        .allows_builds = options->allow_builds,
        .working_dir = options->working_dir,
        .limits = options->limits,
        .is_staged = options->workspace_mode == IPYBOX_WORKSPACE_STAGED,
        .staging_dir = options->staging_dir,
        .approves_shell_cmds = options->approve_shell_cmds,
        .requires_shell_escape = options->require_shell_escape,
        .kernel_init_timeout_ms = options->kernel_init_timeout_ms,
        .on_event = on_session_event,
        .on_log = on_log,
        .data = session,
    };
    g_autoptr(IpbSession) core = ipb_session_new(session->runtime->core, &core_options, error);
    if (core == NULL || !ipb_session_allow_below(core, NULL, error))
        return NULL;
    if (options->on_event != NULL)
        ipb_session_watch_late_output(core, on_session_event, session);
    return g_steal_pointer(&core);
}

static void
set_closed(GError **error)
{
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the runtime is closed");
}

/* A session without a core. Of @options, it has the callbacks and whether it registers servers. */
static IpyboxSession *
make_session(IpyboxRuntime *runtime, const IpyboxSessionOptions *options)
{
    IpyboxSession *session = g_new0(IpyboxSession, 1);
    session->references = 1;
    session->runtime = runtime;
    session->context = g_main_context_ref(runtime->context);
    session->on_approval = options->on_approval;
    session->on_withdrawn = options->on_withdrawn;
    session->on_tool_call = options->on_tool_call;
    session->on_tool_cancelled = options->on_tool_cancelled;
    session->on_event = options->on_event;
    session->on_log = options->on_log;
    session->user_data = options->user_data;
    session->can_register = options->sandbox == IPYBOX_SANDBOX_OFF || options->register_servers;
    session->calls = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_call_unref);
    session->approvals = g_ptr_array_new();
    session->tool_calls = g_ptr_array_new();
    return session;
}

IpyboxSession *
ipybox_session_new(IpyboxRuntime *runtime, const IpyboxSessionOptions *options, GError **error)
{
    g_return_val_if_fail(runtime != NULL, NULL);
    static const IpyboxSessionOptions DEFAULTS = IPYBOX_SESSION_OPTIONS_INIT;
    if (options == NULL)
        options = &DEFAULTS;
    if (!check_options(options, error))
        return NULL;
    if (runtime->is_closed) {
        set_closed(error);
        return NULL;
    }
    IpyboxSession *session = make_session(runtime, options);
    session->core = make_core(session, options, error);
    if (session->core != NULL && runtime->is_closed) { /* by on_log, or it was freed */
        g_clear_pointer(&session->core, ipb_session_free);
        set_closed(error);
    }
    if (session->core == NULL) {
        session_unref(session);
        return NULL;
    }
    session->workspace = g_strdup(ipb_session_workspace(session->core));
    g_ptr_array_add(runtime->sessions, session);
    return session;
}

/* --- while it is open ------------------------------------------------------------------------ */

void
ipybox_session_start(IpyboxSession *session)
{
    g_return_if_fail(session != NULL);
    if (is_open(session))
        ipb_session_start(session->core, /* rehearses= */ false);
}

const char *
ipybox_session_get_workspace(IpyboxSession *session)
{
    g_return_val_if_fail(session != NULL, NULL);
    return session->workspace;
}

void
ipybox_session_interrupt(IpyboxSession *session)
{
    g_return_if_fail(session != NULL);
    if (is_open(session))
        ipb_session_interrupt(session->core);
}

void
ipybox_session_set_paused(IpyboxSession *session, gboolean paused)
{
    g_return_if_fail(session != NULL);
    if (!is_open(session))
        return;
    ipb_session_set_paused(session->core, paused);
    ipb_commands_pause_all(ipb_session_commands(session->core), paused);
}

/* --- calls that the core ends ---------------------------------------------------------------- */

/* Keeps @call until forget_call. If there is no open core, the call ends with BUSY: false. */
static bool
begin_call(IpyboxSession *session, IpbCall *call)
{
    if (!is_open(session)) {
        ipb_call_return_error(
            call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session is closed"));
        return false;
    }
    call->owner = session;
    g_ptr_array_add(session->calls, ipb_call_ref(call));
    return true;
}

static void
forget_call(IpyboxSession *session, IpbCall *call)
{
    g_ptr_array_remove_fast(session->calls, call);
}

static void
on_reset(void *data)
{
    IpbCall *call = data;
    ipb_call_return(call, GINT_TO_POINTER(TRUE), NULL);
    forget_call(call->owner, call);
}

void
ipybox_session_reset_async(IpyboxSession *session, GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_reset_async, callback, user_data);
    if (begin_call(session, call))
        ipb_session_reset(session->core, on_reset, call);
}

gboolean
ipybox_session_reset_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_reset_async, error) != NULL;
}

gboolean
ipybox_session_reset(IpyboxSession *session, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return FALSE;
    ipybox_session_reset_async(session, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_reset_finish(NULL, result, error);
}

/* --- cells ----------------------------------------------------------------------------------- */

/* Data of the call of a cell. */
typedef struct {
    IpyboxEventFunc on_event;
    gpointer user_data;
    IpbLibCollector *collector;
} Cell;

static void
free_cell(void *data)
{
    Cell *cell = data;
    ipb_lib_collector_free(cell->collector);
    g_free(cell);
}

static void
on_cell_event(const IpbEvent *event, void *data)
{
    IpbCall *call = data;
    IpyboxSession *session = call->owner;
    Cell *cell = call->data;
    if (!call->has_ended)
        ipb_lib_event_report(session, event, cell->on_event, cell->user_data);
    IpyboxResult *result = ipb_lib_collector_add(cell->collector, event);
    if (result == NULL)
        return;
    ipb_call_return(call, result, (GDestroyNotify) ipybox_result_free);
    forget_call(session, call);
}

static void
cancel_cell(IpbCall *call)
{
    IpyboxSession *session = call->owner;
    ipb_session_cancel(session->core, call->number);
}

static void
start_cell(IpyboxSession *session, IpbCall *call, const char *code, const IpbCellOptions *options,
           GCancellable *cancellable)
{
    if (!begin_call(session, call))
        return;
    g_autoptr(GError) error = NULL;
    if (cancellable != NULL && g_cancellable_is_cancelled(cancellable))
        ipb_call_return(call, ipb_lib_result_new_cancelled(), (GDestroyNotify) ipybox_result_free);
    else
        call->number =
            ipb_session_execute_with(session->core, code, options, on_cell_event, call, &error);
    if (error != NULL)
        ipb_call_return_copy(call, error);
    if (call->number == 0)
        forget_call(session, call);
    else
        ipb_call_watch(call, cancellable, cancel_cell);
}

void
ipybox_session_execute_async(IpyboxSession *session, const char *code,
                             const IpyboxExecuteOptions *options, GCancellable *cancellable,
                             GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL && code != NULL);
    static const IpyboxExecuteOptions DEFAULTS = IPYBOX_EXECUTE_OPTIONS_INIT;
    if (options == NULL)
        options = &DEFAULTS;
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_execute_async, callback, user_data);
    g_autoptr(GError) error = NULL;
    if (!ipb_lib_check_version(options->version, IPYBOX_EXECUTE_OPTIONS_VERSION,
                               "IpyboxExecuteOptions", &error)) {
        ipb_call_return_copy(call, error);
        return;
    }
    Cell *cell = g_new(Cell, 1);
    *cell = (Cell){
        .on_event = options->on_event,
        .user_data = options->user_data,
        .collector = ipb_lib_collector_new(options->max_text_chars),
    };
    call->data = cell;
    call->free_data = free_cell;
    const IpbCellOptions cell_options = {
        .timeout_ms = options->timeout_ms,
        .stores_history = true,
        .allows_input = options->allow_input && options->on_event != NULL,
        .input_timeout_ms = options->input_timeout_ms,
        .undoes_on_error = options->undo_on_error,
    };
    start_cell(session, call, code, &cell_options, cancellable);
}

IpyboxResult *
ipybox_session_execute_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_execute_async, error);
}

IpyboxResult *
ipybox_session_execute(IpyboxSession *session, const char *code,
                       const IpyboxExecuteOptions *options, GCancellable *cancellable,
                       GError **error)
{
    g_return_val_if_fail(session != NULL && code != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_execute_async(session, code, options, cancellable, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_execute_finish(NULL, result, error);
}

gboolean
ipybox_session_answer_input(IpyboxSession *session, guint64 input, const char *value,
                            GError **error)
{
    g_return_val_if_fail(session != NULL && value != NULL, FALSE);
    return ipb_session_answer_input(session->core, input, value, NULL, error);
}

void
ipybox_session_refuse_input(IpyboxSession *session, guint64 input, const char *why)
{
    g_return_if_fail(session != NULL);
    bool is_valid = why != NULL && g_utf8_validate(why, -1, NULL);
    ipb_session_answer_input(session->core, input, NULL, is_valid ? why : "the input was refused",
                             NULL);
}

/* --- a staged workspace ----------------------------------------------------------------------- */

static void
on_changes(const IpbStagedResult *result, const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL) {
        ipb_call_return_copy(call, error);
    } else {
        IpbJsonWriter *writer = ipb_json_writer_new();
        ipb_staged_result_write(result, IPB_STAGED_MAX_SHOWN, writer);
        ipb_call_return(call, ipb_json_writer_finish(writer, NULL), g_free);
    }
    forget_call(call->owner, call);
}

/* The work continues. Its end finds the call ended. */
static void
cancel_changes(IpbCall *call)
{
    ipb_call_return_error(
        call, g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the call was cancelled"));
}

static void
work_on_changes(IpyboxSession *session, IpbCall *call, IpbStagedAction action,
                const char *const *paths, GCancellable *cancellable)
{
    if (!begin_call(session, call))
        return;
    g_autoptr(GError) error = NULL;
    if (ipb_session_work_on_changes(session->core, action, paths, on_changes, call, &error)) {
        ipb_call_watch(call, cancellable, cancel_changes);
        return;
    }
    ipb_call_return_copy(call, error);
    forget_call(session, call);
}

void
ipybox_session_changes_async(IpyboxSession *session, gboolean diffs, GCancellable *cancellable,
                             GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_changes_async, callback, user_data);
    work_on_changes(session, call, diffs ? IPB_STAGED_LIST_DIFFS : IPB_STAGED_LIST, NULL,
                    cancellable);
}

char *
ipybox_session_changes_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_changes_async, error);
}

char *
ipybox_session_changes(IpyboxSession *session, gboolean diffs, GCancellable *cancellable,
                       GError **error)
{
    g_return_val_if_fail(session != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_changes_async(session, diffs, cancellable, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_changes_finish(NULL, result, error);
}

void
ipybox_session_commit_async(IpyboxSession *session, const char *const *paths,
                            GCancellable *cancellable, GAsyncReadyCallback callback,
                            gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_commit_async, callback, user_data);
    work_on_changes(session, call, IPB_STAGED_FREEZE_AND_COMMIT, paths, cancellable);
}

char *
ipybox_session_commit_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_commit_async, error);
}

char *
ipybox_session_commit(IpyboxSession *session, const char *const *paths, GCancellable *cancellable,
                      GError **error)
{
    g_return_val_if_fail(session != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_commit_async(session, paths, cancellable, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_commit_finish(NULL, result, error);
}

void
ipybox_session_discard_async(IpyboxSession *session, const char *const *paths,
                             GCancellable *cancellable, GAsyncReadyCallback callback,
                             gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_discard_async, callback, user_data);
    work_on_changes(session, call, IPB_STAGED_DISCARD, paths, cancellable);
}

char *
ipybox_session_discard_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_discard_async, error);
}

char *
ipybox_session_discard(IpyboxSession *session, const char *const *paths, GCancellable *cancellable,
                       GError **error)
{
    g_return_val_if_fail(session != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_discard_async(session, paths, cancellable, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_discard_finish(NULL, result, error);
}

const char *
ipybox_session_get_layer(IpyboxSession *session)
{
    g_return_val_if_fail(session != NULL, NULL);
    return session->core != NULL ? ipb_session_layer(session->core) : NULL;
}

/* --- saved variables ------------------------------------------------------------------------- */

static void
free_state(void *data)
{
    ipb_saved_state_free(data);
}

static void
on_state(const char *report, const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL)
        ipb_call_return_copy(call, error);
    else
        ipb_call_return(call, g_strdup(report), g_free);
    forget_call(call->owner, call);
}

static void
start_state(IpyboxSession *session, IpbCall *call, IpbStateAction action, const char *path,
            const char *const *names, unsigned timeout_ms, GCancellable *cancellable)
{
    if (!begin_call(session, call))
        return;
    g_autoptr(GError) error = NULL;
    call->data = ipb_saved_state_new(session->core, action, path, names, timeout_ms, on_state, call,
                                     &call->number, &error);
    call->free_data = free_state;
    if (call->data != NULL) {
        ipb_call_watch(call, cancellable, cancel_cell);
        return;
    }
    ipb_call_return_copy(call, error);
    forget_call(session, call);
}

void
ipybox_session_save_async(IpyboxSession *session, const char *path, const char *const *names,
                          unsigned timeout_ms, GCancellable *cancellable,
                          GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL && path != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_save_async, callback, user_data);
    start_state(session, call, IPB_STATE_SAVE, path, names, timeout_ms, cancellable);
}

char *
ipybox_session_save_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_save_async, error);
}

char *
ipybox_session_save(IpyboxSession *session, const char *path, const char *const *names,
                    unsigned timeout_ms, GCancellable *cancellable, GError **error)
{
    g_return_val_if_fail(session != NULL && path != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_save_async(session, path, names, timeout_ms, cancellable, ipb_block_on_ready,
                              &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_save_finish(NULL, result, error);
}

void
ipybox_session_load_async(IpyboxSession *session, const char *path, unsigned timeout_ms,
                          GCancellable *cancellable, GAsyncReadyCallback callback,
                          gpointer user_data)
{
    g_return_if_fail(session != NULL && path != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_load_async, callback, user_data);
    start_state(session, call, IPB_STATE_LOAD, path, NULL, timeout_ms, cancellable);
}

char *
ipybox_session_load_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_load_async, error);
}

char *
ipybox_session_load(IpyboxSession *session, const char *path, unsigned timeout_ms,
                    GCancellable *cancellable, GError **error)
{
    g_return_val_if_fail(session != NULL && path != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_load_async(session, path, timeout_ms, cancellable, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_load_finish(NULL, result, error);
}

/* --- commands -------------------------------------------------------------------------------- */

#define DEFAULT_MAX_OUTPUT ((gsize) 10 * 1024 * 1024)

/* Data of the call of a command with on_output. */
typedef struct {
    IpyboxCommandOutputFunc on_output;
    gpointer user_data;
} CommandOutput;

static void
on_command_output(bool is_stderr, const void *bytes, size_t size, void *data)
{
    const IpbCall *call = data;
    const CommandOutput *output = call->data;
    if (call->has_ended)
        return;
    ipb_block_enter_callback();
    output->on_output(call->owner, is_stderr ? IPYBOX_COMMAND_STDERR : IPYBOX_COMMAND_STDOUT, bytes,
                      size, output->user_data);
    ipb_block_leave_callback();
}

static void
on_command_end(const IpbCommandResult *result, const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL)
        ipb_call_return_copy(call, error);
    else
        ipb_call_return(call, ipb_lib_command_result_new(result),
                        (GDestroyNotify) ipybox_command_result_free);
    forget_call(call->owner, call);
}

static void
cancel_command(IpbCall *call)
{
    const IpyboxSession *session = call->owner;
    ipb_commands_cancel(ipb_session_commands(session->core), call->number);
}

static bool
start_command(IpyboxSession *session, IpbCall *call, const char *const *argv,
              const IpyboxCommandOptions *options, GError **error)
{
    if (!ipb_lib_check_version(options->version, IPYBOX_COMMAND_OPTIONS_VERSION,
                               "IpyboxCommandOptions", error) ||
        !check_environment(options->env, "env", error))
        return false;
    if (options->on_output != NULL) {
        const CommandOutput output = {options->on_output, options->user_data};
        call->data = g_memdup2(&output, sizeof output);
        call->free_data = g_free;
    }
    g_autoptr(GBytes) input =
        options->input_size > 0 ? g_bytes_new_static(options->input, options->input_size) : NULL;
    const IpbCommandOptions core_options = {
        .argv = argv,
        .env = options->env,
        .cwd = options->cwd,
        .input = input,
        .timeout_ms = options->timeout_ms,
        .max_output = options->max_output > 0 ? options->max_output : DEFAULT_MAX_OUTPUT,
        .on_output = options->on_output != NULL ? on_command_output : NULL,
        .data = call,
    };
    call->number =
        ipb_session_run_command(session->core, &core_options, on_command_end, call, error);
    return call->number != 0;
}

void
ipybox_session_run_command_async(IpyboxSession *session, const char *const *argv,
                                 const IpyboxCommandOptions *options, GCancellable *cancellable,
                                 GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL && argv != NULL);
    static const IpyboxCommandOptions DEFAULTS = IPYBOX_COMMAND_OPTIONS_INIT;
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_run_command_async, callback, user_data);
    if (!begin_call(session, call))
        return;
    g_autoptr(GError) error = NULL;
    if (start_command(session, call, argv, options != NULL ? options : &DEFAULTS, &error)) {
        ipb_call_watch(call, cancellable, cancel_command);
        return;
    }
    ipb_call_return_copy(call, error);
    forget_call(session, call);
}

IpyboxCommandResult *
ipybox_session_run_command_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_run_command_async, error);
}

IpyboxCommandResult *
ipybox_session_run_command(IpyboxSession *session, const char *const *argv,
                           const IpyboxCommandOptions *options, GCancellable *cancellable,
                           GError **error)
{
    g_return_val_if_fail(session != NULL && argv != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_run_command_async(session, argv, options, cancellable, ipb_block_on_ready,
                                     &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_run_command_finish(NULL, result, error);
}

/* --- MCP servers ----------------------------------------------------------------------------- */

static void
on_registered(const char *const *modules, const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL)
        ipb_call_return_copy(call, error);
    else
        ipb_call_return(call, g_strdupv((char **) modules), (GDestroyNotify) g_strfreev);
    forget_call(call->owner, call);
}

static void
cancel_register(IpbCall *call)
{
    IpyboxSession *session = call->owner;
    ipb_session_cancel_register(session->core, call->number);
}

static bool
start_register(IpyboxSession *session, IpbCall *call, const char *name, const char *params_json,
               const IpyboxRegisterOptions *options, GError **error)
{
    if (!ipb_lib_check_version(options->version, IPYBOX_REGISTER_OPTIONS_VERSION,
                               "IpyboxRegisterOptions", error))
        return false;
    if (!session->can_register) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "a session in a sandbox registers servers only if it was opened with "
                            "register_servers: its kernel could change what is generated");
        return false;
    }
    if ((unsigned) options->listing > IPYBOX_LISTING_STUBS) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "listing is no value of IpyboxListing");
        return false;
    }
    g_autoptr(IpbJsonDoc) params = ipb_lib_parse_server_params(params_json, error);
    if (params == NULL)
        return false;
    IpbRegisterOptions core_options = {
        .name = name,
        .params = ipb_json_root(params),
        .root_dir = options->root_dir,
        .async_api = options->async_api,
        .listing = (IpbApigenListing) options->listing,
    };
    call->number = ipb_session_register(session->core, &core_options, on_registered, call, error);
    return call->number != 0;
}

void
ipybox_session_register_async(IpyboxSession *session, const char *name, const char *params_json,
                              const IpyboxRegisterOptions *options, GCancellable *cancellable,
                              GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL && name != NULL && params_json != NULL);
    static const IpyboxRegisterOptions DEFAULTS = IPYBOX_REGISTER_OPTIONS_INIT;
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_register_async, callback, user_data);
    if (!begin_call(session, call))
        return;
    g_autoptr(GError) error = NULL;
    if (start_register(session, call, name, params_json, options != NULL ? options : &DEFAULTS,
                       &error)) {
        ipb_call_watch(call, cancellable, cancel_register);
        return;
    }
    ipb_call_return_copy(call, error);
    forget_call(session, call);
}

char **
ipybox_session_register_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_register_async, error);
}

char **
ipybox_session_register(IpyboxSession *session, const char *name, const char *params_json,
                        const IpyboxRegisterOptions *options, GCancellable *cancellable,
                        GError **error)
{
    g_return_val_if_fail(session != NULL && name != NULL && params_json != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_register_async(session, name, params_json, options, cancellable,
                                  ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_register_finish(NULL, result, error);
}

/* --- packages -------------------------------------------------------------------------------- */

/* Data of the call of an installation. */
typedef struct {
    IpyboxInstallFunc on_line;
    gpointer line_data;
} Installation;

static void
on_install_line(const char *line, void *data)
{
    IpbCall *call = data;
    const Installation *installation = call->data;
    if (installation->on_line == NULL || call->has_ended)
        return;
    ipb_block_enter_callback();
    installation->on_line(call->owner, line, installation->line_data);
    ipb_block_leave_callback();
}

static void
on_installed(const char *output, const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL)
        ipb_call_return_copy(call, error);
    else
        ipb_call_return(call, g_strdup(output), g_free);
    forget_call(call->owner, call);
}

static void
cancel_install(IpbCall *call)
{
    IpyboxSession *session = call->owner;
    ipb_session_cancel_install(session->core);
}

void
ipybox_session_install_async(IpyboxSession *session, const char *package, IpyboxInstallFunc on_line,
                             gpointer line_data, GCancellable *cancellable,
                             GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL && package != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_install_async, callback, user_data);
    Installation *installation = g_new(Installation, 1);
    *installation = (Installation){on_line, line_data};
    call->data = installation;
    call->free_data = g_free;
    if (!begin_call(session, call))
        return;
    g_autoptr(GError) error = NULL;
    if (ipb_session_install(session->core, package, on_install_line, on_installed, call, &error)) {
        ipb_call_watch(call, cancellable, cancel_install);
        return;
    }
    ipb_call_return_copy(call, error);
    forget_call(session, call);
}

char *
ipybox_session_install_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_install_async, error);
}

char *
ipybox_session_install(IpyboxSession *session, const char *package, GCancellable *cancellable,
                       GError **error)
{
    g_return_val_if_fail(session != NULL && package != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_install_async(session, package, NULL, NULL, cancellable, ipb_block_on_ready,
                                 &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_install_finish(NULL, result, error);
}

/* --- the end --------------------------------------------------------------------------------- */

/* Frees the core; what it still had to report is lost. Requests for approval must not outlive it:
 * if the core waited for the context's next iteration, there may be new ones. */
static void
drop_core(IpyboxSession *session)
{
    session_ref(session); /* the call of a fork that did not end has the last reference */
    g_clear_pointer(&session->close_timer, ipb_timer_free);
    ipb_waiting_detach_all(session->approvals);
    ipb_waiting_detach_all(session->tool_calls);
    g_clear_pointer(&session->core, ipb_session_free);
    g_ptr_array_set_size(session->calls, 0);
    if (session->runtime != NULL) {
        g_ptr_array_remove_fast(session->runtime->sessions, session);
        session->runtime = NULL; /* which may be freed before the session */
        if (session->ended != NULL)
            g_steal_pointer (&session->ended)(session->ended_data);
    }
    session_unref(session);
}

static void
on_drop(IpyboxSession *session, void *data)
{
    drop_core(session);
}

static GError *
make_cancelled(const IpyboxSession *session)
{
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "%s was freed",
                       session->is_freed ? "the session" : "the runtime of the session");
}

/* Ends the core now, or in the next iteration from within a callback. */
static void
end_core(IpyboxSession *session)
{
    if (session->core == NULL)
        return;
    session->is_closed = true;
    ipb_waiting_detach_all(session->approvals);
    ipb_waiting_detach_all(session->tool_calls);
    for (guint i = 0; i < session->calls->len; i++)
        ipb_call_return_error(g_ptr_array_index(session->calls, i), make_cancelled(session));
    if (session->closing != NULL)
        ipb_call_return_error(session->closing, make_cancelled(session));
    g_clear_pointer(&session->closing, ipb_call_unref);
    if (ipb_block_is_in_callback())
        run_soon(session, on_drop, NULL, NULL);
    else
        drop_core(session);
}

/* The orderly end is over, in time or not. No function of the core is on the
 * stack. Takes @error. */
static void
finish_close(IpyboxSession *session, GError *error)
{
    IpbCall *closing = g_steal_pointer(&session->closing);
    session_ref(session);
    drop_core(session);
    if (closing != NULL && error != NULL)
        ipb_call_return_error(closing, error);
    else if (closing != NULL)
        ipb_call_return(closing, GINT_TO_POINTER(TRUE), NULL);
    else
        g_clear_error(&error);
    g_clear_pointer(&closing, ipb_call_unref);
    session_unref(session);
}

static void
on_closed(void *data)
{
    finish_close(data, NULL);
}

static void
on_core_closed(void *data)
{
    IpyboxSession *session = data;
    if (session->runtime == NULL) /* the runtime is being freed, and with it the core */
        return;
    ipb_timer_free(session->close_timer);
    session->close_timer =
        ipb_timer_new(ipb_runtime_loop(session->runtime->core), 0, on_closed, session);
}

static void
on_close_timeout(void *data)
{
    finish_close(data, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                                   "the session had not ended after %d s: what was left was killed",
                                   IPB_LIB_CLOSE_TIMEOUT_MS / 1000));
}

static void
start_close(IpyboxSession *session)
{
    session->is_closed = true;
    session->close_timer = ipb_timer_new(ipb_runtime_loop(session->runtime->core),
                                         IPB_LIB_CLOSE_TIMEOUT_MS, on_close_timeout, session);
    ipb_session_close(session->core, on_core_closed, session);
}

void
ipybox_session_close_async(IpyboxSession *session, GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_close_async, callback, user_data);
    if (!is_open(session)) {
        ipb_call_return_error(
            call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session is closed already"));
        return;
    }
    session->closing = g_steal_pointer(&call);
    start_close(session);
}

gboolean
ipybox_session_close_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_close_async, error) != NULL;
}

gboolean
ipybox_session_close(IpyboxSession *session, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return FALSE;
    ipybox_session_close_async(session, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_close_finish(NULL, result, error);
}

void
ipybox_session_free(IpyboxSession *session)
{
    if (session == NULL)
        return;
    session->is_freed = true;
    end_core(session);
    session_unref(session);
}

/* --- branches -------------------------------------------------------------------------------- */

static void
free_branch(void *branch)
{
    ipybox_session_free(branch);
}

/* The call of a fork belongs to the new session, which belongs to the call until the program gets
 * it. */
static void
on_fork_failed(IpyboxSession *branch, void *data)
{
    IpbCall *call = data;
    forget_call(branch, call);
}

static void
end_fork(IpbCall *call)
{
    run_soon(call->owner, on_fork_failed, ipb_call_ref(call), (GDestroyNotify) ipb_call_unref);
}

static void
on_branched(const char *const *warnings, const GError *error, void *data)
{
    IpbCall *call = data;
    IpyboxSession *branch = call->owner;
    if (call->has_ended) /* it was cancelled */
        return;
    if (error != NULL) {
        ipb_call_return_copy(call, error);
        end_fork(call);
        return;
    }
    branch->warnings = g_strdupv((char **) warnings);
    ipb_call_return(call, g_steal_pointer(&call->data), free_branch);
    forget_call(branch, call);
}

static void
cancel_fork(IpbCall *call)
{
    ipb_call_return_error(
        call, g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the fork was cancelled"));
    end_fork(call);
}

static bool
check_fork_options(const IpyboxForkOptions *options, GError **error)
{
    if (!ipb_lib_check_version(options->version, IPYBOX_FORK_OPTIONS_VERSION, "IpyboxForkOptions",
                               error))
        return false;
    if (options->seed >= -1 && options->seed <= UINT32_MAX)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "seed: an integer from 0 to 4294967295, or -1 for none");
    return false;
}

static IpyboxSession *
new_branch(const IpyboxSession *session, const IpyboxForkOptions *options)
{
    const IpyboxSessionOptions same = {
        .on_approval = session->on_approval,
        .on_withdrawn = session->on_withdrawn,
        .on_tool_call = session->on_tool_call,
        .on_tool_cancelled = session->on_tool_cancelled,
        .on_event = session->on_event,
        .on_log = session->on_log,
        .user_data = options->user_data,
        .sandbox = IPYBOX_SANDBOX_ON,
        .register_servers = session->can_register,
    };
    IpyboxSession *branch = make_session(session->runtime, &same);
    branch->workspace = g_strdup(session->workspace);
    return branch;
}

static bool
start_fork(IpyboxSession *session, IpyboxSession *branch, const IpyboxForkOptions *options,
           IpbCall *call, GError **error)
{
    const IpbSessionForkOptions core_options = {
        .checkpoint = options->checkpoint,
        .seed = options->seed,
        .has_seed = options->seed >= 0,
        .on_approval = branch->on_approval != NULL ? on_approval : NULL,
        .on_approval_withdrawn = branch->on_withdrawn != NULL ? on_withdrawn : NULL,
        .on_tool_call = on_tool_call,
        .on_tool_cancelled = on_tool_cancelled,
        .on_event = on_session_event,
        .on_log = on_log,
        .data = branch,
    };
    branch->core = ipb_session_fork(session->core, &core_options, on_branched, call, error);
    if (branch->core == NULL)
        return false;
    if (branch->on_event != NULL)
        ipb_session_watch_late_output(branch->core, on_session_event, branch);
    g_ptr_array_add(branch->runtime->sessions, branch);
    return true;
}

void
ipybox_session_fork_async(IpyboxSession *session, const IpyboxForkOptions *options,
                          GCancellable *cancellable, GAsyncReadyCallback callback,
                          gpointer user_data)
{
    g_return_if_fail(session != NULL);
    static const IpyboxForkOptions DEFAULTS = IPYBOX_FORK_OPTIONS_INIT;
    if (options == NULL)
        options = &DEFAULTS;
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_fork_async, callback, user_data);
    g_autoptr(GError) error = NULL;
    if (!is_open(session))
        g_set_error_literal(&error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session is closed");
    if (error != NULL || !check_fork_options(options, &error)) {
        ipb_call_return_copy(call, error);
        return;
    }
    IpyboxSession *branch = new_branch(session, options);
    call->owner = branch;
    if (!start_fork(session, branch, options, call, &error)) {
        branch->runtime = NULL;
        ipb_call_return_copy(call, error);
        ipybox_session_free(branch);
        return;
    }
    call->data = branch;
    call->free_data = free_branch;
    g_ptr_array_add(branch->calls, ipb_call_ref(call));
    ipb_call_watch(call, cancellable, cancel_fork);
}

IpyboxSession *
ipybox_session_fork_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_fork_async, error);
}

IpyboxSession *
ipybox_session_fork(IpyboxSession *session, const IpyboxForkOptions *options,
                    GCancellable *cancellable, GError **error)
{
    g_return_val_if_fail(session != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_fork_async(session, options, cancellable, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_fork_finish(NULL, result, error);
}

const char *const *
ipybox_session_get_warnings(IpyboxSession *session)
{
    static const char *const NONE[] = {NULL};
    g_return_val_if_fail(session != NULL, NULL);
    return session->warnings != NULL ? (const char *const *) session->warnings : NONE;
}

/* --- checkpoints ----------------------------------------------------------------------------- */

static void
on_checkpoint_made(uint64_t id, const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL)
        ipb_call_return_copy(call, error);
    else
        ipb_call_return(call, g_memdup2(&id, sizeof id), g_free);
    forget_call(call->owner, call);
}

void
ipybox_session_checkpoint_async(IpyboxSession *session, const char *name,
                                GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_checkpoint_async, callback, user_data);
    g_autoptr(GError) error = NULL;
    if (!begin_call(session, call) ||
        ipb_session_checkpoint(session->core, name, on_checkpoint_made, call, &error))
        return;
    ipb_call_return_copy(call, error);
    forget_call(session, call);
}

uint64_t
ipybox_session_checkpoint_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    g_autofree uint64_t *id = ipb_call_finish(result, ipybox_session_checkpoint_async, error);
    return id != NULL ? *id : 0;
}

uint64_t
ipybox_session_checkpoint(IpyboxSession *session, const char *name, GError **error)
{
    g_return_val_if_fail(session != NULL, 0);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return 0;
    ipybox_session_checkpoint_async(session, name, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_checkpoint_finish(NULL, result, error);
}

static void
on_restored(const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL)
        ipb_call_return_copy(call, error);
    else
        ipb_call_return(call, GINT_TO_POINTER(TRUE), NULL);
    forget_call(call->owner, call);
}

void
ipybox_session_set_restores_files(IpyboxSession *session, gboolean restores_files)
{
    g_return_if_fail(session != NULL);
    session->keeps_files = !restores_files;
}

void
ipybox_session_restore_async(IpyboxSession *session, uint64_t checkpoint,
                             GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_restore_async, callback, user_data);
    g_autoptr(GError) error = NULL;
    if (!begin_call(session, call) ||
        ipb_session_restore(session->core, checkpoint, !session->keeps_files, on_restored, call,
                            &error))
        return;
    ipb_call_return_copy(call, error);
    forget_call(session, call);
}

gboolean
ipybox_session_restore_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_restore_async, error) != NULL;
}

gboolean
ipybox_session_restore(IpyboxSession *session, uint64_t checkpoint, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return FALSE;
    ipybox_session_restore_async(session, checkpoint, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_restore_finish(NULL, result, error);
}

void
ipybox_session_undo_async(IpyboxSession *session, unsigned n, GAsyncReadyCallback callback,
                          gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_undo_async, callback, user_data);
    g_autoptr(GError) error = NULL;
    if (!begin_call(session, call) ||
        ipb_session_undo(session->core, n, !session->keeps_files, on_restored, call, &error))
        return;
    ipb_call_return_copy(call, error);
    forget_call(session, call);
}

gboolean
ipybox_session_undo_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_undo_async, error) != NULL;
}

gboolean
ipybox_session_undo(IpyboxSession *session, unsigned n, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return FALSE;
    ipybox_session_undo_async(session, n, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_undo_finish(NULL, result, error);
}

gboolean
ipybox_session_drop_checkpoint(IpyboxSession *session, uint64_t checkpoint, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    if (is_open(session))
        return ipb_checkpoints_drop(ipb_session_checkpoints(session->core), checkpoint, error);
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session is closed");
    return FALSE;
}

uint64_t *
ipybox_session_list_checkpoints(IpyboxSession *session, size_t *n)
{
    g_return_val_if_fail(session != NULL && n != NULL, NULL);
    *n = 0;
    if (!is_open(session))
        return NULL;
    g_autoptr(GArray) list = ipb_checkpoints_list(ipb_session_checkpoints(session->core));
    uint64_t *ids = g_new(uint64_t, list->len);
    for (guint i = 0; i < list->len; i++)
        ids[i] = g_array_index(list, IpbCheckpointInfo, i).id;
    *n = list->len;
    return ids;
}

gboolean
ipybox_session_get_checkpoint(IpyboxSession *session, uint64_t checkpoint,
                              IpyboxCheckpointInfo *info)
{
    g_return_val_if_fail(session != NULL && info != NULL, FALSE);
    IpbCheckpointInfo own;
    if (info->version != IPYBOX_CHECKPOINT_INFO_VERSION || !is_open(session) ||
        !ipb_checkpoints_get(ipb_session_checkpoints(session->core), checkpoint, &own))
        return FALSE;
    info->name = own.name;
    info->created_us = own.created_us;
    info->private_bytes = own.private_bytes;
    info->warnings = own.warnings;
    info->lost = own.lost_cause;
    return TRUE;
}

/* --- for the runtime ------------------------------------------------------------------------- */

void
ipb_lib_session_close(IpyboxSession *session, void (*ended)(void *data), void *data)
{
    session->ended = ended;
    session->ended_data = data;
    if (!session->is_closed)
        start_close(session);
}

void
ipb_lib_session_lose_runtime(IpyboxSession *session)
{
    session->runtime = NULL;
    end_core(session);
}
