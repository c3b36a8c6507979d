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
};

/* A running call. */
typedef struct {
    IpbToolHost *host;
    IpbHttpRequest *request;
    uint64_t handle;
    IpbToolResultForm form;
} Call;

static void
on_call_ended(GBytes *result, const GError *error, void *data)
{
    g_autofree Call *call = data;
    if (error != NULL)
        ipb_tool_response_send_failure(call->request, error);
    else
        ipb_tool_response_send_result(call->request, result, call->form);
}

static void
on_caller_gone(void *data)
{
    g_autofree Call *call = data;
    ipb_tool_host_cancel(call->host, call->handle);
}

static void
on_run(IpbHttpRequest *request, void *data)
{
    IpbToolChannel *channel = data;
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
    call->host = channel->host;
    call->request = request;
    call->form = wanted.form;
    ipb_http_request_set_gone(request, on_caller_gone, call);
    call->handle = ipb_tool_host_call(
        channel->host, wanted.server_id, wanted.server_name, wanted.server_params, wanted.tool_name,
        wanted.arguments.start, wanted.arguments.size, wanted.form, on_call_ended, call);
}

static const IpbHttpRoute ROUTES[] = {
    {"POST", "/run", IPB_HTTP_BODY_JSON, IPB_HTTP_ROLE_ANY, on_run},
};

static void
make_server(IpbToolChannel *channel, IpbHttpGate *gate)
{
    IpbHttpServerOptions options = IPB_HTTP_SERVER_OPTIONS;
    options.routes = ROUTES;
    options.n_routes = G_N_ELEMENTS(ROUTES);
    options.data = channel;
    options.not_found = "there is only POST /run here: a kernel can do nothing else";
    options.max_body = IPB_TOOL_REQUEST_MAX_SIZE;
    options.timeouts = channel->timeouts;
    ipb_http_server_free(channel->server);
    channel->server = ipb_http_server_new(channel->loop, &options, gate);
}

IpbToolChannel *
ipb_tool_channel_new(IpbLoop *loop, IpbToolHost *host)
{
    IpbToolChannel *channel = g_new0(IpbToolChannel, 1);
    channel->loop = ipb_loop_ref(loop);
    channel->host = host;
    channel->timeouts = IPB_HTTP_SERVER_OPTIONS.timeouts;
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
    ipb_http_server_free(channel->server);
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
ipb_tool_channel_take_listener(IpbToolChannel *channel, int fd, unsigned port, GError **error)
{
    /* Only processes of the session's sandbox can connect there. */
    if (channel->server == NULL) {
        IpbHttpGate *gate = ipb_http_gate_new();
        ipb_http_gate_set_everybody(gate, IPB_HTTP_ROLE_KERNEL);
        make_server(channel, gate);
    }
    return ipb_http_server_take_listener(channel->server, fd, port, error);
}

bool
ipb_tool_channel_listen(IpbToolChannel *channel, IpbToolChannelKnowsFunc knows, void *data,
                        GError **error)
{
    if (ipb_tool_channel_port(channel) != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the tool channel already listens");
        return false;
    }
    g_autofree char *token = ipb_http_gate_make_token(error);
    if (token == NULL)
        return false;
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_add_token(gate, token, IPB_HTTP_ROLE_KERNEL);
    /* Packages made by mcpygen send no token. */
    ipb_http_gate_set_known(gate, IPB_HTTP_ROLE_KERNEL, knows, data);
    ipb_http_gate_set_hint(gate, "the session's token is missing or wrong: the kernel has it in "
                                 "IPYBOX_TOOL_TOKEN; only the kernel and what it started, as long "
                                 "as their parents run, may call without it");
    make_server(channel, gate);
    g_free(channel->token);
    channel->token = g_steal_pointer(&token);
    return ipb_http_server_listen(channel->server, "127.0.0.1", 0, error);
}
