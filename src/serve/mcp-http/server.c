/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes, checks of requests, sessions and their end; see the header.
 *
 * Invariants: a session that is ending is not in `sessions`, so no request finds it, but in
 * `endings` until nothing of it is left. A principal that was removed is not in `principals`, but
 * in `leavers` until its sessions and its service have ended.
 */
#include "serve/mcp-http/server.h"

#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "mcp/messages.h"
#include "serve/mcp-http/channel.h"
#include "serve/mcp-http/files.h"
#include "serve/mcp-http/refusal.h"
#include "serve/mcp-http/sse.h"
#include "serve/mcp-http/stateless.h"

/* A cell may have data in it; results are not limited by this. */
#define MAX_BODY (16ul * 1024 * 1024)
#define MAX_HELD_BODIES (128ul * 1024 * 1024)
#define MAX_HELD_ANSWERS (256ul * 1024 * 1024)
/* Events of all sessions that are kept or wait. */
#define MAX_HELD_EVENTS (512ul * 1024 * 1024)
#define MAX_VALUES 1000000
#define MAX_DEPTH 128
/* Bytes of the header Mcp-Session-Id. */
#define MAX_SESSION_ID 128
#define DRAIN_TIMEOUT_MS 8000

#define SESSION_HEADER "Mcp-Session-Id"
#define SSE_PATH "/sse"
#define REVISION_HEADER IPB_MCP_REVISION_HEADER

typedef struct {
    IpbMcpHttpServer *server;
    char *name;
    /* No other principal had it before: its sessions in the pool */
    size_t number;
    /* Of its sessions, for the pool */
    IpbSessionOptions session_options;
    IpbMcpService *service;
    unsigned n_sessions;
    /* Its service is closed, or being closed */
    bool is_closed, is_closing;
    /* Of one that was removed: frees it from the loop, not within a function of its service */
    IpbTimer *timer;
} Principal;

typedef struct {
    Principal *principal;
    char *id;
    IpbMcpHttpChannel *channel;
    IpbMcpConnection *connection;
    /* µs of monotonic time, when the client last sent something or got an answer */
    int64_t used_at;
    IpbTimer *idle_timer;
} Session;

struct IpbMcpHttpServer {
    IpbMcpHttpServerOptions options;
    IpbLoop *loop;
    IpbHttpServer *http;
    IpbMcpHttpBudget budget;
    IpbSessionPool *pool; /* or NULL */
    bool is_pool_closed;
    IpbSessionBudget session_budget;
    /* Principal, owned, in the order of options.principals; and those that were removed */
    GPtrArray *principals, *leavers;
    /* All that there have been */
    size_t n_principals;
    /* Of the first principal, for the first kernel */
    IpbSessionOptions probe_options;
    IpbMcpStateless *stateless;
    IpbMcpSse *sse;
    IpbMcpFiles *files;
    /* Id → Session, owned */
    GHashTable *sessions;
    /* Session, owned: those that are ending */
    GPtrArray *endings;
    /* Until the first kernel is ready */
    IpbSession *probe;
    bool is_ready;
    bool is_closing;
    bool has_closed_services;
    IpbTimer *probe_timer;
    GError *probe_error;
    IpbTimer *drain_timer;
    IpbTimer *closed_timer;
    void (*closed)(void *data);
    void *closed_data;
};

static void log_line(const IpbMcpHttpServer *server, const char *level, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static void
log_line(const IpbMcpHttpServer *server, const char *level, const char *format, ...)
{
    if (server->options.on_log == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    server->options.on_log(level, text, server->options.data);
}

/* --- the end of sessions ---------------------------------------------------------------------- */

static void advance_close(IpbMcpHttpServer *server);
static void close_leavers(IpbMcpHttpServer *server);

static void
free_session(void *data)
{
    Session *session = data;
    ipb_timer_free(session->idle_timer);
    g_free(session->id);
    g_free(session);
}

static void
on_connection_closed(void *data)
{
    Session *session = data;
    Principal *principal = session->principal;
    IpbMcpHttpServer *server = principal->server;
    principal->n_sessions--;
    g_ptr_array_remove_fast(server->endings, session); /* frees it */
    close_leavers(server);
    advance_close(server);
}

/* Its requests get 404 from now on. */
static void
end_session(Session *session)
{
    IpbMcpHttpServer *server = session->principal->server;
    g_hash_table_steal(server->sessions, session->id);
    g_ptr_array_add(server->endings, session);
    g_clear_pointer(&session->idle_timer, ipb_timer_free);
    ipb_mcp_service_disconnect(session->principal->service, session->connection,
                               on_connection_closed, session);
}

/* The channel failed. */
static void
on_session_end(const GError *why, void *data)
{
    Session *session = data;
    const IpbMcpHttpServer *server = session->principal->server;
    if (why != NULL)
        log_line(server, "warning", "a session of %s ends: %s", session->principal->name,
                 why->message);
    if (g_hash_table_lookup(server->sessions, session->id) == session)
        end_session(session);
}

static void set_idle_timer(Session *session, int64_t delay_us);

static void
on_idle_timer(void *data)
{
    Session *session = data;
    const IpbMcpHttpServer *server = session->principal->server;
    g_clear_pointer(&session->idle_timer, ipb_timer_free);
    int64_t idle_us = server->options.idle_ms * INT64_C(1000);
    int64_t left_us = session->used_at + idle_us - g_get_monotonic_time();
    if (ipb_mcp_http_channel_is_busy(session->channel))
        set_idle_timer(session, idle_us);
    else if (left_us > 0)
        set_idle_timer(session, left_us);
    else
        end_session(session);
}

static void
set_idle_timer(Session *session, int64_t delay_us)
{
    session->idle_timer = ipb_timer_new(session->principal->server->loop,
                                        (unsigned) (delay_us / 1000) + 1, on_idle_timer, session);
}

static void
on_answered(void *data)
{
    Session *session = data;
    session->used_at = g_get_monotonic_time();
    /* initialize failed: the client does not know the session. */
    if (ipb_mcp_connection_revision(session->connection) == NULL &&
        !ipb_mcp_http_channel_is_busy(session->channel))
        on_session_end(NULL, session);
    advance_close(session->principal->server);
}

/* --- checks ----------------------------------------------------------------------------------- */

static bool
refuse(IpbHttpRequest *request, unsigned status, int code, const char *message)
{
    const char *headers = status == 503   ? IPB_HTTP_RETRY_AFTER
                          : status == 405 ? "Allow: POST, DELETE\r\n"
                                          : NULL;
    ipb_mcp_refuse(
        request,
        &(IpbMcpRefusal){.status = status, .code = code, .message = message, .headers = headers});
    return false;
}

/* Does the list of media types in the header Accept have @type, or a range with it? */
static bool
accepts(const IpbHttpHead *head, const char *type, const char *range)
{
    IpbSpan value;
    if (!ipb_http_head_get(head, "Accept", &value))
        return false;
    g_autofree char *text = g_strndup(value.start, value.size);
    g_auto(GStrv) items = g_strsplit(text, ",", -1);
    for (char **item = items; *item != NULL; item++) {
        (*item)[strcspn(*item, ";")] = '\0';
        g_strstrip(*item);
        if (g_ascii_strcasecmp(*item, type) == 0 || g_ascii_strcasecmp(*item, range) == 0 ||
            g_str_equal(*item, "*/*"))
            return true;
    }
    return false;
}

static bool
check_accept(IpbHttpRequest *request, bool is_post)
{
    const IpbHttpHead *head = ipb_http_request_head(request);
    if (accepts(head, "text/event-stream", "text/*") &&
        (!is_post || accepts(head, "application/json", "application/*")))
        return true;
    return refuse(request, 406, IPB_RPC_INVALID_REQUEST,
                  is_post ? "the header Accept must have application/json and text/event-stream"
                          : "the header Accept must have text/event-stream");
}

static bool
is_known_revision(IpbSpan revision)
{
    static const char *const REVISIONS[] = {"2025-11-25", "2025-06-18", "2025-03-26"};
    for (size_t i = 0; i < G_N_ELEMENTS(REVISIONS); i++)
        if (ipb_span_equal(revision, REVISIONS[i]))
            return true;
    return false;
}

/* Of a GET or DELETE, which 2026-07-28 does not have. */
static bool
check_revision(IpbHttpRequest *request)
{
    IpbSpan revision;
    if (!ipb_http_head_get(ipb_http_request_head(request), REVISION_HEADER, &revision) ||
        is_known_revision(revision))
        return true;
    if (ipb_span_equal(revision, IPB_MCP_MODERN_REVISION))
        return refuse(request, 405, IPB_RPC_INVALID_REQUEST,
                      "revision " IPB_MCP_MODERN_REVISION " has only POST");
    return refuse(request, 400, IPB_RPC_INVALID_REQUEST,
                  "the header " REVISION_HEADER " must be 2025-03-26, 2025-06-18 or 2025-11-25");
}

static bool
check_state(const IpbMcpHttpServer *server, IpbHttpRequest *request)
{
    if (server->is_closing)
        return refuse(request, 503, IPB_RPC_INTERNAL_ERROR, "the server is ending");
    if (!server->is_ready)
        return refuse(request, 503, IPB_RPC_INTERNAL_ERROR,
                      "the server is starting: try again in a second");
    return true;
}

/* The gate has admitted the request, so there is one. */
static Principal *
find_principal(const IpbMcpHttpServer *server, const IpbHttpRequest *request)
{
    IpbSpan token;
    size_t index;
    if (!ipb_http_gate_get_token(ipb_http_request_head(request), &token) ||
        !ipb_principals_find(server->options.principals, token, &index))
        return NULL;
    return g_ptr_array_index(server->principals, index);
}

/* NULL: the request was refused. A session of another principal is none. */
static Session *
find_session(const IpbMcpHttpServer *server, IpbHttpRequest *request)
{
    IpbSpan id;
    char copy[MAX_SESSION_ID + 1];
    if (!ipb_http_head_get(ipb_http_request_head(request), SESSION_HEADER, &id)) {
        refuse(request, 400, IPB_RPC_INVALID_REQUEST,
               "the header " SESSION_HEADER " is missing: begin with initialize");
        return NULL;
    }
    size_t size = MIN(id.size, MAX_SESSION_ID);
    memcpy(copy, id.start, size);
    copy[size] = '\0';
    Session *session =
        id.size <= MAX_SESSION_ID ? g_hash_table_lookup(server->sessions, copy) : NULL;
    if (session == NULL || session->principal != find_principal(server, request)) {
        ipb_mcp_refuse(request, &IPB_MCP_REFUSAL_SESSION_ENDED);
        return NULL;
    }
    session->used_at = g_get_monotonic_time();
    return session;
}

/* --- new sessions ----------------------------------------------------------------------------- */

static bool
check_limits(const IpbMcpHttpServer *server, const Principal *principal, IpbHttpRequest *request)
{
    const IpbMcpHttpServerOptions *options = &server->options;
    size_t n =
        g_hash_table_size(server->sessions) + server->endings->len + ipb_mcp_sse_count(server->sse);
    bool is_full = n >= options->max_sessions;
    if (!is_full && principal->n_sessions < options->max_sessions_each)
        return true;
    g_autofree char *message =
        is_full ? g_strdup_printf("too many sessions: the server has %u (--max-sessions)",
                                  options->max_sessions)
                : g_strdup_printf("too many sessions of %s: end one with DELETE; the maximum is %u "
                                  "(--max-sessions-each)",
                                  principal->name, options->max_sessions_each);
    return refuse(request, 503, IPB_RPC_INTERNAL_ERROR, message);
}

/* NULL with @error. */
static Session *
begin_session(IpbMcpHttpServer *server, Principal *principal, GError **error)
{
    g_autofree char *id = ipb_http_gate_make_token(error);
    if (id == NULL)
        return NULL;
    Session *session = g_new0(Session, 1);
    g_autofree char *header = g_strdup_printf(SESSION_HEADER ": %s\r\n", id);
    *session = (Session){
        .principal = principal,
        .id = g_steal_pointer(&id),
        .used_at = g_get_monotonic_time(),
    };
    session->channel = ipb_mcp_http_channel_new(&(IpbMcpHttpChannelOptions){
        .loop = server->loop,
        .budget = &server->budget,
        .session_header = header,
        .on_answered = on_answered,
        .data = session,
    });
    session->connection =
        ipb_mcp_service_connect(principal->service, ipb_mcp_http_channel_get(session->channel),
                                /* is_stateless= */ false, on_session_end, session, error);
    if (session->connection == NULL) {
        free_session(session);
        return NULL;
    }
    principal->n_sessions++;
    g_hash_table_insert(server->sessions, session->id, session);
    set_idle_timer(session, server->options.idle_ms * INT64_C(1000));
    return session;
}

static void
refuse_session(const IpbMcpHttpServer *server, const Principal *principal, IpbHttpRequest *request,
               const GError *error)
{
    log_line(server, "error", "a session of %s cannot begin: %s", principal->name, error->message);
    refuse(request, 503, IPB_RPC_INTERNAL_ERROR,
           "the session cannot begin; the server's log says why");
}

static void
initialize(IpbMcpHttpServer *server, IpbHttpRequest *request, IpbSpan text, const IpbJson *message)
{
    Principal *principal = find_principal(server, request);
    g_autoptr(GError) error = NULL;
    if (!check_limits(server, principal, request))
        return;
    Session *session = begin_session(server, principal, &error);
    if (session != NULL) {
        ipb_mcp_http_channel_post(session->channel, request, text, message, /* revision= */ NULL);
        return;
    }
    refuse_session(server, principal, request, error);
}

/* Is it a request of 2026-07-28, or of a revision that is not known? It says so in a header, or in
 * the message. */
static bool
is_stateless(const IpbHttpRequest *request, const IpbJson *message)
{
    IpbSpan revision;
    return (ipb_http_head_get(ipb_http_request_head(request), REVISION_HEADER, &revision) &&
            !is_known_revision(revision)) ||
           (g_strcmp0(ipb_json_get_string(message, "method"), "initialize") != 0 &&
            ipb_mcp_envelope_is_there(ipb_json_get(message, "params")));
}

/* --- the pool --------------------------------------------------------------------------------- */

/* The principal of this number; NULL: it was removed. */
static Principal *
find_pool_owner(const IpbMcpHttpServer *server, size_t owner)
{
    for (guint i = 0; i < server->principals->len; i++) {
        Principal *principal = g_ptr_array_index(server->principals, i);
        if (principal->number == owner)
            return principal;
    }
    return NULL;
}

/* Only of owners for which sessions may be added. */
static const IpbSessionOptions *
get_pool_options(size_t owner, void *data)
{
    return &find_pool_owner(data, owner)->session_options;
}

/* Sessions of the pool count as sessions, but a client's comes before them. */
static bool
may_add_to_pool(size_t owner, unsigned n_of_owner, unsigned n_all, void *data)
{
    const IpbMcpHttpServer *server = data;
    const Principal *principal = find_pool_owner(server, owner);
    if (principal == NULL)
        return false;
    unsigned n_used = ipb_mcp_service_count_sessions(principal->service);
    return server->session_budget.n + n_all < server->options.max_sessions &&
           n_used + n_of_owner < server->options.max_sessions_each;
}

static void
on_pool_log(const char *level, const char *text, void *data)
{
    log_line(data, level, "%s", text);
}

static IpbSessionPool *
make_pool(IpbMcpHttpServer *server)
{
    if (server->options.pool_size == 0)
        return NULL;
    return ipb_session_pool_new(&(IpbSessionPoolOptions){
        .runtime = server->options.runtime,
        .size = server->options.pool_size,
        .n_owners = ipb_principals_count(server->options.principals),
        .get_options = get_pool_options,
        .may_add = may_add_to_pool,
        .on_log = on_pool_log,
        .data = server,
    });
}

/* --- routes ----------------------------------------------------------------------------------- */

static void
handle_post(IpbHttpRequest *request, void *data)
{
    static const IpbJsonLimits LIMITS = {MAX_BODY, MAX_DEPTH, MAX_VALUES};
    IpbMcpHttpServer *server = data;
    IpbSpan text = ipb_http_request_body(request), header;
    g_autoptr(GError) error = NULL;
    if (!check_state(server, request) || !check_accept(request, true))
        return;
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text.start, text.size, &LIMITS, &error);
    if (doc == NULL) {
        refuse(request, 400, IPB_RPC_PARSE_ERROR, error->message);
        return;
    }
    const IpbJson *message = ipb_json_root(doc);
    if (is_stateless(request, message)) {
        ipb_mcp_stateless_post(server->stateless, find_principal(server, request)->service, request,
                               text, message);
        return;
    }
    bool is_initialize = g_strcmp0(ipb_json_get_string(message, "method"), "initialize") == 0;
    bool has_session = ipb_http_head_get(ipb_http_request_head(request), SESSION_HEADER, &header);
    if (is_initialize && !has_session) {
        initialize(server, request, text, message);
        return;
    }
    Session *session = find_session(server, request);
    if (session == NULL)
        return;
    if (is_initialize)
        refuse(request, 400, IPB_RPC_INVALID_REQUEST,
               "the session is initialized: send initialize without " SESSION_HEADER
               " to begin another one");
    else
        ipb_mcp_http_channel_post(session->channel, request, text, message,
                                  ipb_mcp_connection_revision(session->connection));
}

/* All that is sent belongs to a request and is sent on its stream. So there is no other stream to
 * wait for, and a GET only resumes one. */
static void
handle_get(IpbHttpRequest *request, void *data)
{
    IpbMcpHttpServer *server = data;
    IpbSpan last_id;
    if (!ipb_http_head_get(ipb_http_request_head(request), "Last-Event-ID", &last_id)) {
        refuse(request, 405, IPB_RPC_INVALID_REQUEST,
               "GET only resumes a stream, with the header Last-Event-ID");
        return;
    }
    if (!check_state(server, request) || !check_accept(request, false) || !check_revision(request))
        return;
    Session *session = find_session(server, request);
    if (session != NULL)
        ipb_mcp_http_channel_resume(session->channel, request, last_id);
}

static void
handle_delete(IpbHttpRequest *request, void *data)
{
    IpbMcpHttpServer *server = data;
    if (!check_revision(request))
        return;
    Session *session = find_session(server, request);
    if (session == NULL)
        return;
    end_session(session);
    ipb_http_request_answer_text(request, 204, NULL);
}

/* A session of an old client. */
static void
handle_sse(IpbHttpRequest *request, void *data)
{
    IpbMcpHttpServer *server = data;
    g_autoptr(GError) error = NULL;
    if (!check_state(server, request) || !check_accept(request, false))
        return;
    Principal *principal = find_principal(server, request);
    if (!check_limits(server, principal, request))
        return;
    if (ipb_mcp_sse_open(server->sse, principal->service, principal, SSE_PATH, request, &error))
        principal->n_sessions++;
    else
        refuse_session(server, principal, request, error);
}

static void
handle_sse_post(IpbHttpRequest *request, void *data)
{
    IpbMcpHttpServer *server = data;
    if (check_state(server, request))
        ipb_mcp_sse_post(server->sse, find_principal(server, request),
                         ipb_http_request_parameter(request, 0), request);
}

static void
handle_health(IpbHttpRequest *request, void *data)
{
    ipb_http_request_answer_text(request, 200, g_strdup("{\"status\":\"ok\"}"));
}

static void
handle_ready(IpbHttpRequest *request, void *data)
{
    const IpbMcpHttpServer *server = data;
    bool is_ready = server->is_ready && !server->is_closing;
    ipb_http_request_answer_text(request, is_ready ? 200 : 503,
                                 g_strdup_printf("{\"status\":\"%s\"}", is_ready ? "ready"
                                                                        : server->is_closing
                                                                            ? "ending"
                                                                            : "starting"));
}

static void
handle_files(IpbHttpRequest *request, void *data)
{
    IpbMcpHttpServer *server = data;
    if (!server->is_ready || server->is_closing) {
        ipb_http_request_refuse_error(request, 503,
                                      server->is_closing
                                          ? "the server is ending"
                                          : "the server is starting: try again in a second",
                                      IPB_HTTP_RETRY_AFTER);
        return;
    }
    const Principal *principal = find_principal(server, request);
    ipb_mcp_files_handle(server->files, principal->service, &principal->session_options, request);
}

#define FILES IPB_MCP_FILES_PATH "*"
#define ROLE_ANYBODY (IPB_HTTP_ROLE_APPLICATION | IPB_HTTP_ROLE_STRANGER)

static const IpbHttpRoute ROUTES[] = {
    {"POST", "/mcp", IPB_HTTP_BODY_JSON, IPB_HTTP_ROLE_APPLICATION, handle_post},
    {"GET", "/mcp", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, handle_get},
    {"DELETE", "/mcp", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, handle_delete},
    {"GET", SSE_PATH, IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, handle_sse},
    {"POST", SSE_PATH "/@", IPB_HTTP_BODY_JSON, IPB_HTTP_ROLE_APPLICATION, handle_sse_post},
    {"GET", FILES, IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, handle_files},
    {"HEAD", FILES, IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, handle_files},
    {"PUT", FILES, IPB_HTTP_BODY_STREAM, IPB_HTTP_ROLE_APPLICATION, handle_files},
    {"DELETE", FILES, IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, handle_files},
    {"GET", "/healthz", IPB_HTTP_BODY_NONE, ROLE_ANYBODY, handle_health},
    {"GET", "/readyz", IPB_HTTP_BODY_NONE, ROLE_ANYBODY, handle_ready},
};

/* --- the first kernel ------------------------------------------------------------------------- */

/* From the loop: the session must not be freed in its own callback. */
static void
on_probe_timer(void *data)
{
    IpbMcpHttpServer *server = data;
    g_clear_pointer(&server->probe_timer, ipb_timer_free);
    g_clear_pointer(&server->probe, ipb_session_free);
    server->is_ready = server->probe_error == NULL;
    if (server->is_ready)
        ipb_session_pool_start(server->pool);
    if (!server->is_closing)
        server->options.on_ready(server->probe_error, server->options.data);
}

static void
on_probe_closed(void *data)
{
    IpbMcpHttpServer *server = data;
    server->probe_timer = ipb_timer_new(server->loop, 0, on_probe_timer, server);
}

static void
on_probe_event(const IpbEvent *event, void *data)
{
    IpbMcpHttpServer *server = data;
    if (event->type == IPB_EVENT_START_FAILED && server->probe_error == NULL)
        server->probe_error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                                          "no kernel can be started: %s", event->text);
    if (event->type == IPB_EVENT_START_FAILED || event->type == IPB_EVENT_READY)
        ipb_session_close(server->probe, on_probe_closed, server);
}

/* Of the first principal's workspace and sandbox. */
static bool
start_probe(IpbMcpHttpServer *server, GError **error)
{
    IpbSessionOptions options = server->probe_options;
    options.on_event = on_probe_event;
    options.data = server;
    server->probe = ipb_session_new(server->options.runtime, &options, error);
    if (server->probe == NULL)
        return false;
    ipb_session_start(server->probe, /* rehearses= */ false);
    return true;
}

/* --- life ------------------------------------------------------------------------------------- */

static unsigned
find_role(IpbSpan token, void *data)
{
    const IpbMcpHttpServer *server = data;
    size_t index;
    return ipb_principals_find(server->options.principals, token, &index)
               ? IPB_HTTP_ROLE_APPLICATION
               : 0;
}

static IpbHttpGate *
make_gate(IpbMcpHttpServer *server)
{
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_set_tokens(gate, find_role, server);
    ipb_http_gate_admit_strangers(gate);
    ipb_http_gate_set_hint(
        gate, "the token is missing or wrong: send \"Authorization: Bearer TOKEN\" with the token "
              "that ipybox serve printed, or with that of the token file");
    for (char **host = server->options.hosts; host != NULL && *host != NULL; host++)
        ipb_http_gate_allow_host(gate, *host);
    for (char **origin = server->options.origins; origin != NULL && *origin != NULL; origin++)
        ipb_http_gate_allow_origin(gate, *origin);
    return gate;
}

static IpbHttpServer *
make_http(IpbMcpHttpServer *server)
{
    IpbHttpServerOptions options = IPB_HTTP_SERVER_OPTIONS;
    options.routes = ROUTES;
    options.n_routes = G_N_ELEMENTS(ROUTES);
    options.data = server;
    options.max_connections = server->options.max_connections;
    options.max_body = MAX_BODY;
    options.max_held_bodies = MAX_HELD_BODIES;
    options.max_held_answers = MAX_HELD_ANSWERS;
    options.paces_large_requests = true;
    if (server->options.origins != NULL)
        options.cors = (IpbHttpCors){
            .headers = "Authorization, Content-Type, Accept, Last-Event-ID, " SESSION_HEADER
                       ", " REVISION_HEADER ", Mcp-Method, Mcp-Name, If-Match, If-None-Match, "
                       "If-Modified-Since, If-Range, Range",
            .exposed = SESSION_HEADER ", ETag, Content-Range, Content-Disposition",
            .methods = "GET, HEAD, POST, PUT, DELETE",
        };
    return ipb_http_server_new(server->loop, &options, make_gate(server));
}

static Principal *
new_principal(IpbMcpHttpServer *server, const char *name, const IpbMcpServiceOptions *options)
{
    Principal *principal = g_new0(Principal, 1);
    IpbMcpServiceOptions service = *options;
    service.max_sessions = server->options.max_sessions_each;
    service.budget = &server->session_budget;
    service.idle_ms = server->options.idle_ms;
    service.max_lifetime_ms = server->options.max_lifetime_ms;
    service.lifetime_grace_ms = server->options.lifetime_grace_ms;
    service.pool = server->pool;
    service.pool_owner = server->n_principals;
    *principal = (Principal){
        .server = server,
        .number = server->n_principals++,
        .session_options = options->session,
        .name = g_strdup(name),
        .service = ipb_mcp_service_new(server->options.runtime, &service),
    };
    return principal;
}

static void
free_principal(void *data)
{
    Principal *principal = data;
    ipb_timer_free(principal->timer);
    ipb_mcp_service_free(principal->service);
    g_free(principal->name);
    g_free(principal);
}

static void
on_refused_peer(const char *address, void *data)
{
    log_line(data, "warning", "a connection from %s was closed: --behind-proxy does not name it",
             address);
}

static void
on_request_over(void *data)
{
    close_leavers(data);
    advance_close(data);
}

static void
on_sse_closed(void *owner, void *data)
{
    ((Principal *) owner)->n_sessions--;
    close_leavers(data);
    advance_close(data);
}

IpbMcpHttpServer *
ipb_mcp_http_server_new(const IpbMcpHttpServerOptions *options)
{
    IpbMcpHttpServer *server = g_new0(IpbMcpHttpServer, 1);
    server->options = *options;
    server->options.services = NULL;
    server->loop = ipb_loop_ref(ipb_runtime_loop(options->runtime));
    server->budget.max_held = MAX_HELD_EVENTS;
    server->session_budget.max = options->max_sessions;
    server->stateless =
        ipb_mcp_stateless_new(server->loop, &server->budget, on_request_over, server);
    server->sse = ipb_mcp_sse_new(server->loop, on_sse_closed, server);
    server->files = ipb_mcp_files_new(options->runtime, on_request_over, server);
    server->sessions = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_session);
    server->endings = g_ptr_array_new_with_free_func(free_session);
    server->pool = make_pool(server);
    server->probe_options = options->services[0].session;
    server->principals = g_ptr_array_new_with_free_func(free_principal);
    server->leavers = g_ptr_array_new_with_free_func(free_principal);
    for (size_t i = 0; i < ipb_principals_count(options->principals); i++)
        g_ptr_array_add(server->principals,
                        new_principal(server, ipb_principals_name(options->principals, i),
                                      &options->services[i]));
    server->http = make_http(server);
    ipb_http_server_set_tls(server->http, options->tls);
    ipb_http_server_set_peers(server->http, options->peers, on_refused_peer, server);
    return server;
}

/* Clients in a browser that send the server's own address as the Origin, as the specification's
 * tests do. There are no pages at this address, and a token is needed all the same. */
static void
allow_own_origins(IpbMcpHttpServer *server)
{
    static const char *const HOSTS[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < G_N_ELEMENTS(HOSTS); i++) {
        g_autofree char *origin =
            g_strdup_printf("%s://%s:%u", server->options.tls != NULL ? "https" : "http", HOSTS[i],
                            ipb_http_server_port(server->http));
        ipb_http_gate_allow_origin(ipb_http_server_gate(server->http), origin);
    }
}

bool
ipb_mcp_http_server_listen(IpbMcpHttpServer *server, const char *host, unsigned port,
                           GError **error)
{
    if (!ipb_http_server_listen(server->http, host, port, error))
        return false;
    allow_own_origins(server);
    return start_probe(server, error);
}

bool
ipb_mcp_http_server_adopt(IpbMcpHttpServer *server, const int *fds, size_t n_fds, GError **error)
{
    if (!ipb_http_server_adopt(server->http, fds, n_fds, error))
        return false;
    allow_own_origins(server);
    return start_probe(server, error);
}

unsigned
ipb_mcp_http_server_port(const IpbMcpHttpServer *server)
{
    return ipb_http_server_port(server->http);
}

/* --- other principals ------------------------------------------------------------------------- */

static void
on_leaver_timer(void *data)
{
    Principal *principal = data;
    IpbMcpHttpServer *server = principal->server;
    g_ptr_array_remove_fast(server->leavers, principal); /* frees it */
    advance_close(server);
}

/* Nothing of its service is left. */
static void
on_leaver_closed(void *data)
{
    Principal *principal = data;
    principal->timer = ipb_timer_new(principal->server->loop, 0, on_leaver_timer, principal);
}

/* Those that nothing uses any more. */
static void
close_leavers(IpbMcpHttpServer *server)
{
    for (guint i = 0; i < server->leavers->len; i++) {
        Principal *principal = g_ptr_array_index(server->leavers, i);
        if (principal->is_closing || principal->n_sessions > 0 ||
            ipb_mcp_stateless_serves(server->stateless, principal->service) ||
            ipb_mcp_files_serves(server->files, principal->service))
            continue;
        principal->is_closing = true;
        ipb_mcp_service_close(principal->service, on_leaver_closed, principal);
    }
}

static void
end_sessions_of(const Principal *principal)
{
    g_autoptr(GList) sessions = g_hash_table_get_values(principal->server->sessions);
    for (GList *link = sessions; link != NULL; link = link->next)
        if (((Session *) link->data)->principal == principal)
            end_session(link->data);
}

/* Takes the principal of this name out of @principals; NULL: there is none. */
static Principal *
take_principal(GPtrArray *principals, const char *name)
{
    for (guint i = 0; i < principals->len; i++) {
        const Principal *principal = g_ptr_array_index(principals, i);
        if (g_str_equal(principal->name, name))
            return g_ptr_array_steal_index_fast(principals, i);
    }
    return NULL;
}

void
ipb_mcp_http_server_set_principals(IpbMcpHttpServer *server, IpbPrincipals *principals,
                                   const IpbMcpServiceOptions *services)
{
    g_autoptr(GPtrArray) former = g_steal_pointer(&server->principals);
    server->principals = g_ptr_array_new_with_free_func(free_principal);
    for (size_t i = 0; i < ipb_principals_count(principals); i++) {
        const char *name = ipb_principals_name(principals, i);
        Principal *principal = take_principal(former, name);
        g_ptr_array_add(server->principals,
                        principal != NULL ? principal : new_principal(server, name, &services[i]));
    }
    ipb_principals_free(server->options.principals);
    server->options.principals = principals;
    while (former->len > 0) {
        Principal *principal = g_ptr_array_steal_index_fast(former, former->len - 1);
        g_ptr_array_add(server->leavers, principal);
        end_sessions_of(principal);
        ipb_mcp_stateless_end_of(server->stateless, principal->service);
        ipb_mcp_files_end_of(server->files, principal->service);
        ipb_mcp_sse_end_of(server->sse, principal);
    }
    close_leavers(server);
    ipb_session_pool_update(server->pool);
}

void
ipb_mcp_http_server_set_tls(IpbMcpHttpServer *server, IpbTlsKeys *keys)
{
    if (server->options.tls == NULL)
        return;
    ipb_http_server_set_tls(server->http, keys);
    /* The options borrow nothing further: the HTTP server has a reference. */
    server->options.tls = keys;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void
on_closed_timer(void *data)
{
    IpbMcpHttpServer *server = data;
    g_clear_pointer(&server->closed_timer, ipb_timer_free);
    server->closed(server->closed_data);
}

static void
report_if_closed(IpbMcpHttpServer *server)
{
    if (server->pool != NULL && !server->is_pool_closed)
        return;
    for (guint i = 0; i < server->principals->len; i++)
        if (!((Principal *) g_ptr_array_index(server->principals, i))->is_closed)
            return;
    server->closed_timer = ipb_timer_new(server->loop, 0, on_closed_timer, server);
}

static void
on_service_closed(void *data)
{
    Principal *principal = data;
    principal->is_closed = true;
    report_if_closed(principal->server);
}

static void
on_pool_closed(void *data)
{
    IpbMcpHttpServer *server = data;
    server->is_pool_closed = true;
    report_if_closed(server);
}

static bool
is_busy(const IpbMcpHttpServer *server)
{
    GHashTableIter iter;
    void *session;
    if (ipb_mcp_stateless_is_busy(server->stateless) || ipb_mcp_sse_is_busy(server->sse) ||
        ipb_mcp_files_serves(server->files, NULL))
        return true;
    g_hash_table_iter_init(&iter, server->sessions);
    while (g_hash_table_iter_next(&iter, NULL, &session))
        if (ipb_mcp_http_channel_is_busy(((Session *) session)->channel))
            return true;
    return false;
}

static void
end_all_sessions(IpbMcpHttpServer *server)
{
    g_autoptr(GList) sessions = g_hash_table_get_values(server->sessions);
    for (GList *link = sessions; link != NULL; link = link->next)
        end_session(link->data);
}

/* Takes the next steps of closing that are possible now. */
static void
advance_close(IpbMcpHttpServer *server)
{
    if (!server->is_closing || server->has_closed_services ||
        (server->drain_timer != NULL && is_busy(server)))
        return;
    g_clear_pointer(&server->drain_timer, ipb_timer_free);
    ipb_mcp_stateless_end(server->stateless);
    ipb_mcp_sse_end(server->sse);
    ipb_mcp_files_end_of(server->files, NULL);
    end_all_sessions(server);
    if (server->endings->len > 0 || ipb_mcp_files_serves(server->files, NULL) ||
        server->leavers->len > 0 || ipb_mcp_stateless_is_busy(server->stateless) ||
        ipb_mcp_sse_count(server->sse) > 0)
        return;
    server->has_closed_services = true;
    for (guint i = 0; i < server->principals->len; i++) {
        Principal *principal = g_ptr_array_index(server->principals, i);
        ipb_mcp_service_close(principal->service, on_service_closed, principal);
    }
}

static void
on_drain_timer(void *data)
{
    IpbMcpHttpServer *server = data;
    g_clear_pointer(&server->drain_timer, ipb_timer_free);
    advance_close(server);
}

void
ipb_mcp_http_server_close(IpbMcpHttpServer *server, void (*done)(void *data), void *data)
{
    server->is_closing = true;
    server->closed = done;
    server->closed_data = data;
    server->drain_timer = ipb_timer_new(server->loop, DRAIN_TIMEOUT_MS, on_drain_timer, server);
    if (server->pool != NULL)
        ipb_session_pool_close(server->pool, on_pool_closed, server);
    ipb_mcp_stateless_end_subscriptions(server->stateless);
    advance_close(server);
}

void
ipb_mcp_http_server_free(IpbMcpHttpServer *server)
{
    if (server == NULL)
        return;
    server->is_closing = true;
    ipb_timer_free(server->probe_timer);
    ipb_timer_free(server->drain_timer);
    ipb_timer_free(server->closed_timer);
    ipb_session_free(server->probe);
    ipb_mcp_stateless_free(server->stateless);
    ipb_mcp_files_free(server->files);
    g_ptr_array_unref(server->principals);
    g_ptr_array_unref(server->leavers);
    ipb_session_pool_free(server->pool);
    ipb_mcp_sse_free(server->sse);
    g_ptr_array_unref(server->endings);
    g_hash_table_unref(server->sessions);
    ipb_http_server_free(server->http);
    ipb_principals_free(server->options.principals);
    ipb_loop_unref(server->loop);
    g_clear_error(&server->probe_error);
    g_free(server);
}
