/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions with names; see the header.
 *
 * Invariant: a session that is closing is not in `sessions`, so no call finds it, but in `endings`
 * until nothing of it is left.
 */
#include "serve/mcp/named-sessions.h"

#include "base/error.h"
#include "http/gate.h"
#include "session/staged-workspace.h"

#define ID_SIZE 32
/* Ids of sessions that have ended, which are remembered. */
#define MAX_REMEMBERED 100

typedef struct {
    char *id;
    char *why;
} Ended;

struct IpbNamedSessions {
    IpbNamedSessionsOptions options;
    /* IpbNamedSession, the oldest first */
    GPtrArray *sessions;
    GPtrArray *endings;
    /* Ended, the oldest first */
    GQueue ended;
    bool is_closing;
    IpbTimer *timer;
    void (*done)(void *data);
    void *done_data;
};

/* --- events of a session ---------------------------------------------------------------------- */

/* A cell may call a tool before its STARTED is reported. */
IpbServedCall *
ipb_named_session_running_call(const IpbNamedSession *session)
{
    uint64_t cell = ipb_session_running_cell(session->session);
    for (guint i = 0; i < session->calls->len; i++) {
        IpbServedCall *call = g_ptr_array_index(session->calls, i);
        if (cell != 0 && call->text != NULL && call->number == cell)
            return call;
    }
    return NULL;
}

static void
on_approval(const IpbApprovalRequest *approval, void *data)
{
    IpbNamedSession *session = data;
    bool is_of_changes =
        approval->subject == IPB_APPROVAL_OF_COMMIT || approval->subject == IPB_APPROVAL_OF_DISCARD;
    const IpbServedCall *call =
        is_of_changes ? session->changing : ipb_named_session_running_call(session);
    ipb_elicitation_ask(session->elicitation, call != NULL ? call->request : NULL, session->client,
                        approval);
}

static void
on_approval_withdrawn(uint64_t approval, void *data)
{
    IpbNamedSession *session = data;
    ipb_elicitation_withdraw(session->elicitation, approval);
}

static void
on_log(const char *level, const char *text, void *data)
{
    const IpbNamedSessionsOptions *options = &((IpbNamedSession *) data)->table->options;
    if (options->on_log != NULL)
        options->on_log(level, text, options->data);
}

static void
on_late_event(const IpbEvent *event, void *data)
{
    const IpbNamedSession *session = data;
    if (session->on_late != NULL && !session->is_closing)
        session->on_late(event, session->late_data);
}

/* --- the end of a session --------------------------------------------------------------------- */

static void
free_session(void *data)
{
    IpbNamedSession *session = data;
    session->is_closing = true;
    ipb_timer_free(session->timer);
    ipb_timer_free(session->lifetime_timer);
    ipb_elicitation_free(session->elicitation);
    ipb_session_free(session->session);
    g_queue_clear(&session->installs);
    g_clear_pointer(&session->results, ipb_cell_results_free);
    g_ptr_array_unref(session->calls); /* answers requests in flight */
    g_free(session->id);
    g_free(session->expiry);
    if (session->branching != NULL)
        session->free_branching(session->branching);
    g_free(session);
}

static void
on_all_closed_timer(void *data)
{
    IpbNamedSessions *sessions = data;
    g_clear_pointer(&sessions->timer, ipb_timer_free);
    sessions->done(sessions->done_data);
}

static void
report_if_closed(IpbNamedSessions *sessions)
{
    if (sessions->is_closing && sessions->timer == NULL && sessions->endings->len == 0)
        sessions->timer = ipb_timer_new(ipb_runtime_loop(sessions->options.runtime), 0,
                                        on_all_closed_timer, sessions);
}

/* @layer: of sessions that were freed; may be NULL. */
static void
report_layer(const IpbNamedSessions *sessions, const char *layer)
{
    g_autofree char *text = ipb_staged_workspace_left_text(layer, "a session");
    if (text != NULL && sessions->options.on_log != NULL)
        sessions->options.on_log("warning", text, sessions->options.data);
}

/* From the loop: a session must not be freed in its own callback. */
static void
on_closed_timer(void *data)
{
    IpbNamedSession *session = data;
    IpbNamedSessions *sessions = session->table;
    g_autofree char *layer = ipb_session_is_last_of_layer(session->session)
                                 ? g_strdup(ipb_session_layer(session->session))
                                 : NULL;
    sessions->options.on_closed(session, sessions->options.data);
    sessions->options.budget->n--;
    g_ptr_array_remove_fast(sessions->endings, session); /* frees it */
    report_layer(sessions, layer);
    report_if_closed(sessions);
}

static void
on_closed(void *data)
{
    IpbNamedSession *session = data;
    session->timer = ipb_timer_new(ipb_runtime_loop(session->table->options.runtime), 0,
                                   on_closed_timer, session);
}

static void
free_ended(Ended *ended)
{
    g_free(ended->id);
    g_free(ended->why);
    g_free(ended);
}

static void
remember(IpbNamedSessions *sessions, const IpbNamedSession *session, const char *why)
{
    if (!session->is_told)
        return;
    if (g_queue_get_length(&sessions->ended) >= MAX_REMEMBERED)
        free_ended(g_queue_pop_head(&sessions->ended));
    Ended *ended = g_new0(Ended, 1);
    *ended = (Ended){.id = g_strdup(session->id), .why = g_strdup(why)};
    g_queue_push_tail(&sessions->ended, ended);
}

void
ipb_named_session_close(IpbNamedSession *session, const char *why)
{
    IpbNamedSessions *sessions = session->table;
    if (session->is_closing)
        return;
    session->is_closing = true;
    remember(sessions, session, why);
    g_clear_pointer(&session->timer, ipb_timer_free);
    g_clear_pointer(&session->lifetime_timer, ipb_timer_free);
    guint index;
    if (g_ptr_array_find(sessions->sessions, session, &index)) {
        g_ptr_array_steal_index(sessions->sessions, index);
        g_ptr_array_add(sessions->endings, session);
    }
    ipb_session_close(session->session, on_closed, session);
}

/* --- idle sessions ---------------------------------------------------------------------------- */

static bool
is_free(const IpbNamedSession *session)
{
    return session->client == NULL && session->calls->len == 0;
}

static void set_idle_timer(IpbNamedSession *session, int64_t delay_us);

static void
on_idle_timer(void *data)
{
    IpbNamedSession *session = data;
    int64_t idle_us = session->table->options.idle_ms * INT64_C(1000);
    int64_t left_us = session->used_at + idle_us - g_get_monotonic_time();
    g_clear_pointer(&session->timer, ipb_timer_free);
    if (!is_free(session)) {
        set_idle_timer(session, idle_us);
    } else if (left_us > 0) {
        set_idle_timer(session, left_us);
    } else {
        g_autofree char *why = g_strdup_printf("ended, because nothing used it for %.9g s",
                                               session->table->options.idle_ms / 1000.0);
        ipb_named_session_close(session, why);
    }
}

static void
set_idle_timer(IpbNamedSession *session, int64_t delay_us)
{
    if (session->table->options.idle_ms > 0)
        session->timer = ipb_timer_new(ipb_runtime_loop(session->table->options.runtime),
                                       (unsigned) (delay_us / 1000) + 1, on_idle_timer, session);
}

void
ipb_named_session_touch(IpbNamedSession *session)
{
    session->used_at = g_get_monotonic_time();
}

/* --- old sessions ----------------------------------------------------------------------------- */

static void
close_expired(void *data)
{
    IpbNamedSession *session = data;
    ipb_named_session_close(session, session->expiry);
}

static void
on_lifetime_timer(void *data)
{
    IpbNamedSession *session = data;
    const IpbNamedSessionsOptions *options = &session->table->options;
    g_clear_pointer(&session->lifetime_timer, ipb_timer_free);
    session->expiry = g_strdup_printf("ended, because it reached the maximum lifetime of %.9g s",
                                      options->max_lifetime_ms / 1000.0);
    if (session->calls->len == 0)
        close_expired(session);
    else
        session->lifetime_timer =
            ipb_timer_new(ipb_runtime_loop(options->runtime), (unsigned) options->lifetime_grace_ms,
                          close_expired, session);
}

static void
set_lifetime_timer(IpbNamedSession *session)
{
    const IpbNamedSessionsOptions *options = &session->table->options;
    if (options->max_lifetime_ms == 0)
        return;
    int64_t age_ms = (g_get_monotonic_time() - session->born_at) / 1000;
    session->lifetime_timer = ipb_timer_new(ipb_runtime_loop(options->runtime),
                                            (unsigned) MAX(options->max_lifetime_ms - age_ms, 0),
                                            on_lifetime_timer, session);
}

static void
on_last_call_timer(void *data)
{
    IpbNamedSession *session = data;
    g_clear_pointer(&session->timer, ipb_timer_free);
    if (session->calls->len == 0)
        close_expired(session);
}

/* From the loop: the call is still in the array, and its session in a callback. */
static void
free_call(void *data)
{
    IpbServedCall *call = data;
    IpbNamedSession *session = call->named;
    ipb_served_call_free(call);
    if (session == NULL || session->expiry == NULL || session->is_closing)
        return;
    ipb_timer_free(session->timer);
    session->timer = ipb_timer_new(ipb_runtime_loop(session->table->options.runtime), 0,
                                   on_last_call_timer, session);
}

/* --- the table -------------------------------------------------------------------------------- */

/* The session that was not used for the longest time and that no connected client has. */
static IpbNamedSession *
find_idlest(const IpbNamedSessions *sessions)
{
    IpbNamedSession *idlest = NULL;
    for (guint i = 0; i < sessions->sessions->len; i++) {
        IpbNamedSession *session = g_ptr_array_index(sessions->sessions, i);
        if (is_free(session) && (idlest == NULL || session->used_at < idlest->used_at))
            idlest = session;
    }
    return idlest;
}

IpbNamedSessions *
ipb_named_sessions_new(const IpbNamedSessionsOptions *options)
{
    IpbNamedSessions *sessions = g_new0(IpbNamedSessions, 1);
    sessions->options = *options;
    sessions->sessions = g_ptr_array_new_with_free_func(free_session);
    sessions->endings = g_ptr_array_new_with_free_func(free_session);
    g_queue_init(&sessions->ended);
    return sessions;
}

void
ipb_named_sessions_free(IpbNamedSessions *sessions)
{
    if (sessions == NULL)
        return;
    sessions->options.budget->n -= sessions->sessions->len + sessions->endings->len;
    g_ptr_array_unref(sessions->sessions);
    g_ptr_array_unref(sessions->endings);
    g_queue_clear_full(&sessions->ended, (GDestroyNotify) free_ended);
    ipb_timer_free(sessions->timer);
    g_free(sessions);
}

static bool
set_limit(GError **error, const char *text)
{
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, text);
    return false;
}

/* Ends the idlest session if there are too many. Its place is free at once: it only has to end. */
static bool
make_room(IpbNamedSessions *sessions, GError **error)
{
    const IpbNamedSessionsOptions *options = &sessions->options;
    if (sessions->is_closing)
        return set_limit(error, "the server is ending");
    if (sessions->endings->len > options->max)
        return set_limit(error, "too many sessions are just ending: try again in a second");
    bool is_full = sessions->sessions->len >= options->max;
    if (!is_full && options->budget->n < options->budget->max)
        return true;
    IpbNamedSession *idlest = find_idlest(sessions);
    if (idlest == NULL && is_full)
        return set_limit(error, "this client has too many sessions: close one");
    if (idlest == NULL)
        return set_limit(error, "all clients together have too many sessions");
    ipb_named_session_close(idlest, "ended to make room for another one, because it was not used "
                                    "for the longest time");
    return true;
}

/* A session without its core. */
static IpbNamedSession *
make_session(IpbNamedSessions *sessions, GError **error)
{
    if (!make_room(sessions, error))
        return NULL;
    g_autofree char *id = ipb_http_gate_make_token(error);
    if (id == NULL)
        return NULL;
    IpbNamedSession *session = g_new0(IpbNamedSession, 1);
    session->table = sessions;
    session->id = g_strndup(id, ID_SIZE);
    session->calls = g_ptr_array_new_with_free_func(free_call);
    g_queue_init(&session->installs);
    ipb_named_session_touch(session);
    session->born_at = session->used_at;
    return session;
}

/* Takes a session that has its core, or could not get one. */
static IpbNamedSession *
add_session(IpbNamedSessions *sessions, IpbNamedSession *session, GError **error)
{
    if (session->session != NULL)
        session->elicitation = ipb_elicitation_new(session->session);
    if (session->session == NULL ||
        !sessions->options.on_new(session, sessions->options.data, error)) {
        free_session(session);
        return NULL;
    }
    session->results = sessions->options.keeps_results ? ipb_cell_results_new() : NULL;
    ipb_session_watch_late_output(session->session, on_late_event, session);
    sessions->options.budget->n++;
    g_ptr_array_add(sessions->sessions, session);
    set_idle_timer(session, sessions->options.idle_ms * INT64_C(1000));
    set_lifetime_timer(session);
    return session;
}

IpbNamedSession *
ipb_named_sessions_add(IpbNamedSessions *sessions, GError **error)
{
    IpbNamedSession *session = make_session(sessions, error);
    if (session == NULL)
        return NULL;
    IpbSessionOptions options = sessions->options.session;
    options.on_approval = on_approval;
    options.on_approval_withdrawn = on_approval_withdrawn;
    options.on_log = on_log;
    options.data = session;
    session->session =
        ipb_session_pool_take(sessions->options.pool, sessions->options.pool_owner, &options);
    if (session->session == NULL)
        session->session = ipb_session_new(sessions->options.runtime, &options, error);
    return add_session(sessions, session, error);
}

IpbNamedSession *
ipb_named_sessions_branch(IpbNamedSessions *sessions, const IpbNamedSession *forerunner,
                          uint64_t checkpoint, IpbBranchedFunc func, void *data, GError **error)
{
    IpbNamedSession *session = make_session(sessions, error);
    if (session == NULL)
        return NULL;
    const IpbSessionForkOptions options = {
        .checkpoint = checkpoint,
        .on_approval = on_approval,
        .on_approval_withdrawn = on_approval_withdrawn,
        .on_log = on_log,
        .data = session,
    };
    session->session = ipb_session_fork(forerunner->session, &options, func, data, error);
    session->n_cells = forerunner->n_cells;
    session->born_at = forerunner->born_at;
    return add_session(sessions, session, error);
}

IpbNamedSession *
ipb_named_sessions_find(IpbNamedSessions *sessions, const char *id, GError **error)
{
    for (guint i = 0; i < sessions->sessions->len; i++) {
        IpbNamedSession *session = g_ptr_array_index(sessions->sessions, i);
        if (g_str_equal(session->id, id))
            return session;
    }
    for (const GList *link = sessions->ended.head; link != NULL; link = link->next) {
        const Ended *ended = link->data;
        if (!g_str_equal(ended->id, id))
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "the session %s; its variables are gone. Use session_id \"new\" to start "
                    "another one",
                    ended->why);
        return NULL;
    }
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                        "there is no session with this session_id. The tool list_sessions lists "
                        "the sessions, and session_id \"new\" starts one");
    return NULL;
}

const GPtrArray *
ipb_named_sessions_list(const IpbNamedSessions *sessions)
{
    return sessions->sessions;
}

void
ipb_named_sessions_close(IpbNamedSessions *sessions, void (*done)(void *data), void *data)
{
    sessions->is_closing = true;
    sessions->done = done;
    sessions->done_data = data;
    while (sessions->sessions->len > 0)
        ipb_named_session_close(g_ptr_array_index(sessions->sessions, 0), "ended with the server");
    report_if_closed(sessions);
}

/* --- clients ---------------------------------------------------------------------------------- */

void
ipb_named_session_attach(IpbNamedSession *session, IpbMcpServer *client, IpbEventFunc on_late,
                         void *data)
{
    session->client = client;
    session->on_late = on_late;
    session->late_data = data;
}

void
ipb_named_session_detach(IpbNamedSession *session)
{
    session->client = NULL;
    session->on_late = NULL;
    ipb_named_session_touch(session);
    if (!session->is_told && session->calls->len == 0)
        ipb_named_session_close(session, "was closed");
}
