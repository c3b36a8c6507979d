/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol side of the MCP server: handshake, dispatch, cancellation, progress, approvals. What
 * the tools do is in tools.c.
 */
#include "serve/mcp/server.h"

#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "mcp/messages.h"
#include "serve/conversation.h"
#include "serve/mcp/elicitation.h"
#include "serve/mcp/late-log.h"
#include "serve/mcp/resources.h"
#include "serve/mcp/tool-listing.h"
#include "serve/mcp/tools.h"

/* Newest first. The first is offered to a client that asks for an unknown one. */
static const char *const REVISIONS[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

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

struct IpbMcpServer {
    IpbMcpServerOptions options;
    IpbSession *session;
    IpbConversation *conversation;
    /* The conversation's */
    IpbRpcPeer *peer;
    IpbMcpTools *tools;
    IpbMcpResources *resources;
    IpbElicitation *elicitation;
    IpbLateLog *late_log;
    /* NULL: not initialized */
    const char *revision;
    bool is_ending;
};

static void
log_text(IpbMcpServer *server, const char *level, const char *text)
{
    if (server->options.on_log != NULL)
        server->options.on_log(level, text, server->options.data);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void
reply_with(IpbRpcRequest *request, IpbJsonWriter *writer)
{
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    ipb_rpc_request_reply(request, text, size);
}

static const char *
negotiate(const char *asked)
{
    for (size_t i = 0; asked != NULL && i < G_N_ELEMENTS(REVISIONS); i++)
        if (g_str_equal(asked, REVISIONS[i]))
            return REVISIONS[i];
    return REVISIONS[0];
}

/* They name only tools that are offered. */
static char *
make_instructions(const IpbMcpServer *server)
{
    g_autofree char *packages =
        ipb_tool_listing_instructions(server->session, server->options.servers);
    bool offers_register = ipb_mcp_tools_offers(server->tools, "register_mcp_server");
    g_autoptr(GString) text = g_string_new(INSTRUCTIONS);
    if (offers_register)
        g_string_append_printf(text, " %s", REGISTER_INSTRUCTIONS);
    if (packages != NULL)
        g_string_append_printf(text, " %s", packages);
    if (packages == NULL && !offers_register)
        return g_string_free(g_steal_pointer(&text), FALSE);
    if (ipb_mcp_tools_offers(server->tools, "describe_tools"))
        g_string_append_printf(text, " %s", DESCRIBE_INSTRUCTIONS);
    g_string_append_printf(text, " %s", SEARCH_INSTRUCTIONS);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static void
handle_initialize(IpbMcpServer *server, IpbRpcRequest *request)
{
    const IpbJson *params = ipb_rpc_request_params(request);
    const char *asked = ipb_json_get_string(params, "protocolVersion");
    if (asked == NULL) {
        ipb_rpc_request_fail(request, IPB_RPC_INVALID_PARAMS,
                             "initialize: params.protocolVersion must be a string", NULL);
        return;
    }
    const char *revision = server->revision = negotiate(asked);
    ipb_elicitation_set_client(server->elicitation, revision, ipb_json_get(params, "capabilities"));
    ipb_mcp_tools_set_client(server->tools,
                             ipb_json_get_string(ipb_json_get(params, "clientInfo"), "name"));
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "protocolVersion", revision);
    ipb_json_key(writer, "capabilities");
    ipb_json_write_raw(writer, CAPABILITIES, strlen(CAPABILITIES));
    ipb_json_key(writer, "serverInfo");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", "ipybox");
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_member_string(writer, "title", "ipybox");
    ipb_json_key(writer, "icons");
    ipb_json_write_raw(writer, ICONS, strlen(ICONS));
    ipb_json_end_object(writer);
    g_autofree char *instructions = make_instructions(server);
    ipb_json_member_string(writer, "instructions", instructions);
    ipb_json_end_object(writer);
    reply_with(request, writer);
}

static void
handle_list(IpbMcpServer *server, IpbRpcRequest *request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "tools");
    ipb_mcp_tools_describe(server->tools, writer);
    ipb_json_end_object(writer);
    reply_with(request, writer);
}

static void
handle_set_level(IpbMcpServer *server, IpbRpcRequest *request)
{
    const char *level = ipb_json_get_string(ipb_rpc_request_params(request), "level");
    if (ipb_late_log_set_level(server->late_log, level))
        ipb_rpc_request_reply(request, "{}", 2);
    else
        ipb_rpc_request_fail(request, IPB_RPC_INVALID_PARAMS,
                             "logging/setLevel: params.level must be one of debug, info, notice, "
                             "warning, error, critical, alert, emergency",
                             NULL);
}

static void
on_request(IpbRpcRequest *request, void *data)
{
    IpbMcpServer *server = data;
    const char *method = ipb_rpc_request_method(request);
    if (g_str_equal(method, "initialize")) {
        handle_initialize(server, request);
    } else if (g_str_equal(method, "ping")) {
        ipb_rpc_request_reply(request, "{}", 2);
    } else if (server->revision == NULL) {
        ipb_rpc_request_fail(request, IPB_RPC_INVALID_REQUEST, "initialize must come first", NULL);
    } else if (g_str_equal(method, "tools/list")) {
        handle_list(server, request);
    } else if (g_str_equal(method, "tools/call")) {
        ipb_mcp_tools_call(server->tools, request);
    } else if (g_str_equal(method, "logging/setLevel")) {
        handle_set_level(server, request);
    } else if (g_str_equal(method, "resources/list")) {
        ipb_mcp_resources_list(server->resources, request);
    } else if (g_str_equal(method, "resources/read")) {
        ipb_mcp_resources_read(server->resources, request);
    } else if (g_str_equal(method, "resources/templates/list")) {
        static const char NONE[] = "{\"resourceTemplates\":[]}";
        ipb_rpc_request_reply(request, NONE, strlen(NONE));
    } else {
        g_autofree char *message = g_strdup_printf("no such method: %s", method);
        ipb_rpc_request_fail(request, IPB_RPC_METHOD_NOT_FOUND, message, NULL);
    }
}

static void
on_notification(const char *method, const IpbJson *params, void *data)
{
    IpbMcpServer *server = data;
    const IpbJson *id = ipb_json_get(params, "requestId");
    if (!g_str_equal(method, "notifications/cancelled") || id == NULL)
        return;
    IpbSpan raw = ipb_json_raw(id);
    g_autofree char *text = g_strndup(raw.start, raw.size);
    if (!ipb_conversation_drop(server->conversation, text))
        ipb_mcp_tools_cancel(server->tools, text);
}

static void
on_invalid(const GError *why, void *data)
{
    g_autofree char *line = g_strdup_printf("the client sent no valid message: %s", why->message);
    log_text(data, "warning", line);
}

static void
on_progress(const IpbRpcRequest *request, const char *token_json, int64_t progress,
            const char *message, void *data)
{
    IpbMcpServer *server = data;
    if (ipb_conversation_is_congested(server->conversation))
        return; /* the response will have all of it */
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "progressToken");
    ipb_json_write_raw(writer, token_json, strlen(token_json));
    ipb_json_member_int(writer, "progress", progress);
    ipb_json_member_string(writer, "message", message);
    ipb_json_end_object(writer);
    g_autofree char *params = ipb_json_writer_finish(writer, NULL);
    ipb_rpc_peer_notify_within(server->peer, ipb_rpc_request_id(request), "notifications/progress",
                               params);
}

/* --- the conversation ------------------------------------------------------------------------- */

/* When the client reads slowly, the running cell continues to its end and the next ones wait. */
static void
on_congested(bool is_congested, void *data)
{
    IpbMcpServer *server = data;
    if (!server->is_ending)
        ipb_session_hold_cells(server->session, is_congested);
}

/* Revision 2025-03-26 has them. */
static bool
takes_batches(void *data)
{
    const IpbMcpServer *server = data;
    return server->revision != NULL && ipb_mcp_message_has_batches(server->revision);
}

static void
on_end(const GError *why, void *data)
{
    IpbMcpServer *server = data;
    server->options.on_end(why, server->options.data);
}

/* --- the session ------------------------------------------------------------------------------ */

static void
on_approval(const IpbApprovalRequest *approval, void *data)
{
    IpbMcpServer *server = data;
    ipb_elicitation_ask(server->elicitation, ipb_mcp_tools_running_request(server->tools),
                        approval);
}

static void
on_approval_withdrawn(uint64_t approval, void *data)
{
    IpbMcpServer *server = data;
    ipb_elicitation_withdraw(server->elicitation, approval);
}

static void
on_session_log(const char *level, const char *text, void *data)
{
    log_text(data, level, text);
}

static void
on_late_event(const IpbEvent *event, void *data)
{
    IpbMcpServer *server = data;
    if (!server->is_ending)
        ipb_late_log_add(server->late_log, event);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpServer *
ipb_mcp_server_new(IpbMessageChannel *channel, const IpbMcpServerOptions *options, GError **error)
{
    static const IpbConversationFuncs FUNCS = {
        .on_request = on_request,
        .on_notification = on_notification,
        .on_invalid = on_invalid,
        .takes_batches = takes_batches,
        .on_congested = on_congested,
        .on_end = on_end,
    };
    IpbMcpServer *server = g_new0(IpbMcpServer, 1);
    IpbLoop *loop = ipb_runtime_loop(options->runtime);
    IpbSessionOptions session = options->session;
    session.on_approval = on_approval;
    session.on_approval_withdrawn = on_approval_withdrawn;
    session.on_log = on_session_log;
    session.data = server;
    server->options = *options;
    server->session = ipb_session_new(options->runtime, &session, error);
    if (server->session == NULL) {
        channel->ops->free(channel);
        g_free(server);
        return NULL;
    }
    server->conversation = ipb_conversation_new(loop, channel, &FUNCS, server);
    server->peer = ipb_conversation_peer(server->conversation);
    server->elicitation = ipb_elicitation_new(server->peer, server->session);
    server->late_log = ipb_late_log_new(loop, server->conversation);
    ipb_session_watch_late_output(server->session, on_late_event, server);
    server->resources = ipb_mcp_resources_new(server->session);
    server->tools =
        ipb_mcp_tools_new(loop, server->session, server->elicitation, options->offers_register,
                          &options->tools, on_progress, server);
    if (options->keeps_results)
        ipb_mcp_tools_keep_results(server->tools);
    return server;
}

IpbSession *
ipb_mcp_server_session(IpbMcpServer *server)
{
    return server->session;
}

const char *
ipb_mcp_server_revision(const IpbMcpServer *server)
{
    return server->revision;
}

void
ipb_mcp_server_close(IpbMcpServer *server, void (*done)(void *data), void *data)
{
    ipb_session_close(server->session, done, data);
}

void
ipb_mcp_server_free(IpbMcpServer *server, unsigned flush_ms)
{
    if (server == NULL)
        return;
    server->is_ending = true;
    ipb_session_free(server->session);
    ipb_mcp_tools_free(server->tools); /* answers requests in flight */
    ipb_mcp_resources_free(server->resources);
    ipb_elicitation_free(server->elicitation);
    ipb_late_log_free(server->late_log);
    ipb_conversation_finish(server->conversation, flush_ms);
    ipb_conversation_free(server->conversation);
    g_free(server);
}
