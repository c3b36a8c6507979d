/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of ipybox; see the header.
 */
#include "serve/mcp/connection.h"

#include "serve/mcp/late-log.h"
#include "serve/mcp/tool-listing.h"
#include "serve/mcp/tools.h"

/* A prompt in a box, as SVG. Of the server, not of each tool: they would all have the same. */
static const char ICONS[] =
    "[{\"src\":\"data:image/svg+xml;base64,"
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCAxNiAx"
    "NiI+PHBhdGggZD0iTTIgMmgxMnYxMkgyeiIgZmlsbD0iIzM3NzZhYiIvPjxwYXRoIGQ9Ik01IDZs"
    "MiAyLTIgMk04IDEwaDMiIHN0cm9rZT0iI2ZmZDQzYiIgc3Ryb2tlLXdpZHRoPSIxLjUiIGZpbGw9"
    "Im5vbmUiLz48L3N2Zz4="
    "\",\"mimeType\":\"image/svg+xml\",\"sizes\":[\"any\"]}]";

static const char CAPABILITIES[] = "{\"logging\":{},\"tools\":{},\"resources\":{}}";

static const char INSTRUCTIONS[] =
    "Runs Python in a stateful IPython kernel. Variables, imports and definitions persist between "
    "cells until reset. Code calls the tools of MCP servers: each server is a package "
    "mcptools.<server_name> with one module per tool (Params, run, and Result where the tool "
    "describes its result).";
static const char REGISTER_INSTRUCTIONS[] =
    "register_mcp_server makes the package of a further server.";
static const char DESCRIBE_INSTRUCTIONS[] = "describe_tools finds tools and describes them.";
static const char SEARCH_INSTRUCTIONS[] =
    "In cells, import mcptools and use mcptools.search(\"words\") and "
    "mcptools.describe(\"server.tool\") to find and describe tools.";
static const char STAGED_INSTRUCTIONS[] =
    "What cells write in the workspace is kept aside. commit_changes writes it to the real files.";
static const char SESSION_INSTRUCTIONS[] =
    "The first answer gives a session_id: pass it with each call to keep the variables.";

struct IpbMcpConnection {
    const IpbMcpShared *shared;
    IpbMcpServer *server;
    IpbMcpTools *tools;
    IpbLateLog *late_log;
    bool is_stateless;
    IpbNamedSession *session;
    /* Its cells are held, because the client does not read. */
    IpbNamedSession *held;
    /* How the last default session ended, if it was by its age: for the next one; or NULL */
    char *expiry;
    bool is_leaving;
    void (*on_end)(const GError *why, void *data);
    void *data;
};

/* --- what a model should know ----------------------------------------------------------------- */

/* It names only tools that are offered. */
static char *
make_instructions(void *data)
{
    const IpbMcpConnection *connection = data;
    const IpbMcpShared *shared = connection->shared;
    g_autofree char *packages = ipb_tool_listing_instructions(shared->common, shared->servers);
    bool offers_register = ipb_mcp_tools_offers(connection->tools, "register_mcp_server");
    g_autoptr(GString) text = g_string_new(INSTRUCTIONS);
    if (connection->is_stateless)
        g_string_append_printf(text, " %s", SESSION_INSTRUCTIONS);
    if (ipb_mcp_tools_offers(connection->tools, "commit_changes"))
        g_string_append_printf(text, " %s", STAGED_INSTRUCTIONS);
    if (offers_register)
        g_string_append_printf(text, " %s", REGISTER_INSTRUCTIONS);
    if (packages != NULL)
        g_string_append_printf(text, " %s", packages);
    if (packages == NULL && !offers_register)
        return g_string_free(g_steal_pointer(&text), FALSE);
    if (ipb_mcp_tools_offers(connection->tools, "describe_tools"))
        g_string_append_printf(text, " %s", DESCRIBE_INSTRUCTIONS);
    g_string_append_printf(text, " %s", SEARCH_INSTRUCTIONS);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* --- requests --------------------------------------------------------------------------------- */

static void
list_tools(const IpbMcpConnection *connection, IpbMcpRequest *request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "tools");
    ipb_mcp_tools_describe(connection->tools, writer);
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    ipb_mcp_request_reply(request, text, NULL);
}

static void
set_log_level(IpbMcpConnection *connection, IpbMcpRequest *request)
{
    const char *level = ipb_json_get_string(ipb_mcp_request_params(request), "level");
    if (ipb_late_log_set_level(connection->late_log, level))
        ipb_mcp_request_reply(request, "{}", NULL);
    else
        ipb_mcp_request_fail(request, IPB_RPC_INVALID_PARAMS,
                             "logging/setLevel: params.level must be one of debug, info, notice, "
                             "warning, error, critical, alert, emergency",
                             NULL);
}

static bool
handle(IpbMcpRequest *request, void *data)
{
    IpbMcpConnection *connection = data;
    const IpbMcpExtension *extension = connection->shared->extension;
    const char *method = ipb_mcp_request_method(request);
    if (extension != NULL && extension->handle(request, extension->data))
        return true;
    if (g_str_equal(method, "tools/list"))
        list_tools(connection, request);
    else if (g_str_equal(method, "tools/call"))
        ipb_mcp_tools_call(connection->tools, request);
    else if (g_str_equal(method, "logging/setLevel"))
        set_log_level(connection, request);
    else if (g_str_equal(method, "resources/list"))
        ipb_mcp_resources_list(connection->shared->resources, request);
    else if (g_str_equal(method, "resources/read"))
        ipb_mcp_resources_read(connection->shared->resources, request);
    else if (g_str_equal(method, "resources/templates/list"))
        ipb_mcp_request_reply(request, "{\"resourceTemplates\":[]}", NULL);
    else
        return false;
    return true;
}

/* --- the client ------------------------------------------------------------------------------- */

static void
on_client(const char *name, void *data)
{
    IpbMcpConnection *connection = data;
    ipb_mcp_tools_set_client(connection->tools, name);
}

static void
on_congested(bool is_congested, void *data)
{
    IpbMcpConnection *connection = data;
    if (connection->held != NULL)
        ipb_session_hold_cells(connection->held->session, false);
    connection->held = is_congested ? connection->session : NULL;
    if (connection->held != NULL)
        ipb_session_hold_cells(connection->held->session, true);
}

static void
on_end(const GError *why, void *data)
{
    IpbMcpConnection *connection = data;
    if (!connection->is_leaving)
        connection->on_end(why, connection->data);
}

static void
on_log(const char *level, const char *text, void *data)
{
    const IpbMcpShared *shared = ((IpbMcpConnection *) data)->shared;
    if (shared->on_log != NULL)
        shared->on_log(level, text, shared->data);
}

/* --- the default session ---------------------------------------------------------------------- */

static void
on_late_event(const IpbEvent *event, void *data)
{
    IpbMcpConnection *connection = data;
    /* A client without a handshake gets messages only within its requests. */
    if (ipb_mcp_server_revision(connection->server) != NULL)
        ipb_late_log_add(connection->late_log, event);
}

static void
keep_expiry(IpbMcpConnection *connection, const IpbNamedSession *session)
{
    g_free(connection->expiry);
    connection->expiry = g_strdup(session->expiry);
}

/* The client did not name the session that has ended, so no error says so. */
static void
report_expiry(IpbMcpConnection *connection, const IpbNamedSession *session)
{
    g_autofree char *expiry = g_steal_pointer(&connection->expiry);
    if (expiry == NULL)
        return;
    g_autoptr(GPtrArray) notices = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(
        notices,
        g_strdup_printf("[ipybox] the previous session %s; its variables are gone", expiry));
    ipb_session_keep_notices(session->session, notices);
}

/* Without a handshake there is no default: each call that names no session gets a new one. */
static IpbNamedSession *
get_default(void *data, GError **error)
{
    IpbMcpConnection *connection = data;
    IpbNamedSession *session = ipb_named_sessions_add(connection->shared->sessions, error);
    if (session == NULL || connection->is_stateless)
        return session;
    if (connection->session != NULL)
        keep_expiry(connection, connection->session);
    report_expiry(connection, session);
    connection->session = session;
    ipb_named_session_attach(session, connection->server, on_late_event, connection);
    ipb_mcp_tools_set_default(connection->tools, session);
    return session;
}

void
ipb_mcp_connection_forget(IpbMcpConnection *connection, const IpbNamedSession *session)
{
    if (connection->held == session)
        connection->held = NULL;
    if (connection->session != session)
        return;
    keep_expiry(connection, session);
    connection->session = NULL;
    ipb_mcp_tools_set_default(connection->tools, NULL);
}

void
ipb_mcp_connection_detach(IpbMcpConnection *connection)
{
    IpbNamedSession *session = connection->session;
    connection->is_leaving = true;
    if (connection->held != NULL)
        ipb_session_hold_cells(connection->held->session, false);
    connection->held = NULL;
    if (session == NULL)
        return;
    ipb_mcp_connection_forget(connection, session);
    ipb_named_session_detach(session);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpConnection *
ipb_mcp_connection_new(const IpbMcpShared *shared, IpbMessageChannel *channel, bool is_stateless,
                       void (*on_client_end)(const GError *why, void *data), void *data,
                       GError **error)
{
    IpbMcpConnection *connection = g_new0(IpbMcpConnection, 1);
    *connection = (IpbMcpConnection){
        .shared = shared,
        .is_stateless = is_stateless,
        .on_end = on_client_end,
        .data = data,
    };
    connection->server = ipb_mcp_server_new(
        channel, &(IpbMcpServerOptions){
                     .loop = shared->loop,
                     .kept = shared->kept,
                     .is_stateless = is_stateless,
                     .capabilities =
                         shared->extension != NULL ? shared->extension->capabilities : CAPABILITIES,
                     .icons = ICONS,
                     .instructions = make_instructions,
                     .on_client = on_client,
                     .handle = handle,
                     .on_congested = on_congested,
                     .on_end = on_end,
                     .on_log = on_log,
                     .data = connection,
                 });
    connection->late_log =
        ipb_late_log_new(shared->loop, ipb_mcp_server_conversation(connection->server));
    connection->tools = ipb_mcp_tools_new(&(IpbMcpToolsOptions){
        .loop = shared->loop,
        .tools = shared->tools,
        .sessions = shared->sessions,
        .common = shared->common,
        .offers_register = shared->offers_register,
        .keeps_results = shared->keeps_results,
        .get_default = get_default,
        .data = connection,
    });
    if (is_stateless)
        return connection;
    IpbNamedSession *session = get_default(connection, error);
    if (session == NULL) {
        ipb_mcp_connection_free(connection, 0);
        return NULL;
    }
    /* In the background: initialize does not wait for it. */
    ipb_session_start(session->session, /* rehearses= */ false);
    return connection;
}

const char *
ipb_mcp_connection_revision(const IpbMcpConnection *connection)
{
    return ipb_mcp_server_revision(connection->server);
}

void
ipb_mcp_connection_free(IpbMcpConnection *connection, unsigned flush_ms)
{
    if (connection == NULL)
        return;
    ipb_mcp_connection_detach(connection);
    ipb_mcp_tools_free(connection->tools);
    g_free(connection->expiry);
    ipb_late_log_free(connection->late_log);
    ipb_mcp_server_free(connection->server, flush_ms);
    g_free(connection);
}
