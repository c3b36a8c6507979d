/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol: handshake or envelope, dispatch, cancellation; see the header.
 */
#include "serve/mcp/server.h"

#include <string.h>

#include <ipybox/version.h>

#include "mcp/messages.h"

/* Newest first. The first is offered to a client that asks for an unknown one. */
static const char *const REVISIONS[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
/* Streams of subscriptions/listen. */
#define MAX_SUBSCRIPTIONS 10
#define FORMS_REVISION "2025-06-18"

struct IpbMcpServer {
    IpbMcpServerOptions options;
    IpbConversation *conversation;
    IpbMcpLink link;
    /* NULL: not initialized */
    const char *revision;
    /* Subscription */
    GPtrArray *subscriptions;
    bool is_ending;
};

/* A stream that stays open although nothing is sent on it. */
typedef struct {
    IpbMcpServer *server;
    IpbMcpRequest *request;
    /* Members of "_meta", which name it */
    char *meta;
} Subscription;

/* --- the handshake ---------------------------------------------------------------------------- */

static const char *
negotiate(const char *asked)
{
    for (size_t i = 0; i < G_N_ELEMENTS(REVISIONS); i++)
        if (g_str_equal(asked, REVISIONS[i]))
            return REVISIONS[i];
    return REVISIONS[0];
}

static void
write_server_info(const IpbMcpServer *server, IpbJsonWriter *writer)
{
    ipb_json_key(writer, "serverInfo");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", "ipybox");
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_member_string(writer, "title", "ipybox");
    if (server->options.icons != NULL) {
        ipb_json_key(writer, "icons");
        ipb_json_write_raw(writer, server->options.icons, strlen(server->options.icons));
    }
    ipb_json_end_object(writer);
}

static void
write_instructions(const IpbMcpServer *server, IpbJsonWriter *writer)
{
    g_autofree char *instructions = server->options.instructions(server->options.data);
    if (instructions != NULL)
        ipb_json_member_string(writer, "instructions", instructions);
}

static void
reply_with(IpbMcpRequest *request, IpbJsonWriter *writer)
{
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    ipb_mcp_request_reply(request, text, NULL);
}

static void
initialize(IpbMcpServer *server, IpbMcpRequest *request)
{
    const IpbJson *params = ipb_mcp_request_params(request);
    const IpbJson *capabilities = ipb_json_get(params, "capabilities");
    const char *asked = ipb_json_get_string(params, "protocolVersion");
    if (asked == NULL) {
        ipb_mcp_request_fail(request, IPB_RPC_INVALID_PARAMS,
                             "initialize: params.protocolVersion must be a string", NULL);
        return;
    }
    const char *revision = server->revision = negotiate(asked);
    server->link.offers_forms =
        strcmp(revision, FORMS_REVISION) >= 0 && ipb_mcp_envelope_offers_forms(capabilities);
    if (server->options.on_client != NULL)
        server->options.on_client(ipb_json_get_string(ipb_json_get(params, "clientInfo"), "name"),
                                  server->options.data);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "protocolVersion", revision);
    ipb_json_key(writer, "capabilities");
    ipb_json_write_raw(writer, server->options.capabilities, strlen(server->options.capabilities));
    write_server_info(server, writer);
    write_instructions(server, writer);
    reply_with(request, writer);
}

/* --- 2026-07-28 ------------------------------------------------------------------------------- */

/* The capabilities of older revisions, and the extensions of this one. */
static void
write_capabilities(const IpbMcpServer *server, IpbJsonWriter *writer)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(server->options.capabilities, strlen(server->options.capabilities),
                       &IPB_JSON_LIMITS_SMALL, NULL);
    ipb_json_key(writer, "capabilities");
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (capability, ipb_json_root(doc))
        ipb_json_member_value(writer, ipb_json_name(capability, NULL), capability);
    ipb_json_key(writer, "extensions");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, IPB_MCP_TASKS_EXTENSION);
    ipb_json_write_raw(writer, "{}", 2);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
}

static void
discover(IpbMcpServer *server, IpbMcpRequest *request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "supportedVersions");
    ipb_json_begin_array(writer);
    ipb_json_write_string(writer, IPB_MCP_MODERN_REVISION);
    ipb_json_end_array(writer);
    write_capabilities(server, writer);
    write_instructions(server, writer);
    reply_with(request, writer);
}

static void
end_subscription(void *data)
{
    Subscription *subscription = data;
    ipb_mcp_request_set_cancel(subscription->request, NULL, NULL);
    ipb_mcp_request_reply(subscription->request, "{}", subscription->meta);
    ipb_mcp_request_unref(subscription->request);
    g_free(subscription->meta);
    g_free(subscription);
}

static void
on_subscription_cancelled(void *data)
{
    Subscription *subscription = data;
    g_ptr_array_remove(subscription->server->subscriptions, subscription);
}

/* There is nothing to subscribe to: lists do not change while a client is connected. The stream
 * stays open, as the client expects. */
static void
listen(IpbMcpServer *server, IpbMcpRequest *request, const IpbRpcRequest *rpc)
{
    if (server->subscriptions->len >= MAX_SUBSCRIPTIONS) {
        ipb_mcp_request_fail(request, IPB_RPC_INVALID_PARAMS, "too many subscriptions", NULL);
        return;
    }
    Subscription *subscription = g_new0(Subscription, 1);
    *subscription = (Subscription){
        .server = server,
        .request = ipb_mcp_request_ref(request),
        .meta = g_strdup_printf("\"" IPB_MCP_META_PREFIX "subscriptionId\":%s",
                                ipb_rpc_request_id(rpc)),
    };
    g_autofree char *params =
        g_strdup_printf("{\"notifications\":{},\"_meta\":{%s}}", subscription->meta);
    ipb_mcp_request_notify(request, "notifications/subscriptions/acknowledged", params);
    ipb_mcp_request_set_cancel(request, on_subscription_cancelled, subscription);
    g_ptr_array_add(server->subscriptions, subscription);
}

/* Methods that older revisions have. */
static bool
was_removed(const char *method)
{
    static const char *const REMOVED[] = {
        "ping",         "logging/setLevel",      "initialize", "resources/subscribe",
        "tasks/result", "resources/unsubscribe", "tasks/list"};
    for (size_t i = 0; i < G_N_ELEMENTS(REMOVED); i++)
        if (g_str_equal(method, REMOVED[i]))
            return true;
    return false;
}

/* False: there is no such method. */
static bool
handle_modern(IpbMcpServer *server, IpbMcpRequest *request, const IpbRpcRequest *rpc)
{
    const char *method = ipb_mcp_request_method(request);
    if (was_removed(method))
        return false;
    if (g_str_equal(method, "server/discover"))
        discover(server, request);
    else if (g_str_equal(method, "subscriptions/listen"))
        listen(server, request, rpc);
    else if (g_str_has_prefix(method, "tasks/"))
        ipb_mcp_link_handle_task(&server->link, request);
    else
        return server->options.handle(request, server->options.data);
    return true;
}

/* --- dispatch --------------------------------------------------------------------------------- */

static bool
handle_legacy(IpbMcpServer *server, IpbMcpRequest *request)
{
    const char *method = ipb_mcp_request_method(request);
    if (g_str_equal(method, "initialize"))
        initialize(server, request);
    else if (g_str_equal(method, "ping"))
        ipb_mcp_request_reply(request, "{}", NULL);
    else if (server->revision == NULL)
        ipb_mcp_request_fail(request, IPB_RPC_INVALID_REQUEST, "initialize must come first", NULL);
    else
        return server->options.handle(request, server->options.data);
    return true;
}

static void
fail_unknown(IpbMcpRequest *request)
{
    g_autofree char *message =
        g_strdup_printf("no such method: %s", ipb_mcp_request_method(request));
    ipb_mcp_request_fail(request, IPB_RPC_METHOD_NOT_FOUND, message, NULL);
}

static void
on_request(IpbRpcRequest *rpc, void *data)
{
    IpbMcpServer *server = data;
    const IpbJson *params = ipb_rpc_request_params(rpc);
    bool is_modern =
        server->options.is_stateless || (ipb_mcp_envelope_is_there(params) &&
                                         !g_str_equal(ipb_rpc_request_method(rpc), "initialize"));
    IpbMcpEnvelope envelope;
    bool continues = false;
    g_auto(IpbMcpFault) fault = {0};
    g_autoptr(IpbMcpRequest) request = NULL;
    if (!is_modern || ipb_mcp_envelope_read(params, &envelope, &fault))
        request = ipb_mcp_request_begin(&server->link, rpc, is_modern ? &envelope : NULL,
                                        &continues, &fault);
    if (request == NULL)
        ipb_rpc_request_fail(rpc, fault.code, fault.message, fault.data);
    else if (!continues &&
             !(is_modern ? handle_modern(server, request, rpc) : handle_legacy(server, request)))
        fail_unknown(request);
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
        ipb_mcp_link_cancel(&server->link, text);
}

static void
on_invalid(const GError *why, void *data)
{
    const IpbMcpServer *server = data;
    g_autofree char *line = g_strdup_printf("the client sent no valid message: %s", why->message);
    if (server->options.on_log != NULL)
        server->options.on_log("warning", line, server->options.data);
}

/* When the client reads slowly, the running cell continues to its end and the next ones wait. */
static void
on_congested(bool is_congested, void *data)
{
    const IpbMcpServer *server = data;
    if (!server->is_ending)
        server->options.on_congested(is_congested, server->options.data);
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
    const IpbMcpServer *server = data;
    server->options.on_end(why, server->options.data);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpServer *
ipb_mcp_server_new(IpbMessageChannel *channel, const IpbMcpServerOptions *options)
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
    server->options = *options;
    server->conversation = ipb_conversation_new(options->loop, channel, &FUNCS, server);
    server->subscriptions = g_ptr_array_new_with_free_func(end_subscription);
    ipb_mcp_link_init(&server->link, options->loop, server->conversation, options->kept);
    return server;
}

const char *
ipb_mcp_server_revision(const IpbMcpServer *server)
{
    return server->revision;
}

IpbConversation *
ipb_mcp_server_conversation(const IpbMcpServer *server)
{
    return server->conversation;
}

uint64_t
ipb_mcp_server_ask(IpbMcpServer *server, const char *method, const char *params,
                   IpbMcpAnswerFunc func, void *data)
{
    if (!server->link.offers_forms)
        return 0;
    return ipb_mcp_questions_ask(server->link.questions, NULL, method, params, func, data);
}

void
ipb_mcp_server_withdraw(IpbMcpServer *server, uint64_t question)
{
    ipb_mcp_questions_withdraw(server->link.questions, question);
}

void
ipb_mcp_server_free(IpbMcpServer *server, unsigned flush_ms)
{
    if (server == NULL)
        return;
    server->is_ending = true;
    g_ptr_array_unref(server->subscriptions);
    ipb_conversation_finish(server->conversation, flush_ms);
    ipb_mcp_link_clear(&server->link);
    ipb_conversation_free(server->conversation);
    g_free(server);
}
