/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports of a session; see the header.
 */
#include "serve/rpc/session-ports.h"

#include "base/error.h"
#include "serve/gateway/gateway.h"
#include "serve/tool-server/http.h"
#include "session/environment.h"

#define MAX_GATEWAY_KERNELS 100
#define TOKEN_HINT "it is in the answer to session.open"

struct IpbRpcSessionPorts {
    IpbRuntime *runtime;
    IpbSession *session;
    IpbToolServerHttp *tool_server; /* or NULL */
    IpbGateway *gateway;            /* or NULL */
    char *tool_host, *tool_token, *kernel_token;
    char *gateway_host, *gateway_token;
    IpbSessionOptions kernel; /* of the gateway's kernels */
    unsigned n_closing;
    void (*closed)(void *data);
    void *closed_data;
};

void
ipb_rpc_session_ports_free(IpbRpcSessionPorts *ports)
{
    if (ports == NULL)
        return;
    ipb_gateway_free(ports->gateway);
    ipb_tool_server_http_free(ports->tool_server);
    g_free(ports->tool_host);
    g_free(ports->tool_token);
    g_free(ports->kernel_token);
    g_free(ports->gateway_host);
    g_free(ports->gateway_token);
    g_free(ports);
}

/* --- the tool server ------------------------------------------------------------------------- */

static IpbHttpGate *
make_tool_gate(IpbRpcSessionPorts *ports, GError **error)
{
    ports->tool_token = ipb_http_gate_make_token(error);
    ports->kernel_token = ports->tool_token != NULL ? ipb_http_gate_make_token(error) : NULL;
    if (ports->kernel_token == NULL)
        return NULL;
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_add_token(gate, ports->tool_token, IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_add_token(gate, ports->kernel_token, IPB_HTTP_ROLE_KERNEL);
    ipb_http_gate_set_hint(gate, TOKEN_HINT);
    return gate;
}

static bool
open_tool_server(IpbRpcSessionPorts *ports, const IpbSessionOptions *session,
                 const IpbRpcPortOptions *port, GError **error)
{
    IpbHttpGate *gate = make_tool_gate(ports, error);
    if (gate == NULL)
        return false;
    const char *workspace = ipb_session_workspace(ports->session);
    g_auto(GStrv) application =
        ipb_environment_application(session->env, workspace, session->is_sandboxed, NULL, NULL);
    g_auto(GStrv) env =
        ipb_environment_servers((const char *const *) application, session->server_variables);
    IpbToolServerHttpOptions options = {
        .workspace = workspace,
        .state_dir = ipb_runtime_state_dir(ports->runtime),
        .env = (const char *const *) env,
        .approval = session->approval,
        .approval_rules = session->approval_rules,
        .audit_log = session->audit_log,
        .record = session->record,
        .approval_timeout_ms = session->approval_timeout_ms,
        .connect_timeout_ms = session->connect_timeout_ms,
        .on_log = session->on_log,
        .data = session->data,
    };
    ports->tool_host = g_strdup(port->host);
    ports->tool_server =
        ipb_tool_server_http_new(ipb_runtime_loop(ports->runtime), &options, gate, error);
    return ports->tool_server != NULL &&
           ipb_tool_server_http_listen(ports->tool_server, port->host, port->port, error);
}

/* --- the gateway ----------------------------------------------------------------------------- */

/* Sets where its kernels call tools. If the session is sandboxed, its tool channel listens inside
 * the sandbox, where other kernels cannot reach it. */
static void
set_kernel_tool_server(IpbRpcSessionPorts *ports)
{
    IpbSessionOptions *kernel = &ports->kernel;
    if (ports->tool_server != NULL) {
        bool is_any =
            g_str_equal(ports->tool_host, "0.0.0.0") || g_str_equal(ports->tool_host, "::");
        kernel->tool_server_host = is_any ? "localhost" : ports->tool_host;
        kernel->tool_server_port = ipb_tool_server_http_port(ports->tool_server);
        kernel->tool_server_token = ports->kernel_token;
    } else if (!kernel->is_sandboxed) {
        kernel->tool_server_host = "127.0.0.1";
        kernel->tool_server_port = ipb_session_tool_port(ports->session);
        kernel->tool_server_token = ipb_session_tool_token(ports->session);
    }
}

static bool
open_gateway(IpbRpcSessionPorts *ports, const IpbSessionOptions *session,
             const IpbRpcPortOptions *port, GError **error)
{
    ports->gateway_token = ipb_http_gate_make_token(error);
    if (ports->gateway_token == NULL)
        return false;
    ports->kernel = *session;
    /* The client is asked only about cells of its own. */
    ports->kernel.on_approval = NULL;
    ports->kernel.on_approval_withdrawn = NULL;
    if (session->approval == IPB_APPROVAL_ASK)
        ports->kernel.approval = IPB_APPROVAL_DENY;
    ports->kernel.application_tools = NULL;
    ports->kernel.on_tool_call = NULL;
    ports->kernel.on_tool_cancelled = NULL;
    ports->kernel.saves_images = false;
    ports->kernel.on_event = NULL;
    /* A record is of one session. */
    ports->kernel.record = NULL;
    ports->kernel.other_record = session->record;
    set_kernel_tool_server(ports);
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_add_token(gate, ports->gateway_token, IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_take_query_token(gate);
    ipb_http_gate_set_hint(gate, TOKEN_HINT);
    ports->gateway_host = g_strdup(port->host);
    ports->gateway = ipb_gateway_new(&(IpbGatewayOptions){
        .runtime = ports->runtime,
        .session = &ports->kernel,
        .max_kernels = MAX_GATEWAY_KERNELS,
        .gate = gate,
        .on_log = session->on_log,
        .data = session->data,
    });
    return ipb_gateway_listen(ports->gateway, port->host, port->port, error);
}

/* --- both ------------------------------------------------------------------------------------ */

IpbRpcSessionPorts *
ipb_rpc_session_ports_new(IpbRuntime *runtime, IpbSession *session,
                          const IpbRpcSessionOptions *options, GError **error)
{
    const IpbRpcPortOptions *tool_server = &options->tool_server, *gateway = &options->gateway;
    IpbRpcSessionPorts *ports = g_new0(IpbRpcSessionPorts, 1);
    ports->runtime = runtime;
    ports->session = session;
    if ((tool_server->is_wanted &&
         !open_tool_server(ports, &options->session, tool_server, error)) ||
        (gateway->is_wanted && !open_gateway(ports, &options->session, gateway, error)))
        g_clear_pointer(&ports, ipb_rpc_session_ports_free);
    return ports;
}

static void
describe(IpbJsonWriter *writer, const char *name, const char *host, unsigned port,
         const char *token)
{
    ipb_json_key(writer, name);
    if (host == NULL) {
        ipb_json_write_null(writer);
        return;
    }
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "host", host);
    ipb_json_member_int(writer, "port", port);
    ipb_json_member_string(writer, "token", token);
    ipb_json_end_object(writer);
}

void
ipb_rpc_session_ports_describe(const IpbRpcSessionPorts *ports, IpbJsonWriter *writer)
{
    describe(writer, "tool_server", ports->tool_host,
             ports->tool_server != NULL ? ipb_tool_server_http_port(ports->tool_server) : 0,
             ports->tool_token);
    describe(writer, "gateway", ports->gateway_host,
             ports->gateway != NULL ? ipb_gateway_port(ports->gateway) : 0, ports->gateway_token);
}

static void
on_part_closed(void *data)
{
    IpbRpcSessionPorts *ports = data;
    if (--ports->n_closing == 0)
        ports->closed(ports->closed_data);
}

void
ipb_rpc_session_ports_close(IpbRpcSessionPorts *ports, void (*done)(void *data), void *data)
{
    ports->closed = done;
    ports->closed_data = data;
    ports->n_closing = 1 + (ports->tool_server != NULL) + (ports->gateway != NULL);
    if (ports->gateway != NULL)
        ipb_gateway_close(ports->gateway, on_part_closed, ports);
    if (ports->tool_server != NULL)
        ipb_tool_server_http_close(ports->tool_server, on_part_closed, ports);
    on_part_closed(ports);
}
