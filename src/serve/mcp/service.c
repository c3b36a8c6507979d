/* SPDX-License-Identifier: Apache-2.0
 *
 * What MCP clients of a principal share; see the header.
 *
 * The servers that the user named are registered once, by the first session. Cells of all sessions
 * wait until that is done. If the first session closes before, another one continues.
 */
#include "serve/mcp/service.h"

#include "base/error.h"

#define DEFAULT_MAX_CONNECTIONS 1000
#define DEFAULT_MAX_SESSIONS 20
#define FLUSH_TIMEOUT_MS 1000

/* A connection that is about to be freed. */
typedef struct {
    IpbMcpService *service;
    IpbMcpConnection *connection;
    IpbTimer *timer;
    void (*done)(void *data);
    void *data;
} Leaving;

struct IpbMcpService {
    IpbRuntime *runtime;
    IpbMcpServiceOptions options;
    IpbSessionBudget own_budget;
    IpbMcpShared shared;
    /* IpbMcpConnection */
    GPtrArray *connections;
    /* Leaving */
    GPtrArray *leaving;
    bool is_closing;
    /* The session that registers options.servers; NULL: none does */
    IpbNamedSession *registrar;
    unsigned n_registering;
    /* The registrar closed before it was done. */
    bool was_interrupted;
    bool are_registered;
    /* IpbNamedSession whose cells wait for the registrations */
    GPtrArray *held;
};

static void
log_error(const IpbMcpService *service, const GError *error)
{
    g_autofree char *line = g_strdup_printf("--servers: %s", error->message);
    if (service->options.on_log != NULL)
        service->options.on_log("error", line, service->options.data);
}

/* --- the servers that the user named ---------------------------------------------------------- */

static bool begin_registering(IpbMcpService *service, IpbNamedSession *session, GError **error);

static void
release_cells(IpbMcpService *service)
{
    for (guint i = 0; i < service->held->len; i++) {
        IpbSession *session = ((IpbNamedSession *) g_ptr_array_index(service->held, i))->session;
        g_autoptr(GError) error = NULL;
        if (!ipb_session_allow_below(session, NULL, &error))
            log_error(service, error);
        ipb_session_hold_cells(session, false);
    }
    g_ptr_array_set_size(service->held, 0);
}

static void
finish_registering(IpbMcpService *service)
{
    const GPtrArray *sessions = ipb_named_sessions_list(service->shared.sessions);
    IpbNamedSession *registrar = g_steal_pointer(&service->registrar);
    g_autoptr(GError) error = NULL;
    if (service->is_closing)
        return;
    if (service->was_interrupted) {
        if (sessions->len == 0 ||
            begin_registering(service, g_ptr_array_index(sessions, 0), &error))
            return;
        log_error(service, error);
    }
    service->are_registered = true;
    release_cells(service);
    if (registrar->client == NULL && !registrar->is_told && registrar->calls->len == 0)
        ipb_named_session_close(registrar, "was closed"); /* it was made for this */
}

static void
on_registered(const char *const *modules, const GError *error, void *data)
{
    IpbMcpService *service = data;
    if (service->registrar == NULL)
        return;
    if (error != NULL && service->registrar->is_closing)
        service->was_interrupted = true;
    else if (error != NULL)
        log_error(service, error);
    if (--service->n_registering == 0)
        finish_registering(service);
}

/* In the background: initialize does not wait for it. */
static bool
begin_registering(IpbMcpService *service, IpbNamedSession *session, GError **error)
{
    service->registrar = session;
    service->was_interrupted = false;
    IPB_JSON_FOREACH (server, service->options.servers) {
        IpbRegisterOptions options = {.name = ipb_json_name(server, NULL), .params = server};
        if (ipb_session_register(session->session, &options, on_registered, service, error) == 0) {
            g_prefix_error(error, "%s: mcpServers.%s: ", service->options.servers_path,
                           options.name);
            service->registrar = NULL;
            service->n_registering = 0;
            return false;
        }
        service->n_registering++;
    }
    return true;
}

/* The session may call what was registered for the workspace, by this service or before. */
static bool
on_new_session(IpbNamedSession *session, void *data, GError **error)
{
    IpbMcpService *service = data;
    if (!ipb_session_allow_below(session->session, NULL, error))
        return false;
    if (service->are_registered || ipb_json_length(service->options.servers) == 0)
        return true;
    if (service->registrar == NULL && !begin_registering(service, session, error))
        return false;
    g_ptr_array_add(service->held, session);
    ipb_session_hold_cells(session->session, true);
    return true;
}

static void
on_session_closed(IpbNamedSession *session, void *data)
{
    IpbMcpService *service = data;
    g_ptr_array_remove_fast(service->held, session);
    for (guint i = 0; i < service->connections->len; i++)
        ipb_mcp_connection_forget(g_ptr_array_index(service->connections, i), session);
    ipb_session_pool_update(service->options.pool);
}

/* --- connections ------------------------------------------------------------------------------ */

/* A session that never gets a kernel, for what only needs the options of sessions. */
static bool
make_common(IpbMcpService *service, GError **error)
{
    IpbSessionOptions options = service->options.session;
    if (service->shared.common != NULL)
        return true;
    options.record = NULL;
    options.is_staged = false;
    options.staging_dir = NULL;
    service->shared.common = ipb_session_new(service->runtime, &options, error);
    if (service->shared.common == NULL ||
        !ipb_session_allow_below(service->shared.common, NULL, error)) {
        g_clear_pointer(&service->shared.common, ipb_session_free);
        return false;
    }
    service->shared.resources = ipb_mcp_resources_new(service->shared.common);
    return true;
}

IpbSession *
ipb_mcp_service_common_session(IpbMcpService *service, GError **error)
{
    return make_common(service, error) ? service->shared.common : NULL;
}

/* A client without a session of its own sees the servers, too. */
static void
register_early(IpbMcpService *service)
{
    g_autoptr(GError) error = NULL;
    if (service->are_registered || service->registrar != NULL ||
        ipb_json_length(service->options.servers) == 0)
        return;
    if (ipb_named_sessions_add(service->shared.sessions, &error) == NULL)
        log_error(service, error);
}

IpbMcpConnection *
ipb_mcp_service_connect(IpbMcpService *service, IpbMessageChannel *channel, bool is_stateless,
                        void (*on_end)(const GError *why, void *data), void *data, GError **error)
{
    if (service->is_closing || service->connections->len >= service->options.max_connections) {
        channel->ops->free(channel);
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s",
                    service->is_closing ? "the server is ending"
                                        : "too many clients are connected");
        return NULL;
    }
    if (!make_common(service, error)) {
        channel->ops->free(channel);
        return NULL;
    }
    if (is_stateless)
        register_early(service);
    IpbMcpConnection *connection =
        ipb_mcp_connection_new(&service->shared, channel, is_stateless, on_end, data, error);
    if (connection != NULL)
        g_ptr_array_add(service->connections, connection);
    return connection;
}

static void
free_leaving(void *data)
{
    Leaving *leaving = data;
    ipb_timer_free(leaving->timer);
    g_free(leaving);
}

static void
on_leaving_timer(void *data)
{
    Leaving *leaving = data;
    IpbMcpService *service = leaving->service;
    void (*done)(void *data) = leaving->done;
    void *done_data = leaving->data;
    g_ptr_array_remove_fast(service->connections, leaving->connection);
    ipb_mcp_connection_free(leaving->connection, 0);
    g_ptr_array_remove_fast(service->leaving, leaving); /* frees it */
    if (done != NULL)
        done(done_data);
}

void
ipb_mcp_service_disconnect(IpbMcpService *service, IpbMcpConnection *connection,
                           void (*done)(void *data), void *data)
{
    ipb_mcp_connection_detach(connection);
    Leaving *leaving = g_new0(Leaving, 1);
    *leaving = (Leaving){
        .service = service,
        .connection = connection,
        .timer = ipb_timer_new(ipb_runtime_loop(service->runtime), 0, on_leaving_timer, leaving),
        .done = done,
        .data = data,
    };
    g_ptr_array_add(service->leaving, leaving);
}

unsigned
ipb_mcp_service_count_sessions(const IpbMcpService *service)
{
    return ipb_named_sessions_list(service->shared.sessions)->len;
}

void
ipb_mcp_service_close(IpbMcpService *service, void (*done)(void *data), void *data)
{
    service->is_closing = true;
    ipb_named_sessions_close(service->shared.sessions, done, data);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpService *
ipb_mcp_service_new(IpbRuntime *runtime, const IpbMcpServiceOptions *options)
{
    IpbMcpService *service = g_new0(IpbMcpService, 1);
    IpbLoop *loop = ipb_runtime_loop(runtime);
    unsigned max_sessions =
        options->max_sessions > 0 ? options->max_sessions : DEFAULT_MAX_SESSIONS;
    service->runtime = ipb_runtime_ref(runtime);
    service->options = *options;
    if (service->options.max_connections == 0)
        service->options.max_connections = DEFAULT_MAX_CONNECTIONS;
    if (options->session.record != NULL)
        max_sessions = 1;
    service->own_budget.max = max_sessions;
    service->connections = g_ptr_array_new();
    service->leaving = g_ptr_array_new_with_free_func(free_leaving);
    service->held = g_ptr_array_new();
    service->shared = (IpbMcpShared){
        .loop = loop,
        .tools = options->tools,
        .offers_register = options->offers_register,
        .keeps_results = options->keeps_results,
        .servers = options->servers,
        .extension = options->extension,
        .kept = ipb_mcp_kept_requests_new(loop),
        .on_log = options->on_log,
        .data = options->data,
    };
    service->shared.sessions = ipb_named_sessions_new(&(IpbNamedSessionsOptions){
        .runtime = runtime,
        .session = options->session,
        .pool = options->pool,
        .pool_owner = options->pool_owner,
        .keeps_results = options->keeps_results,
        .max = max_sessions,
        .budget = options->budget != NULL ? options->budget : &service->own_budget,
        .idle_ms = options->idle_ms,
        .max_lifetime_ms = options->max_lifetime_ms,
        .lifetime_grace_ms = options->lifetime_grace_ms,
        .on_new = on_new_session,
        .on_closed = on_session_closed,
        .on_log = options->on_log,
        .data = service,
    });
    return service;
}

void
ipb_mcp_service_free(IpbMcpService *service)
{
    if (service == NULL)
        return;
    service->is_closing = true;
    for (guint i = 0; i < service->connections->len; i++)
        ipb_mcp_connection_detach(g_ptr_array_index(service->connections, i));
    ipb_named_sessions_free(service->shared.sessions); /* answers requests in flight */
    for (guint i = 0; i < service->connections->len; i++)
        ipb_mcp_connection_free(g_ptr_array_index(service->connections, i), FLUSH_TIMEOUT_MS);
    ipb_mcp_kept_requests_free(service->shared.kept);
    ipb_mcp_resources_free(service->shared.resources);
    ipb_session_free(service->shared.common);
    g_ptr_array_unref(service->leaving);
    g_ptr_array_unref(service->connections);
    g_ptr_array_unref(service->held);
    ipb_runtime_unref(service->runtime);
    g_free(service);
}
