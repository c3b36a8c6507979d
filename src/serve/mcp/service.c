/* SPDX-License-Identifier: Apache-2.0
 *
 * What MCP connections share; see the header.
 *
 * The servers that the user named are registered once, by the first session. Cells of all sessions
 * wait until that is done. If the first session closes before, another one continues.
 */
#include "serve/mcp/service.h"

#include "base/error.h"

#define DEFAULT_MAX_CONNECTIONS 1000
#define FLUSH_TIMEOUT_MS 1000

struct IpbMcpConnection {
    IpbMcpService *service;
    IpbMcpServer *server;
    void (*on_end)(const GError *why, void *data);
    void *data;
    /* Its cells wait for the registrations. */
    bool is_held;
    bool is_closing;
    /* Its session is closed. */
    bool is_closed;
    /* Frees it from the loop. The session must not be freed in its own callback. */
    bool frees_itself;
    IpbTimer *timer;
    void (*done)(void *data);
    void *done_data;
};

struct IpbMcpService {
    IpbRuntime *runtime;
    IpbMcpServiceOptions options;
    /* IpbMcpConnection */
    GPtrArray *connections;
    bool is_closing;
    /* Calls @done from the loop. */
    IpbTimer *timer;
    void (*done)(void *data);
    void *done_data;
    /* The connection whose session registers options.servers; NULL: none does */
    IpbMcpConnection *registrar;
    unsigned n_registering;
    /* The registrar closed before it was done. */
    bool was_interrupted;
    bool are_registered;
};

static void
log_error(IpbMcpService *service, const GError *error)
{
    g_autofree char *line = g_strdup_printf("--servers: %s", error->message);
    if (service->options.on_log != NULL)
        service->options.on_log("error", line, service->options.data);
}

/* --- the servers that the user named ---------------------------------------------------------- */

static void
release_cells(IpbMcpConnection *connection)
{
    g_autoptr(GError) error = NULL;
    if (!connection->is_held || connection->is_closing)
        return;
    connection->is_held = false;
    IpbSession *session = ipb_mcp_server_session(connection->server);
    if (!ipb_session_allow_below(session, NULL, &error))
        log_error(connection->service, error);
    ipb_session_hold_cells(session, false);
}

static bool begin_registering(IpbMcpConnection *connection, GError **error);

static IpbMcpConnection *
find_open(const IpbMcpService *service)
{
    for (guint i = 0; i < service->connections->len; i++) {
        IpbMcpConnection *connection = g_ptr_array_index(service->connections, i);
        if (!connection->is_closing)
            return connection;
    }
    return NULL;
}

static void
finish_registering(IpbMcpService *service)
{
    g_autoptr(GError) error = NULL;
    service->registrar = NULL;
    if (service->is_closing)
        return;
    if (service->was_interrupted) {
        IpbMcpConnection *next = find_open(service);
        if (next == NULL || begin_registering(next, &error))
            return;
        log_error(service, error);
    }
    service->are_registered = true;
    for (guint i = 0; i < service->connections->len; i++)
        release_cells(g_ptr_array_index(service->connections, i));
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
begin_registering(IpbMcpConnection *connection, GError **error)
{
    IpbMcpService *service = connection->service;
    IpbSession *session = ipb_mcp_server_session(connection->server);
    service->registrar = connection;
    service->was_interrupted = false;
    IPB_JSON_FOREACH (server, service->options.servers) {
        IpbRegisterOptions options = {.name = ipb_json_name(server, NULL), .params = server};
        if (ipb_session_register(session, &options, on_registered, service, error) == 0) {
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

/* The connection may call what was registered for the workspace, by this service or before. */
static bool
set_up_registrations(IpbMcpConnection *connection, GError **error)
{
    IpbMcpService *service = connection->service;
    IpbSession *session = ipb_mcp_server_session(connection->server);
    if (!ipb_session_allow_below(session, NULL, error))
        return false;
    if (service->are_registered || ipb_json_length(service->options.servers) == 0)
        return true;
    if (service->registrar == NULL && !begin_registering(connection, error))
        return false;
    connection->is_held = true;
    ipb_session_hold_cells(session, true);
    return true;
}

/* --- connections ------------------------------------------------------------------------------ */

static void
free_connection(IpbMcpConnection *connection, unsigned flush_ms)
{
    ipb_timer_free(connection->timer);
    ipb_mcp_server_free(connection->server, flush_ms);
    g_free(connection);
}

static void
on_end(const GError *why, void *data)
{
    IpbMcpConnection *connection = data;
    if (!connection->frees_itself)
        connection->on_end(why, connection->data);
}

static void
on_log(const char *level, const char *text, void *data)
{
    const IpbMcpServiceOptions *options = &((IpbMcpConnection *) data)->service->options;
    if (options->on_log != NULL)
        options->on_log(level, text, options->data);
}

IpbMcpConnection *
ipb_mcp_service_connect(IpbMcpService *service, IpbMessageChannel *channel,
                        void (*on_client_end)(const GError *why, void *data), void *data,
                        GError **error)
{
    if (service->is_closing || service->connections->len >= service->options.max_connections) {
        channel->ops->free(channel);
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s",
                    service->is_closing ? "the server is ending"
                                        : "too many clients are connected");
        return NULL;
    }
    IpbMcpConnection *connection = g_new0(IpbMcpConnection, 1);
    *connection = (IpbMcpConnection){.service = service, .on_end = on_client_end, .data = data};
    IpbMcpServerOptions options = {
        .runtime = service->runtime,
        .session = service->options.session,
        .offers_register = service->options.offers_register,
        .tools = service->options.tools,
        .servers = service->options.servers,
        .keeps_results = service->options.keeps_results,
        .on_end = on_end,
        .on_log = on_log,
        .data = connection,
    };
    connection->server = ipb_mcp_server_new(channel, &options, error);
    if (connection->server == NULL || !set_up_registrations(connection, error)) {
        free_connection(connection, 0);
        return NULL;
    }
    g_ptr_array_add(service->connections, connection);
    /* In the background: initialize does not wait for it. */
    ipb_session_start(ipb_mcp_server_session(connection->server));
    return connection;
}

IpbSession *
ipb_mcp_connection_session(IpbMcpConnection *connection)
{
    return ipb_mcp_server_session(connection->server);
}

const char *
ipb_mcp_connection_revision(const IpbMcpConnection *connection)
{
    return ipb_mcp_server_revision(connection->server);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void
on_closed_timer(void *data)
{
    IpbMcpConnection *connection = data;
    void (*done)(void *data) = connection->done;
    void *done_data = connection->done_data;
    g_ptr_array_remove(connection->service->connections, connection);
    free_connection(connection, 0);
    if (done != NULL)
        done(done_data);
}

static void
on_all_closed_timer(void *data)
{
    IpbMcpService *service = data;
    g_clear_pointer(&service->timer, ipb_timer_free);
    service->done(service->done_data);
}

static void
report_if_closed(IpbMcpService *service)
{
    if (!service->is_closing || service->timer != NULL)
        return;
    for (guint i = 0; i < service->connections->len; i++)
        if (!((IpbMcpConnection *) g_ptr_array_index(service->connections, i))->is_closed)
            return;
    service->timer =
        ipb_timer_new(ipb_runtime_loop(service->runtime), 0, on_all_closed_timer, service);
}

static void
free_soon(IpbMcpConnection *connection)
{
    connection->timer = ipb_timer_new(ipb_runtime_loop(connection->service->runtime), 0,
                                      on_closed_timer, connection);
}

static void
on_session_closed(void *data)
{
    IpbMcpConnection *connection = data;
    connection->is_closed = true;
    if (connection->frees_itself)
        free_soon(connection);
    report_if_closed(connection->service);
}

static void
close_session(IpbMcpConnection *connection)
{
    if (connection->is_closing)
        return;
    connection->is_closing = true;
    ipb_mcp_server_close(connection->server, on_session_closed, connection);
}

void
ipb_mcp_connection_close(IpbMcpConnection *connection, void (*done)(void *data), void *data)
{
    connection->frees_itself = true;
    connection->done = done;
    connection->done_data = data;
    if (connection->is_closed) /* by the service */
        free_soon(connection);
    else
        close_session(connection);
}

void
ipb_mcp_service_close(IpbMcpService *service, void (*done)(void *data), void *data)
{
    service->is_closing = true;
    service->done = done;
    service->done_data = data;
    for (guint i = 0; i < service->connections->len; i++)
        close_session(g_ptr_array_index(service->connections, i));
    report_if_closed(service);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpService *
ipb_mcp_service_new(IpbRuntime *runtime, const IpbMcpServiceOptions *options)
{
    IpbMcpService *service = g_new0(IpbMcpService, 1);
    service->runtime = ipb_runtime_ref(runtime);
    service->options = *options;
    if (service->options.max_connections == 0)
        service->options.max_connections = DEFAULT_MAX_CONNECTIONS;
    service->connections = g_ptr_array_new();
    return service;
}

void
ipb_mcp_service_free(IpbMcpService *service)
{
    if (service == NULL)
        return;
    service->is_closing = true;
    for (guint i = 0; i < service->connections->len; i++)
        free_connection(g_ptr_array_index(service->connections, i), FLUSH_TIMEOUT_MS);
    g_ptr_array_unref(service->connections);
    ipb_timer_free(service->timer);
    ipb_runtime_unref(service->runtime);
    g_free(service);
}
