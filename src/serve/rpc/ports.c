/* SPDX-License-Identifier: Apache-2.0
 *
 * The ports that a session may have: a tool server and a Jupyter gateway. Both want tokens, which the client gets and kernels do not;
 * kernels of the gateway call tools in the kernel's role, at the tool server if there is one, else where the session's own kernel does.
 *
 * Ownership: the session owns this, and what the gateway's kernels are made with lives in the session's options.
 */

#include "base/error.h"
#include "serve/gateway/gateway.h"
#include "serve/rpc/private.h"
#include "serve/tool-server/http.h"
#include "session/environment.h"

#define MAX_GATEWAY_KERNELS 100

struct IpbRpcPorts {
    IpbRpcSession *session;
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
ipb_rpc_ports_free(IpbRpcPorts *ports)
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

static void
on_log(const char *level, const char *text, void *data)
{
    const IpbRpcSession *session = data;
    ipb_rpc_server_log(session->server, level, text, session->id);
}

/* --- the tool server --------------------------------------------------------------------------- */

static IpbHttpGate *
make_tool_gate(IpbRpcPorts *ports, GError **error)
{
    ports->tool_token = ipb_http_gate_make_token(error);
    ports->kernel_token = ports->tool_token != NULL ? ipb_http_gate_make_token(error) : NULL;
    if (ports->kernel_token == NULL)
        return NULL;
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_add_token(gate, ports->tool_token, IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_add_token(gate, ports->kernel_token, IPB_HTTP_ROLE_KERNEL);
    ipb_http_gate_set_hint(gate, "it is in the answer to session.open");
    return gate;
}

static bool
open_tool_server(IpbRpcPorts *ports, const IpbSessionOptions *core, const IpbRpcPort *port,
                 GError **error)
{
    IpbHttpGate *gate = make_tool_gate(ports, error);
    if (gate == NULL)
        return false;
    const char *workspace = ipb_session_workspace(ports->session->core);
    g_auto(GStrv) application = ipb_environment_application(core->env, workspace, NULL, NULL);
    g_auto(GStrv) env =
        ipb_environment_servers((const char *const *) application, core->server_variables);
    IpbToolServerHttpOptions options = {
        .workspace = workspace,
        .state_dir = ipb_runtime_state_dir(ports->session->runtime),
        .env = (const char *const *) env,
        .approval = core->approval,
        .approval_rules = core->approval_rules,
        .audit_log = core->audit_log,
        .approval_timeout_ms = core->approval_timeout_ms,
        .connect_timeout_ms = core->connect_timeout_ms,
        .on_log = on_log,
        .data = ports->session,
    };
    ports->tool_host = g_strdup(port->host);
    ports->tool_server =
        ipb_tool_server_http_new(ports->session->server->loop, &options, gate, error);
    return ports->tool_server != NULL &&
           ipb_tool_server_http_listen(ports->tool_server, port->host, port->port, error);
}

/* --- the gateway ------------------------------------------------------------------------------- */

/* Where its kernels call tools. A sandboxed session's own kernel does so within its sandbox, where no other can. */
static void
name_tools(IpbRpcPorts *ports)
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
        kernel->tool_server_port = ipb_session_tool_port(ports->session->core);
        kernel->tool_server_token = ipb_session_tool_token(ports->session->core);
    }
}

static bool
open_gateway(IpbRpcPorts *ports, const IpbSessionOptions *core, const IpbRpcPort *port,
             GError **error)
{
    ports->gateway_token = ipb_http_gate_make_token(error);
    if (ports->gateway_token == NULL)
        return false;
    ports->kernel = *core;
    ports->kernel.approval =
        core->approval == IPB_APPROVAL_ALLOW ? IPB_APPROVAL_ALLOW : IPB_APPROVAL_DENY;
    ports->kernel.on_approval = NULL; /* the client is asked for cells that it gave */
    ports->kernel.on_approval_withdrawn = NULL;
    ports->kernel.saves_no_images = true;
    ports->kernel.on_log = on_log;
    ports->kernel.data = ports->session;
    name_tools(ports);
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_add_token(gate, ports->gateway_token, IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_take_query_token(gate);
    ipb_http_gate_set_hint(gate, "it is in the answer to session.open");
    ports->gateway_host = g_strdup(port->host);
    ports->gateway = ipb_gateway_new(&(IpbGatewayOptions){
        .runtime = ports->session->runtime,
        .session = &ports->kernel,
        .max_kernels = MAX_GATEWAY_KERNELS,
        .gate = gate,
        .on_log = on_log,
        .data = ports->session,
    });
    return ipb_gateway_listen(ports->gateway, port->host, port->port, error);
}

/* --- both -------------------------------------------------------------------------------------- */

IpbRpcPorts *
ipb_rpc_ports_open(IpbRpcSession *session, const IpbSessionOptions *core,
                   const IpbRpcPort *tool_server, const IpbRpcPort *gateway, GError **error)
{
    IpbRpcPorts *ports = g_new0(IpbRpcPorts, 1);
    ports->session = session;
    if ((tool_server->is_wanted && !open_tool_server(ports, core, tool_server, error)) ||
        (gateway->is_wanted && !open_gateway(ports, core, gateway, error)))
        g_clear_pointer(&ports, ipb_rpc_ports_free);
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
ipb_rpc_ports_describe(const IpbRpcPorts *ports, IpbJsonWriter *writer)
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
    IpbRpcPorts *ports = data;
    if (--ports->n_closing == 0)
        ports->closed(ports->closed_data);
}

void
ipb_rpc_ports_close(IpbRpcPorts *ports, void (*done)(void *data), void *data)
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
