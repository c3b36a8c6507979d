/* SPDX-License-Identifier: Apache-2.0
 *
 * session.register and session.install: what a session does for its cells. The client is the application: a server that it
 * registers runs where its parameters say, also beside a sandbox.
 */
#include "base/error.h"
#include "serve/rpc/private.h"

/* --- MCP servers ------------------------------------------------------------------------------- */

void
ipb_rpc_packages_reply_tools(IpbRpcWork *work, const char *const *modules)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "tools");
    ipb_json_begin_array(writer);
    for (; *modules != NULL; modules++)
        ipb_json_write_string(writer, *modules);
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    ipb_rpc_work_reply(work, writer);
}

static void
on_registered(const char *const *modules, const GError *error, void *data)
{
    if (error != NULL)
        ipb_rpc_work_fail(data, error);
    else
        ipb_rpc_packages_reply_tools(data, modules);
}

static void
cancel_register(IpbRpcWork *work)
{
    ipb_session_cancel_register(work->session->core, work->number);
}

void
ipb_rpc_session_register(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSession *session = ipb_rpc_session_find(server, params);
    IpbRegisterOptions options = {
        .name = ipb_rpc_params_need_string(params, "server_name"),
        .params = ipb_rpc_params_need_object(params, "server_params"),
        .root_dir = ipb_rpc_params_string(params, "root_dir"),
        .async_api = ipb_rpc_params_bool(params, "async_api", false),
    };
    if (!ipb_rpc_server_check(request, params))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcWork *work = ipb_rpc_work_new(server, session, request);
    work->cancel = cancel_register;
    work->number = ipb_session_register(session->core, &options, on_registered, work, &error);
    if (work->number == 0)
        ipb_rpc_work_fail(work, error);
}

/* --- packages ---------------------------------------------------------------------------------- */

/* data of its work is the id of the request if the client wants the lines as they come. */
static void
on_install_line(const char *line, void *data)
{
    IpbRpcWork *work = data;
    if (work->data == NULL)
        return;
    g_autofree char *text = g_strconcat(line, "\n", NULL);
    IpbJsonWriter *writer = ipb_rpc_server_begin_event(ipb_rpc_request_id(work->request), "text");
    ipb_json_member_string(writer, "stream", "stdout");
    ipb_json_member_string(writer, "text", text);
    ipb_rpc_server_send_event(work->server, writer);
}

static void
on_installed(const char *output, const GError *error, void *data)
{
    if (error != NULL) {
        ipb_rpc_work_fail(data, error);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "output", output);
    ipb_json_end_object(writer);
    ipb_rpc_work_reply(data, writer);
}

static void
cancel_install(IpbRpcWork *work)
{
    ipb_session_cancel_install(work->session->core);
}

void
ipb_rpc_session_install(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSession *session = ipb_rpc_session_find(server, params);
    const char *package = ipb_rpc_params_need_string(params, "package");
    bool has_events = ipb_rpc_params_bool(params, "events", false);
    if (!ipb_rpc_server_check(request, params))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcWork *work = ipb_rpc_work_new(server, session, request);
    work->cancel = cancel_install;
    work->data = has_events ? work : NULL;
    if (!ipb_session_install(session->core, package, on_install_line, on_installed, work, &error))
        ipb_rpc_work_fail(work, error);
}
