/* SPDX-License-Identifier: Apache-2.0
 *
 * The successive connections to one MCP server; see the header. A connection that is stopped, or
 * whose server has died, is set aside until it has ended. Everything that it reports is ignored.
 * The next use makes a new one.
 */
#include "tools/on-demand-server.h"

#include <string.h>

#include "base/error.h"

typedef struct {
    IpbOnDemandServer *server;
    IpbMcpClient *client;
    bool is_connected; /* connected, with the handshake done */
    bool is_closing;   /* set aside to end */
    bool is_listing;   /* tools/list is under way, to see whether the tools changed */
    bool lists_again;  /* they changed again in the meantime */
} Connection;

typedef struct {
    IpbOnDemandServerFunc func;
    void *data;
} Waiter;

struct IpbOnDemandServer {
    IpbLoop *loop;
    const IpbOnDemandServerOptions *options;
    IpbRegistration *registration;
    Connection *connection; /* NULL: not started, or ended */
    char *logged_tools;     /* the digest of the last change that was logged; NULL: none */
    GError *failure;        /* it could not be started; reported from the loop */
    IpbTimer *failure_timer;
    GQueue waiters;     /* of Waiter, owned: they wait for the connection or the failure */
    GPtrArray *closing; /* Connection, owned */
};

static void
free_connection(void *data)
{
    Connection *connection = data;
    if (connection == NULL)
        return;
    connection->is_closing = true; /* the client ends its pending calls now */
    ipb_mcp_client_free(connection->client);
    g_free(connection);
}

IpbOnDemandServer *
ipb_on_demand_server_new(IpbLoop *loop, const IpbOnDemandServerOptions *options,
                         const IpbRegistration *registration)
{
    IpbOnDemandServer *server = g_new0(IpbOnDemandServer, 1);
    server->loop = ipb_loop_ref(loop);
    server->options = options;
    server->registration = ipb_registration_copy(registration);
    server->closing = g_ptr_array_new_with_free_func(free_connection);
    g_queue_init(&server->waiters);
    return server;
}

void
ipb_on_demand_server_free(IpbOnDemandServer *server)
{
    if (server == NULL)
        return;
    g_queue_clear_full(&server->waiters, g_free);
    ipb_timer_free(server->failure_timer);
    g_clear_error(&server->failure);
    free_connection(server->connection);
    g_ptr_array_unref(server->closing);
    ipb_registration_free(server->registration);
    ipb_loop_unref(server->loop);
    g_free(server->logged_tools);
    g_free(server);
}

void
ipb_on_demand_server_set_registration(IpbOnDemandServer *server,
                                      const IpbRegistration *registration)
{
    ipb_registration_free(server->registration);
    server->registration = ipb_registration_copy(registration);
}

const IpbRegistration *
ipb_on_demand_server_registration(const IpbOnDemandServer *server)
{
    return server->registration;
}

/* Answers the current waiters, not those that are added while it runs. */
static void
answer_waiters(IpbOnDemandServer *server, IpbMcpClient *client, const GError *error)
{
    for (guint n = server->waiters.length; n > 0; n--) {
        g_autofree Waiter *waiter = g_queue_pop_head(&server->waiters);
        if (waiter == NULL) /* a waiter cancelled the others */
            return;
        waiter->func(client, error, waiter->data);
    }
}

/* --- stopping --- */

static void
on_connection_gone(void *data)
{
    Connection *connection = data;
    IpbOnDemandServer *server = connection->server;
    g_ptr_array_remove_fast(server->closing, connection);
    if (server->closing->len == 0 && server->options->on_stopped != NULL)
        server->options->on_stopped(server->options->data);
}

static void
set_aside(IpbOnDemandServer *server)
{
    Connection *connection = g_steal_pointer(&server->connection);
    if (connection == NULL)
        return;
    connection->is_closing = true;
    g_ptr_array_add(server->closing, connection);
    ipb_mcp_client_close(connection->client, on_connection_gone, connection);
}

static void
on_connection_closed(const GError *why, void *data)
{
    Connection *connection = data;
    if (!connection->is_closing)
        set_aside(connection->server);
}

bool
ipb_on_demand_server_is_stopped(const IpbOnDemandServer *server)
{
    return server->closing->len == 0;
}

bool
ipb_on_demand_server_is_idle(const IpbOnDemandServer *server)
{
    return server->connection == NULL && server->failure == NULL && server->waiters.length == 0 &&
           ipb_on_demand_server_is_stopped(server);
}

/* --- connecting --- */

static void
on_failure_timer(void *data)
{
    IpbOnDemandServer *server = data;
    g_clear_pointer(&server->failure_timer, ipb_timer_free);
    g_autoptr(GError) failure = g_steal_pointer(&server->failure);
    answer_waiters(server, NULL, failure);
}

/* Takes @failure. */
static void
fail_later(IpbOnDemandServer *server, GError *failure)
{
    if (server->failure != NULL) {
        g_error_free(failure);
        return;
    }
    server->failure = failure;
    server->failure_timer = ipb_timer_new(server->loop, 0, on_failure_timer, server);
}

static void
on_connected(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    Connection *connection = data;
    IpbOnDemandServer *server = connection->server;
    if (connection->is_closing)
        return;
    if (error != NULL) {
        set_aside(server);
        answer_waiters(server, NULL, error);
        return;
    }
    connection->is_connected = true;
    answer_waiters(server, connection->client, NULL);
}

static void
on_log(const char *level, const char *text, void *data)
{
    const IpbOnDemandServer *server = ((Connection *) data)->server;
    if (server->options->on_log != NULL)
        server->options->on_log(server->registration->name, level, text, server->options->data);
}

/* Whether these tools differ from those that the package was made of, and this was not logged
 * yet. */
static bool
is_new_change(IpbOnDemandServer *server, const IpbJson *tools)
{
    g_autofree char *digest = ipb_registry_digest_tools(tools);
    bool is_known = g_strcmp0(digest, server->registration->tools) == 0;
    bool is_logged = g_strcmp0(digest, server->logged_tools) == 0;
    g_free(server->logged_tools);
    server->logged_tools = is_known ? NULL : g_steal_pointer(&digest);
    return !is_known && !is_logged;
}

static void on_tools_changed(void *data);

static void
on_tools(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    static const char TEXT[] = "its tools changed; register it again to regenerate its package "
                               "(nothing was rewritten)";
    Connection *connection = data;
    IpbOnDemandServer *server = connection->server;
    if (connection->is_closing)
        return;
    connection->is_listing = false;
    g_autofree char *failure =
        error != NULL
            ? g_strdup_printf("it reported that its tools changed, but they cannot be listed: %s",
                              error->message)
            : NULL;
    bool is_logged = failure != NULL || is_new_change(server, ipb_json_get(result, "tools"));
    if (is_logged && server->options->on_log != NULL)
        server->options->on_log(server->registration->name, "warning",
                                failure != NULL ? failure : TEXT, server->options->data);
    if (connection->lists_again && error == NULL)
        on_tools_changed(connection);
}

/* Many servers report changed tools at each start or connection, so the list is compared. */
static void
on_tools_changed(void *data)
{
    Connection *connection = data;
    if (connection->is_closing)
        return;
    connection->lists_again = connection->is_listing;
    if (connection->is_listing)
        return;
    connection->is_listing = true;
    ipb_mcp_client_list_tools(connection->client, on_tools, connection);
}

/* The parameters with ${NAME} replaced from the application's environment. */
static IpbServerParams *
expand_params(const IpbOnDemandServer *server, GError **error)
{
    const char *text = server->registration->params_json;
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, error);
    if (document == NULL)
        return NULL;
    g_autoptr(IpbServerParams) params = ipb_server_params_parse(ipb_json_root(document), error);
    return params != NULL ? ipb_server_params_expand(params, server->options->env, error) : NULL;
}

static bool
start_connection(IpbOnDemandServer *server, GError **error)
{
    static const IpbMcpClientFuncs FUNCS = {
        .on_closed = on_connection_closed,
        .on_log = on_log,
        .on_tools_changed = on_tools_changed,
    };
    g_autoptr(IpbServerParams) params = expand_params(server, error);
    if (params == NULL) {
        g_prefix_error(error, "MCP server %s: ", server->registration->name);
        return false;
    }
    IpbMcpClientOptions options = {
        .name = server->registration->name,
        .params = params,
        .cwd = server->options->cwd,
        .state_dir = server->options->state_dir,
        .keep_out = server->options->keep_out,
        .base_env = server->options->env,
        .connect_timeout_ms = server->options->connect_timeout_ms,
        .call_timeout_ms = server->options->call_timeout_ms,
        .legacy_servers = server->options->legacy_servers,
    };
    Connection *connection = server->connection = g_new0(Connection, 1);
    connection->server = server;
    connection->client = ipb_mcp_client_new(server->loop, &options, &FUNCS, connection);
    ipb_mcp_client_connect(connection->client, on_connected, connection);
    return true;
}

void
ipb_on_demand_server_use(IpbOnDemandServer *server, IpbOnDemandServerFunc func, void *data)
{
    GError *failure = NULL;
    if (server->connection != NULL && server->connection->is_connected) {
        func(server->connection->client, NULL, data);
        return;
    }
    Waiter *waiter = g_new(Waiter, 1);
    *waiter = (Waiter){func, data};
    g_queue_push_tail(&server->waiters, waiter);
    if (server->connection == NULL && !start_connection(server, &failure))
        fail_later(server, failure);
}

void
ipb_on_demand_server_forget(IpbOnDemandServer *server, const void *data)
{
    for (GList *item = server->waiters.head; item != NULL; item = item->next) {
        Waiter *waiter = item->data;
        if (waiter->data == data) {
            g_free(waiter);
            g_queue_delete_link(&server->waiters, item);
            return;
        }
    }
}

IpbMcpClient *
ipb_on_demand_server_client(IpbOnDemandServer *server)
{
    bool is_connected = server->connection != NULL && server->connection->is_connected;
    return is_connected ? server->connection->client : NULL;
}

void
ipb_on_demand_server_stop(IpbOnDemandServer *server)
{
    g_queue_clear_full(&server->waiters, g_free);
    g_clear_pointer(&server->failure_timer, ipb_timer_free);
    g_clear_error(&server->failure);
    set_aside(server);
}
