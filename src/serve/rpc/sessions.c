/* SPDX-License-Identifier: Apache-2.0
 *
 * The sessions of a client; see the header.
 */
#include "serve/rpc/sessions.h"

#include "base/error.h"
#include "serve/rpc/cell-answer.h"
#include "serve/rpc/commands.h"
#include "serve/rpc/questions.h"
#include "serve/rpc/session-ports.h"
#include "serve/rpc/tool-calls.h"
#include "session/saved-state.h"

#define MAX_SESSIONS 1000
/* Registrations that are kept for sessions that are opened later. */
#define MAX_REGISTRATIONS 10000

struct IpbRpcSessions {
    IpbRpcClient *client;
    IpbRuntimes *runtimes;
    GHashTable *sessions;     /* id → Session */
    GPtrArray *registrations; /* IpbRegistration: what all sessions may call */
    bool is_congested;
    void (*closed)(void *data); /* NULL: not closing */
    void *closed_data;
};

typedef struct {
    IpbRpcSessions *owner;
    IpbRpcClient *client;
    char *id;
    IpbSession *core;
    IpbRuntime *runtime;
    IpbRpcSessionOptions *options;
    IpbRpcSessionPorts *ports; /* or NULL */
    IpbRpcClientRequests *questions;
    IpbRpcClientRequests *tool_calls;
    bool asks_for_shell_only; /* shell commands need an approval, and other calls do not */
    GQueue cells;             /* Cell, the running one first */
    GPtrArray *starts;        /* Start */
    bool is_paused;           /* by the client */
    bool is_closing;
    IpbRpcPending *close_request; /* or NULL */
    struct Fork *fork;            /* of a session that is being forked from another; or NULL */
} Session;

typedef struct {
    Session *session;
    IpbRpcPending *pending;   /* NULL until the session has taken the cell */
    IpbRpcCellAnswer *answer; /* NULL: it saves or loads variables */
    IpbSavedState *state;     /* or NULL */
    bool has_approval;        /* a policy of its own */
    IpbApprovalPolicy approval;
    bool has_events;
} Cell;

static void
free_cell(void *data)
{
    Cell *cell = data;
    if (cell->answer != NULL)
        ipb_rpc_cell_answer_free(cell->answer);
    ipb_saved_state_free(cell->state);
    g_free(cell);
}

/* NULL, with an error in @params: no session with the id in the parameter "session" is open. */
static Session *
find_session(IpbRpcSessions *sessions, IpbRpcParams *params)
{
    const char *id = ipb_rpc_params_need_string(params, "session");
    if (id == NULL)
        return NULL;
    Session *session = g_hash_table_lookup(sessions->sessions, id);
    if (session != NULL && !session->is_closing)
        return session;
    if (params->error == NULL)
        g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no session \"%.*s\" is open", 20, id);
    return NULL;
}

/* --- approvals ------------------------------------------------------------------------------- */

/* The running cell decides what happens to calls, or else the session. */
static void
apply_approval(Session *session)
{
    const Cell *cell = g_queue_peek_head(&session->cells);
    IpbApprovalPolicy policy = session->options->session.approval;
    if (session->asks_for_shell_only)
        policy = IPB_APPROVAL_ASK;
    if (cell != NULL && cell->has_approval)
        policy = cell->approval;
    ipb_session_set_approval(session->core, policy);
}

/* If only shell commands need an approval, which are tools of our own, other calls are allowed
 * unless a rule says that they need one. */
static bool
is_allowed(Session *session, const IpbApprovalRequest *request)
{
    const Cell *cell = g_queue_peek_head(&session->cells);
    return session->asks_for_shell_only && !request->is_by_rule &&
           !g_str_equal(request->server_name, IPB_OWN_SERVER) &&
           (cell == NULL || !cell->has_approval);
}

static void
on_approval(const IpbApprovalRequest *request, void *data)
{
    Session *session = data;
    const Cell *cell = g_queue_peek_head(&session->cells);
    if (is_allowed(session, request))
        ipb_session_respond(session->core, request->id, true);
    else if (cell == NULL)
        ipb_session_refuse(session->core, request->id,
                           "it needs an approval, and no cell runs for which it could be asked");
    else
        ipb_rpc_questions_ask(session->questions, request, session->id,
                              ipb_rpc_request_id(cell->pending->request));
}

static void
on_approval_withdrawn(uint64_t request, void *data)
{
    Session *session = data;
    ipb_rpc_client_requests_cancel(session->questions, request);
}

/* --- tools of the client --------------------------------------------------------------------- */

static void
on_tool_call(const IpbApplicationCall *call, void *data)
{
    Session *session = data;
    const Cell *cell = g_queue_peek_head(&session->cells);
    ipb_rpc_tool_calls_run(session->tool_calls, call, session->id,
                           cell != NULL ? ipb_rpc_request_id(cell->pending->request) : NULL);
}

static void
on_tool_cancelled(uint64_t call, void *data)
{
    Session *session = data;
    ipb_rpc_client_requests_cancel(session->tool_calls, call);
}

/* --- starting a kernel ----------------------------------------------------------------------- */

/* A session.start that waits for READY or START_FAILED. */
typedef struct {
    Session *session;
    IpbRpcPending *pending;
    unsigned timeout_ms;
    IpbTimer *timer;
} Start;

static void
free_start(Start *start)
{
    g_ptr_array_remove(start->session->starts, start);
    ipb_timer_free(start->timer);
    g_free(start);
}

static void
end_start(Start *start, const GError *error)
{
    IpbRpcPending *pending = start->pending;
    free_start(start);
    if (error != NULL)
        ipb_rpc_pending_fail(pending, error);
    else
        ipb_rpc_pending_reply_empty(pending);
}

static void
on_start_timeout(void *data)
{
    Start *start = data;
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT, "the kernel was not ready within %g s",
                    start->timeout_ms / 1000.0);
    end_start(start, error);
}

static void
cancel_start(IpbRpcPending *pending)
{
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the start was cancelled");
    end_start(pending->data, error);
}

/* What the kernel printed before its first cell belongs to no answer: it is logged. */
static void
end_starts(Session *session, const GError *error)
{
    if (session->starts->len > 0)
        ipb_session_report_late_output(session->core);
    while (session->starts->len > 0)
        end_start(g_ptr_array_index(session->starts, 0), error);
}

static void
on_session_event(const IpbEvent *event, void *data)
{
    Session *session = data;
    if (event->type == IPB_EVENT_NOTICE || event->type == IPB_EVENT_LATE_OUTPUT) {
        ipb_rpc_client_log(session->client, "warning", event->text, session->id);
    } else if (event->type == IPB_EVENT_READY) {
        end_starts(session, NULL);
    } else if (event->type == IPB_EVENT_START_FAILED) {
        g_autoptr(GError) error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED,
                                              "no kernel could be started: %s", event->text);
        end_starts(session, error);
    }
}

static void
session_start(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    unsigned timeout_ms = (unsigned) ipb_rpc_params_ms(
        params, "timeout", session != NULL ? session->options->start_timeout_ms : 0);
    if (!ipb_rpc_params_check(params, request))
        return;
    Start *start = g_new0(Start, 1);
    start->session = session;
    start->pending = ipb_rpc_pending_new(session->client, session, request);
    start->pending->data = start;
    start->pending->cancel = cancel_start;
    start->timeout_ms = timeout_ms;
    start->timer =
        ipb_timer_new(ipb_runtime_loop(session->runtime), timeout_ms, on_start_timeout, start);
    g_ptr_array_add(session->starts, start);
    ipb_session_start(session->core, /* rehearses= */ false);
}

/* --- opening a session ----------------------------------------------------------------------- */

static void
free_session(void *data)
{
    Session *session = data;
    g_autoptr(GError) closed =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session was closed");
    ipb_rpc_session_ports_free(session->ports);
    ipb_session_free(session->core); /* no callback comes after this */
    ipb_rpc_client_requests_free(session->questions);
    ipb_rpc_client_requests_free(session->tool_calls);
    while (session->starts->len > 0)
        free_start(g_ptr_array_index(session->starts, 0));
    ipb_rpc_client_fail_all(session->client, session, closed);
    g_queue_clear_full(&session->cells, free_cell);
    ipb_rpc_session_options_unref(session->options);
    ipb_runtimes_give_back(session->owner->runtimes, session->runtime);
    g_ptr_array_unref(session->starts);
    g_free(session->fork);
    g_free(session->id);
    g_free(session);
}

/* The client's pause, and ours while it reads too slowly. */
static void
apply_pause(Session *session)
{
    if (session->is_closing)
        return;
    ipb_session_set_paused(session->core, session->is_paused || session->owner->is_congested);
    ipb_commands_pause_all(ipb_session_commands(session->core), session->owner->is_congested);
}

static void
on_log(const char *level, const char *text, void *data)
{
    const Session *session = data;
    ipb_rpc_client_log(session->client, level, text, session->id);
}

/* What its cells may call from the start. */
static bool
allow_packages(Session *session, GError **error)
{
    const GPtrArray *registrations = session->owner->registrations;
    if (!ipb_session_allow_below(session->core, NULL, error))
        return false;
    for (guint i = 0; i < registrations->len; i++)
        ipb_session_allow(session->core, g_ptr_array_index(registrations, i));
    char **roots = session->options->package_roots;
    for (; roots != NULL && *roots != NULL; roots++)
        if (!ipb_session_allow_below(session->core, *roots, error))
            return false;
    return true;
}

/* A client that does not read gets neither questions nor calls of its tools: a cell could make and
 * give up any number of them. */
static void
hold_questions(Session *session, bool holds)
{
    ipb_rpc_client_requests_hold(session->questions, holds);
    ipb_rpc_client_requests_hold(session->tool_calls, holds);
}

/* For what it asks the client. */
static void
make_questions(Session *session)
{
    session->questions = ipb_rpc_questions_new(session->client, session->core);
    session->tool_calls = ipb_rpc_tool_calls_new(session->client, session->core);
    hold_questions(session, session->owner->is_congested);
}

static bool
open_core(Session *session, GError **error)
{
    IpbRpcSessionOptions *options = session->options;
    IpbSessionOptions *core = &options->session;
    session->asks_for_shell_only =
        core->approves_shell_cmds && core->approval == IPB_APPROVAL_ALLOW;
    core->on_approval = on_approval;
    core->on_approval_withdrawn = on_approval_withdrawn;
    core->on_tool_call = on_tool_call;
    core->on_tool_cancelled = on_tool_cancelled;
    core->on_event = on_session_event;
    core->on_log = on_log;
    core->data = session;
    session->core = ipb_session_new(session->runtime, core, error);
    if (session->core == NULL || !allow_packages(session, error))
        return false;
    make_questions(session);
    if (options->tool_server.is_wanted || options->gateway.is_wanted) {
        session->ports = ipb_rpc_session_ports_new(session->runtime, session->core, options, error);
        if (session->ports == NULL)
            return false;
    }
    apply_pause(session);
    apply_approval(session);
    return true;
}

/* A session without a core. Takes @options. */
static Session *
new_session(IpbRpcSessions *sessions, IpbRpcSessionOptions *options, GError **error)
{
    g_autoptr(IpbRpcSessionOptions) owned = options;
    if (g_hash_table_size(sessions->sessions) >= MAX_SESSIONS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%d sessions are open: close some",
                    MAX_SESSIONS);
        return NULL;
    }
    IpbRuntime *runtime = ipb_runtimes_get(sessions->runtimes, options->python,
                                           (const char *const *) options->preload, error);
    if (runtime == NULL)
        return NULL;
    Session *session = g_new0(Session, 1);
    session->owner = sessions;
    session->client = sessions->client;
    session->runtime = runtime;
    session->id = ipb_rpc_client_make_id(sessions->client, 's');
    session->starts = g_ptr_array_new();
    g_queue_init(&session->cells);
    session->options = g_steal_pointer(&owned);
    return session;
}

/* Takes @options. */
static Session *
open_session(IpbRpcSessions *sessions, IpbRpcSessionOptions *options, GError **error)
{
    Session *session = new_session(sessions, options, error);
    if (session != NULL && !open_core(session, error))
        g_clear_pointer(&session, free_session);
    return session;
}

static void
session_open(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSessions *sessions = group;
    g_autoptr(IpbRpcSessionOptions) options = ipb_rpc_session_options_new(request, params);
    g_autoptr(GError) error = NULL;
    if (!ipb_rpc_params_check(params, request))
        return;
    Session *session = open_session(sessions, g_steal_pointer(&options), &error);
    if (session == NULL) {
        ipb_rpc_reply_error(request, error);
        return;
    }
    g_hash_table_insert(sessions->sessions, session->id, session);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", session->id);
    ipb_json_member_string(writer, "workspace", ipb_session_workspace(session->core));
    if (session->ports != NULL)
        ipb_rpc_session_ports_describe(session->ports, writer);
    ipb_json_end_object(writer);
    ipb_rpc_reply(request, writer);
}

/* --- cells ----------------------------------------------------------------------------------- */

/* Frees it. */
static void
end_cell(Cell *cell)
{
    Session *session = cell->session;
    g_queue_remove(&session->cells, cell);
    free_cell(cell);
    if (!session->is_closing)
        apply_approval(session);
}

static void
finish_cell(Cell *cell, const IpbEvent *done)
{
    IpbRpcPending *pending = cell->pending;
    IpbJsonWriter *writer = ipb_rpc_cell_answer_write(cell->answer, done, pending->is_cancelled);
    end_cell(cell);
    ipb_rpc_pending_reply(pending, writer);
}

static void
on_cell_event(const IpbEvent *event, void *data)
{
    Cell *cell = data;
    ipb_rpc_cell_answer_add(cell->answer, event);
    if (cell->has_events || ipb_rpc_is_about_input(event->type))
        ipb_rpc_cell_answer_send(cell->answer, event, cell->session->client,
                                 ipb_rpc_request_id(cell->pending->request));
    if (event->type == IPB_EVENT_DONE)
        finish_cell(cell, event);
}

static void
cancel_cell(IpbRpcPending *pending)
{
    const Session *session = pending->owner;
    ipb_session_cancel(session->core, pending->number);
}

/* The session has taken it. */
static void
add_cell(Cell *cell, IpbRpcRequest *request, uint64_t number)
{
    Session *session = cell->session;
    cell->pending = ipb_rpc_pending_new(session->client, session, request);
    cell->pending->cancel = cancel_cell;
    cell->pending->number = number;
    g_queue_push_tail(&session->cells, cell);
    apply_approval(session);
}

static void
start_cell(Cell *cell, IpbRpcRequest *request, const char *code, const IpbCellOptions *options)
{
    Session *session = cell->session;
    g_autoptr(GError) error = NULL;
    uint64_t number =
        ipb_session_execute_with(session->core, code, options, on_cell_event, cell, &error);
    if (number == 0) {
        free_cell(cell);
        ipb_rpc_reply_error(request, error);
        return;
    }
    add_cell(cell, request, number);
}

static void
session_execute(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    const char *code = ipb_rpc_params_need_string(params, "code");
    int64_t timeout_ms = ipb_rpc_params_ms(params, "timeout", 0);
    int64_t max_chars = ipb_rpc_params_int(params, "max_text_chars", IPB_RPC_MAX_TEXT_CHARS, 0,
                                           IPB_RPC_MAX_TEXT_CHARS);
    bool has_events = ipb_rpc_params_bool(params, "events", false);
    bool strips = ipb_rpc_params_bool(params, "strip", true);
    bool allows_input = ipb_rpc_params_bool(params, "allow_stdin", false);
    int64_t input_timeout_ms = ipb_rpc_params_ms(params, "input_timeout", 0);
    bool undoes_on_error = ipb_rpc_params_bool(params, "undo_on_error", false);
    IpbApprovalPolicy approval = IPB_APPROVAL_DENY;
    bool has_approval = ipb_rpc_params_approval(params, &approval);
    if (!ipb_rpc_params_check(params, request))
        return;
    Cell *cell = g_new(Cell, 1);
    *cell = (Cell){
        .session = session,
        .answer = ipb_rpc_cell_answer_new((size_t) max_chars, strips),
        .has_approval = has_approval,
        .approval = approval,
        .has_events = has_events,
    };
    const IpbCellOptions options = {
        .timeout_ms = (unsigned) timeout_ms,
        .stores_history = true,
        .allows_input = allows_input,
        .input_timeout_ms = (unsigned) input_timeout_ms,
        .undoes_on_error = undoes_on_error,
    };
    start_cell(cell, request, code, &options);
}

static void
session_answer_input(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    int64_t input = ipb_rpc_params_int(params, "input", 0, 1, INT64_MAX);
    const char *value = ipb_rpc_params_string(params, "value");
    const char *why = ipb_rpc_params_string(params, "refusal");
    if (params->error == NULL && (value == NULL) == (why == NULL))
        g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "one of value and refusal must be a string");
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    if (ipb_session_answer_input(session->core, (uint64_t) input, value, why, &error))
        ipb_rpc_reply_empty(request);
    else
        ipb_rpc_reply_error(request, error);
}

static void
session_interrupt(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    ipb_session_interrupt(session->core);
    ipb_rpc_reply_empty(request);
}

static void
set_paused(IpbRpcSessions *sessions, IpbRpcRequest *request, IpbRpcParams *params, bool is_paused)
{
    Session *session = find_session(sessions, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    session->is_paused = is_paused;
    apply_pause(session);
    ipb_rpc_reply_empty(request);
}

static void
session_pause(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(group, request, params, true);
}

static void
session_resume(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(group, request, params, false);
}

static void
on_late_event(const IpbEvent *event, void *data)
{
    Session *session = data;
    ipb_rpc_send_late_event(session->client, session->id, event);
}

static void
session_watch_late_output(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    bool watches = ipb_rpc_params_bool(params, "watch", true);
    if (!ipb_rpc_params_check(params, request))
        return;
    ipb_session_watch_late_output(session->core, watches ? on_late_event : NULL, session);
    ipb_rpc_reply_empty(request);
}

static void
on_reset(void *data)
{
    ipb_rpc_pending_reply_empty(data);
}

static void
session_reset(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    ipb_session_reset(session->core, on_reset,
                      ipb_rpc_pending_new(session->client, session, request));
}

/* --- registrations and installations --------------------------------------------------------- */

static void
on_registered(const char *const *modules, const GError *error, void *data)
{
    if (error != NULL)
        ipb_rpc_pending_fail(data, error);
    else
        ipb_rpc_pending_reply_tools(data, modules);
}

static void
cancel_register(IpbRpcPending *pending)
{
    const Session *session = pending->owner;
    ipb_session_cancel_register(session->core, pending->number);
}

/* The client is the application, so a server that it registers runs where its parameters say, which
 * may be outside of the session's sandbox. */
static void
session_register(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    IpbRegisterOptions options = {
        .name = ipb_rpc_params_need_string(params, "server_name"),
        .params = ipb_rpc_params_need_object(params, "server_params"),
        .root_dir = ipb_rpc_params_string(params, "root_dir"),
        .async_api = ipb_rpc_params_bool(params, "async_api", false),
    };
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcPending *pending = ipb_rpc_pending_new(session->client, session, request);
    pending->cancel = cancel_register;
    pending->number = ipb_session_register(session->core, &options, on_registered, pending, &error);
    if (pending->number == 0)
        ipb_rpc_pending_fail(pending, error);
}

/* Data of its pending request is not NULL if the client wants the lines as they come. */
static void
on_install_line(const char *line, void *data)
{
    IpbRpcPending *pending = data;
    if (pending->data == NULL)
        return;
    g_autofree char *text = g_strconcat(line, "\n", NULL);
    IpbJsonWriter *writer =
        ipb_rpc_client_begin_event(ipb_rpc_request_id(pending->request), "text");
    ipb_json_member_string(writer, "stream", "stdout");
    ipb_json_member_string(writer, "text", text);
    ipb_rpc_client_send_event(pending->client, writer);
}

static void
on_installed(const char *output, const GError *error, void *data)
{
    if (error != NULL) {
        ipb_rpc_pending_fail(data, error);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "output", output);
    ipb_json_end_object(writer);
    ipb_rpc_pending_reply(data, writer);
}

static void
cancel_install(IpbRpcPending *pending)
{
    const Session *session = pending->owner;
    ipb_session_cancel_install(session->core);
}

static void
session_install(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    const char *package = ipb_rpc_params_need_string(params, "package");
    bool has_events = ipb_rpc_params_bool(params, "events", false);
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcPending *pending = ipb_rpc_pending_new(session->client, session, request);
    pending->cancel = cancel_install;
    pending->data = has_events ? pending : NULL;
    if (!ipb_session_install(session->core, package, on_install_line, on_installed, pending,
                             &error))
        ipb_rpc_pending_fail(pending, error);
}

/* --- commands --------------------------------------------------------------------------------- */

static void
session_run_command(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    const IpbRpcSessions *sessions = group;
    Session *session = find_session(group, params);
    ipb_rpc_command_run(sessions->client, session, session != NULL ? session->core : NULL, request,
                        params);
}

/* --- saved variables -------------------------------------------------------------------------- */

static void
on_state(const char *report, const GError *error, void *data)
{
    Cell *cell = data;
    IpbRpcPending *pending = cell->pending;
    end_cell(cell);
    if (error != NULL) {
        ipb_rpc_pending_fail(pending, error);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_write_raw(writer, report, strlen(report));
    ipb_rpc_pending_reply(pending, writer);
}

/* Code that a pickle names may call tools: it asks no one, and is refused. */
static void
start_state(IpbRpcSessions *sessions, IpbRpcRequest *request, IpbRpcParams *params,
            IpbStateAction action)
{
    Session *session = find_session(sessions, params);
    const char *path = ipb_rpc_params_need_string(params, "path");
    int64_t timeout_ms = ipb_rpc_params_ms(params, "timeout", 0);
    g_auto(GStrv) names = action == IPB_STATE_SAVE ? ipb_rpc_params_strings(params, "names") : NULL;
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    uint64_t number;
    Cell *cell = g_new0(Cell, 1);
    cell->session = session;
    cell->has_approval = true;
    cell->approval = IPB_APPROVAL_DENY;
    cell->state = ipb_saved_state_new(session->core, action, path, (const char *const *) names,
                                      (unsigned) timeout_ms, on_state, cell, &number, &error);
    if (cell->state == NULL) {
        free_cell(cell);
        ipb_rpc_reply_error(request, error);
        return;
    }
    add_cell(cell, request, number);
}

static void
session_save(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    start_state(group, request, params, IPB_STATE_SAVE);
}

static void
session_load(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    start_state(group, request, params, IPB_STATE_LOAD);
}

/* --- a staged workspace ----------------------------------------------------------------------- */

static void
on_changes(const IpbStagedResult *result, const GError *error, void *data)
{
    if (error != NULL) {
        ipb_rpc_pending_fail(data, error);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_staged_result_write(result, IPB_STAGED_MAX_SHOWN, writer);
    ipb_rpc_pending_reply(data, writer);
}

static void
work_on_changes(IpbRpcSessions *sessions, IpbRpcRequest *request, IpbRpcParams *params,
                IpbStagedAction action)
{
    Session *session = find_session(sessions, params);
    g_auto(GStrv) paths =
        action != IPB_STAGED_LIST ? ipb_rpc_params_strings(params, "paths") : NULL;
    if (action == IPB_STAGED_LIST && ipb_rpc_params_bool(params, "diffs", false))
        action = IPB_STAGED_LIST_DIFFS;
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcPending *pending = ipb_rpc_pending_new(session->client, session, request);
    if (!ipb_session_work_on_changes(session->core, action, (const char *const *) paths, on_changes,
                                     pending, &error))
        ipb_rpc_pending_fail(pending, error);
}

static void
session_changes(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    work_on_changes(group, request, params, IPB_STAGED_LIST);
}

static void
session_commit(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    work_on_changes(group, request, params, IPB_STAGED_FREEZE_AND_COMMIT);
}

static void
session_discard(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    work_on_changes(group, request, params, IPB_STAGED_DISCARD);
}

/* --- closing a session ----------------------------------------------------------------------- */

static void
report_if_closed(IpbRpcSessions *sessions)
{
    if (sessions->closed != NULL && g_hash_table_size(sessions->sessions) == 0)
        g_steal_pointer (&sessions->closed)(sessions->closed_data);
}

static void
on_core_closed(void *data)
{
    Session *session = data;
    IpbRpcSessions *sessions = session->owner;
    IpbRpcPending *close_request = g_steal_pointer(&session->close_request);
    if (close_request != NULL)
        close_request->owner = NULL; /* else it would fail with the session's other requests */
    g_hash_table_remove(sessions->sessions, session->id); /* frees it */
    if (close_request != NULL)
        ipb_rpc_pending_reply_empty(close_request);
    report_if_closed(sessions);
}

static void
on_ports_closed(void *data)
{
    Session *session = data;
    ipb_session_close(session->core, on_core_closed, session);
}

/* @request: is answered when it is closed; NULL: none. */
static void
close_session(Session *session, IpbRpcPending *request)
{
    if (session->is_closing)
        return;
    session->is_closing = true;
    session->close_request = request;
    ipb_session_set_paused(session->core, false);
    if (session->ports != NULL)
        ipb_rpc_session_ports_close(session->ports, on_ports_closed, session);
    else
        ipb_session_close(session->core, on_core_closed, session);
}

static void
session_close(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    if (ipb_rpc_params_check(params, request))
        close_session(session, ipb_rpc_pending_new(session->client, session, request));
}

/* --- forking a session ----------------------------------------------------------------------- */

/* A session.fork that waits. */
typedef struct Fork {
    Session *session; /* the new one */
    IpbRpcPending *pending;
} Fork;

static void
write_warnings(IpbJsonWriter *writer, const char *const *warnings)
{
    ipb_json_key(writer, "warnings");
    ipb_json_begin_array(writer);
    for (; *warnings != NULL; warnings++)
        ipb_json_write_string(writer, *warnings);
    ipb_json_end_array(writer);
}

static void
on_branched(const char *const *warnings, const GError *error, void *data)
{
    g_autofree Fork *fork = data;
    Session *session = fork->session;
    session->fork = NULL;
    if (error != NULL) {
        ipb_rpc_pending_fail(fork->pending, error);
        close_session(session, NULL);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", session->id);
    ipb_json_member_string(writer, "workspace", ipb_session_workspace(session->core));
    write_warnings(writer, warnings);
    ipb_json_end_object(writer);
    ipb_rpc_pending_reply(fork->pending, writer);
}

/* on_branched follows. */
static void
cancel_fork(IpbRpcPending *pending)
{
    close_session(pending->owner, NULL);
}

static bool
fork_core(Session *session, Session *forerunner, const IpbSessionForkOptions *seed, GError **error)
{
    IpbSessionForkOptions options = *seed;
    options.on_approval = on_approval;
    options.on_approval_withdrawn = on_approval_withdrawn;
    options.on_tool_call = on_tool_call;
    options.on_tool_cancelled = on_tool_cancelled;
    options.on_event = on_session_event;
    options.on_log = on_log;
    options.data = session;
    session->asks_for_shell_only = forerunner->asks_for_shell_only;
    session->fork = g_new0(Fork, 1);
    session->fork->session = session;
    session->core = ipb_session_fork(forerunner->core, &options, on_branched, session->fork, error);
    if (session->core == NULL)
        return false;
    make_questions(session);
    apply_pause(session);
    apply_approval(session);
    return true;
}

/* Whose files a branch works with; NULL: the default. */
static bool
check_files(const char *files, GError **error)
{
    if (files == NULL || g_str_equal(files, "shared"))
        return true;
    if (g_str_equal(files, "own"))
        g_set_error_literal(
            error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
            "files: branches cannot have files of their own: a process that code has written to "
            "would need the right to enter another mount namespace. Give each branch a directory "
            "of its own, or restore checkpoints of a staged session, one after the other");
    else
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "files: only \"shared\" is possible");
    return false;
}

/* The new session has no ports of its own. */
static void
session_fork(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSessions *sessions = group;
    Session *forerunner = find_session(group, params);
    IpbSessionForkOptions options = {
        .checkpoint = (uint64_t) ipb_rpc_params_int(params, "checkpoint", 0, 1, INT64_MAX),
        .seed = ipb_rpc_params_int(params, "seed", -1, 0, UINT32_MAX),
    };
    const char *files = ipb_rpc_params_string(params, "files");
    options.has_seed = options.seed >= 0;
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    Session *session = NULL;
    if (check_files(files, &error))
        session = new_session(sessions, ipb_rpc_session_options_ref(forerunner->options), &error);
    if (session == NULL || !fork_core(session, forerunner, &options, &error)) {
        g_clear_pointer(&session, free_session);
        ipb_rpc_reply_error(request, error);
        return;
    }
    g_hash_table_insert(sessions->sessions, session->id, session);
    IpbRpcPending *pending = ipb_rpc_pending_new(session->client, session, request);
    pending->cancel = cancel_fork;
    session->fork->pending = pending;
}

/* --- checkpoints ----------------------------------------------------------------------------- */

static void
write_checkpoint(IpbJsonWriter *writer, const IpbCheckpointInfo *info)
{
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "checkpoint", (int64_t) info->id);
    ipb_json_member_string(writer, "name", info->name);
    ipb_json_member_int(writer, "created_ms", info->created_us / 1000);
    ipb_json_member_int(writer, "private_bytes", (int64_t) info->private_bytes);
    ipb_json_member_string(writer, "lost", info->lost_cause);
    write_warnings(writer, info->warnings);
    ipb_json_end_object(writer);
}

static void
on_checkpoint_made(uint64_t id, const GError *error, void *data)
{
    IpbRpcPending *pending = data;
    const Session *session = pending->owner;
    IpbCheckpointInfo info;
    if (error != NULL) {
        ipb_rpc_pending_fail(pending, error);
        return;
    }
    ipb_checkpoints_get(ipb_session_checkpoints(session->core), id, &info);
    IpbJsonWriter *writer = ipb_json_writer_new();
    write_checkpoint(writer, &info);
    ipb_rpc_pending_reply(pending, writer);
}

static void
session_checkpoint(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    const char *name = ipb_rpc_params_string(params, "name");
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcPending *pending = ipb_rpc_pending_new(session->client, session, request);
    if (!ipb_session_checkpoint(session->core, name, on_checkpoint_made, pending, &error))
        ipb_rpc_pending_fail(pending, error);
}

static void
on_restored(const GError *error, void *data)
{
    if (error != NULL)
        ipb_rpc_pending_fail(data, error);
    else
        ipb_rpc_pending_reply_empty(data);
}

static void
session_restore(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    int64_t checkpoint = ipb_rpc_params_int(params, "checkpoint", 0, 1, INT64_MAX);
    bool with_files = ipb_rpc_params_bool(params, "files", true);
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcPending *pending = ipb_rpc_pending_new(session->client, session, request);
    if (!ipb_session_restore(session->core, (uint64_t) checkpoint, with_files, on_restored, pending,
                             &error))
        ipb_rpc_pending_fail(pending, error);
}

static void
session_undo(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    int64_t n = ipb_rpc_params_int(params, "n", 1, 1, IPB_MAX_UNDO);
    bool with_files = ipb_rpc_params_bool(params, "files", true);
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcPending *pending = ipb_rpc_pending_new(session->client, session, request);
    if (!ipb_session_undo(session->core, (unsigned) n, with_files, on_restored, pending, &error))
        ipb_rpc_pending_fail(pending, error);
}

static void
session_drop_checkpoint(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    int64_t checkpoint = ipb_rpc_params_int(params, "checkpoint", 0, 1, INT64_MAX);
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    if (ipb_checkpoints_drop(ipb_session_checkpoints(session->core), (uint64_t) checkpoint, &error))
        ipb_rpc_reply_empty(request);
    else
        ipb_rpc_reply_error(request, error);
}

static void
session_checkpoints(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Session *session = find_session(group, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    IpbCheckpoints *checkpoints = ipb_session_checkpoints(session->core);
    g_autoptr(GArray) list = ipb_checkpoints_list(checkpoints);
    IpbRpcPending *pending = ipb_rpc_pending_new(session->client, session, request);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "checkpoints");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < list->len; i++)
        write_checkpoint(writer, &g_array_index(list, IpbCheckpointInfo, i));
    ipb_json_end_array(writer);
    ipb_json_member_int(writer, "undo", ipb_checkpoints_n_undo(checkpoints));
    ipb_json_end_object(writer);
    ipb_rpc_pending_reply(pending, writer);
}

/* --- all sessions ---------------------------------------------------------------------------- */

const IpbRpcMethod IPB_RPC_SESSION_METHODS[] = {
    {"session.open", session_open},
    {"session.start", session_start},
    {"session.execute", session_execute, .cancel_mode = IPB_RPC_CANCEL_BEGINS},
    {"session.run_command", session_run_command},
    {"session.answer_input", session_answer_input, .takes_notifications = true},
    {"session.interrupt", session_interrupt},
    {"session.pause", session_pause, .takes_notifications = true},
    {"session.resume", session_resume, .takes_notifications = true},
    {"session.watch_late_output", session_watch_late_output, .takes_notifications = true},
    {"session.reset", session_reset, .cancel_mode = IPB_RPC_CANCEL_NEVER},
    {"session.fork", session_fork},
    {"session.checkpoint", session_checkpoint, .cancel_mode = IPB_RPC_CANCEL_NEVER},
    {"session.restore", session_restore, .cancel_mode = IPB_RPC_CANCEL_NEVER},
    {"session.undo", session_undo, .cancel_mode = IPB_RPC_CANCEL_NEVER},
    {"session.drop_checkpoint", session_drop_checkpoint},
    {"session.checkpoints", session_checkpoints},
    {"session.register", session_register},
    {"session.install", session_install},
    {"session.changes", session_changes},
    {"session.commit", session_commit},
    {"session.discard", session_discard},
    {"session.save", session_save, .cancel_mode = IPB_RPC_CANCEL_BEGINS},
    {"session.load", session_load, .cancel_mode = IPB_RPC_CANCEL_BEGINS},
    {"session.close", session_close, .cancel_mode = IPB_RPC_CANCEL_NEVER},
};
const size_t IPB_RPC_N_SESSION_METHODS = G_N_ELEMENTS(IPB_RPC_SESSION_METHODS);

IpbRpcSessions *
ipb_rpc_sessions_new(IpbRpcClient *client, IpbRuntimes *runtimes)
{
    IpbRpcSessions *sessions = g_new0(IpbRpcSessions, 1);
    sessions->client = client;
    sessions->runtimes = runtimes;
    sessions->sessions = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_session);
    sessions->registrations =
        g_ptr_array_new_with_free_func((GDestroyNotify) ipb_registration_free);
    return sessions;
}

/* Replaces an older registration with the same id. */
static void
keep_registration(IpbRpcSessions *sessions, const IpbRegistration *registration)
{
    GPtrArray *kept = sessions->registrations;
    for (guint i = 0; i < kept->len; i++) {
        const IpbRegistration *other = g_ptr_array_index(kept, i);
        if (!g_str_equal(other->id, registration->id))
            continue;
        g_ptr_array_remove_index(kept, i);
        break;
    }
    if (kept->len < MAX_REGISTRATIONS)
        g_ptr_array_add(kept, ipb_registration_copy(registration));
}

void
ipb_rpc_sessions_allow(IpbRpcSessions *sessions, const IpbRegistration *registration)
{
    keep_registration(sessions, registration);
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, sessions->sessions);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        ipb_session_allow(((Session *) value)->core, registration);
}

void
ipb_rpc_sessions_set_congested(IpbRpcSessions *sessions, bool is_congested)
{
    sessions->is_congested = is_congested;
    GHashTableIter iter;
    void *session;
    g_hash_table_iter_init(&iter, sessions->sessions);
    while (g_hash_table_iter_next(&iter, NULL, &session)) {
        apply_pause(session);
        hold_questions(session, sessions->is_congested);
    }
}

void
ipb_rpc_sessions_close(IpbRpcSessions *sessions, void (*done)(void *data), void *data)
{
    sessions->closed = done;
    sessions->closed_data = data;
    g_autoptr(GList) open = g_hash_table_get_values(sessions->sessions);
    for (GList *item = open; item != NULL; item = item->next)
        close_session(item->data, NULL);
    report_if_closed(sessions);
}

void
ipb_rpc_sessions_free(IpbRpcSessions *sessions)
{
    g_hash_table_unref(sessions->sessions);
    g_ptr_array_unref(sessions->registrations);
    g_free(sessions);
}
