/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool channel: POST /run on our HTTP server, in the role of a kernel. See the header and
 * docs/internals/tool-channel.md.
 */
#include "tools/tool-channel.h"

#include "base/error.h"
#include "http/server.h"
#include "tools/tool-request.h"
#include "tools/tool-response.h"

struct IpbToolChannel {
    IpbLoop *loop;
    IpbToolHost *host;
    IpbToolRelay *relay; /* NULL: calls go to the host */
    IpbHttpServer *server;
    IpbHttpTimeouts timeouts;
    char *token; /* or NULL */
    void *door;  /* of the sandbox, or NULL */
    void (*leave_door)(IpbToolChannel *channel, void *door);
    GPtrArray *calls; /* Call */
};

/* A running call. */
typedef struct {
    IpbToolChannel *channel;
    IpbHttpRequest *request;
    uint64_t handle;
    IpbToolResultForm form;
} Call;

static void
on_call_ended(GBytes *result, const GError *error, void *data)
{
    g_autofree Call *call = data;
    g_ptr_array_remove_fast(call->channel->calls, call);
    if (error != NULL)
        ipb_tool_response_send_failure(call->request, error);
    else
        ipb_tool_response_send_result(call->request, result, call->form);
}

static void
on_caller_gone(void *data)
{
    g_autofree Call *call = data;
    g_ptr_array_remove_fast(call->channel->calls, call);
    ipb_tool_host_cancel(call->channel->host, call->handle);
}

void
ipb_tool_channel_run(IpbToolChannel *channel, IpbHttpRequest *request)
{
    g_auto(IpbToolRequest) wanted = {0};
    g_autoptr(GError) error = NULL;
    IpbSpan body = ipb_http_request_body(request);
    if (!ipb_tool_request_parse(body.start, body.size, &wanted, &error)) {
        ipb_tool_response_refuse(request, error);
        return;
    }
    if (channel->relay != NULL) {
        ipb_tool_relay_run(channel->relay, request);
        return;
    }
    Call *call = g_new0(Call, 1);
    call->channel = channel;
    call->request = request;
    call->form = wanted.form;
    g_ptr_array_add(channel->calls, call);
    ipb_http_request_set_gone(request, on_caller_gone, call);
    call->handle = ipb_tool_host_call(
        channel->host, wanted.server_id, wanted.server_name, wanted.server_params, wanted.tool_name,
        wanted.arguments.start, wanted.arguments.size, wanted.form, on_call_ended, call);
}

static void
on_run(IpbHttpRequest *request, void *data)
{
    ipb_tool_channel_run(data, request);
}

static const IpbHttpRoute ROUTES[] = {
    {"POST", "/run", IPB_HTTP_BODY_JSON, IPB_HTTP_ROLE_ANY, on_run},
};

IpbHttpServer *
ipb_tool_channel_make_server(IpbLoop *loop, const IpbHttpRoute *routes, size_t n_routes, void *data,
                             IpbHttpGate *gate)
{
    IpbHttpServerOptions options = IPB_HTTP_SERVER_OPTIONS;
    options.routes = routes;
    options.n_routes = n_routes;
    options.data = data;
    options.not_found = "there is only POST /run here: a kernel can do nothing else";
    options.max_body = IPB_TOOL_REQUEST_MAX_SIZE;
    return ipb_http_server_new(loop, &options, gate);
}

IpbToolChannel *
ipb_tool_channel_new(IpbLoop *loop, IpbToolHost *host)
{
    IpbToolChannel *channel = g_new0(IpbToolChannel, 1);
    channel->loop = ipb_loop_ref(loop);
    channel->host = host;
    channel->timeouts = IPB_HTTP_SERVER_OPTIONS.timeouts;
    channel->calls = g_ptr_array_new();
    return channel;
}

void
ipb_tool_channel_set_relay(IpbToolChannel *channel, IpbToolRelay *relay)
{
    channel->relay = relay;
}

void
ipb_tool_channel_free(IpbToolChannel *channel)
{
    if (channel == NULL)
        return;
    if (channel->door != NULL)
        channel->leave_door(channel, channel->door);
    ipb_http_server_free(channel->server);
    g_ptr_array_unref(channel->calls);
    ipb_loop_unref(channel->loop);
    g_free(channel->token);
    g_free(channel);
}

void
ipb_tool_channel_set_timeouts(IpbToolChannel *channel, const IpbHttpTimeouts *timeouts)
{
    channel->timeouts = *timeouts;
    if (channel->server != NULL)
        ipb_http_server_set_timeouts(channel->server, timeouts);
}

unsigned
ipb_tool_channel_port(const IpbToolChannel *channel)
{
    return channel->server != NULL ? ipb_http_server_port(channel->server) : 0;
}

const char *
ipb_tool_channel_token(const IpbToolChannel *channel)
{
    return channel->token != NULL ? channel->token : "";
}

bool
ipb_tool_channel_make_token(IpbToolChannel *channel, GError **error)
{
    if (channel->token == NULL)
        channel->token = ipb_http_gate_make_token(error);
    return channel->token != NULL;
}

/* The server of the door outlives the calls of this channel. */
static void
end_calls(IpbToolChannel *channel)
{
    while (channel->calls->len > 0) {
        g_autofree Call *call = g_ptr_array_steal_index(channel->calls, 0);
        ipb_tool_host_cancel(channel->host, call->handle);
        ipb_http_request_refuse_error(call->request, 503, "the session was closed", NULL);
    }
}

void
ipb_tool_channel_enter_door(IpbToolChannel *channel, void *door,
                            void (*leave)(IpbToolChannel *channel, void *door))
{
    channel->door = door;
    channel->leave_door = leave;
}

void
ipb_tool_channel_leave_door(IpbToolChannel *channel)
{
    channel->door = NULL;
    end_calls(channel);
}

bool
ipb_tool_channel_listen(IpbToolChannel *channel, IpbToolChannelKnowsFunc knows, void *data,
                        GError **error)
{
    if (ipb_tool_channel_port(channel) != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the tool channel already listens");
        return false;
    }
    if (!ipb_tool_channel_make_token(channel, error))
        return false;
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_add_token(gate, channel->token, IPB_HTTP_ROLE_KERNEL);
    /* Packages made by mcpygen send no token. */
    ipb_http_gate_set_known(gate, IPB_HTTP_ROLE_KERNEL, knows, data);
    ipb_http_gate_set_hint(gate, "the session's token is missing or wrong: the kernel has it in "
                                 "IPYBOX_TOOL_TOKEN; only the kernel and what it started, as long "
                                 "as their parents run, may call without it");
    channel->server =
        ipb_tool_channel_make_server(channel->loop, ROUTES, G_N_ELEMENTS(ROUTES), channel, gate);
    ipb_http_server_set_timeouts(channel->server, &channel->timeouts);
    return ipb_http_server_listen(channel->server, "127.0.0.1", 0, error);
}
