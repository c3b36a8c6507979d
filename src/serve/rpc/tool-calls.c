/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the client's tools; see the header.
 */
#include "serve/rpc/tool-calls.h"

#include <string.h>

#include "base/error.h"

static void
on_answer(uint64_t id, const IpbRpcAnswer *answer, void *data)
{
    IpbSession *session = data;
    if (answer->result != NULL) {
        ipb_session_answer_tool(session, id, answer->result, answer->document, NULL);
        return;
    }
    g_autoptr(GError) error = NULL;
    if (answer->rpc_error != NULL) {
        const char *message = ipb_json_get_string(answer->rpc_error, "message");
        error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
                                    message != NULL ? message : "it failed and does not say why");
    } else {
        error =
            g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
                        "the application's answer cannot be used: %s", answer->failure->message);
    }
    ipb_session_answer_tool(session, id, NULL, NULL, error);
}

IpbRpcClientRequests *
ipb_rpc_tool_calls_new(IpbRpcClient *client, IpbSession *session)
{
    static const IpbRpcClientRequestKind kind = {
        .method = "tool.call",
        .cancelled = "tool.cancelled",
        .on_answer = on_answer,
    };
    return ipb_rpc_client_requests_new(client, &kind, session);
}

void
ipb_rpc_tool_calls_run(IpbRpcClientRequests *calls, const IpbApplicationCall *call,
                       const char *session_id, const char *cell_request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", session_id);
    if (cell_request != NULL) {
        ipb_json_key(writer, "request");
        ipb_json_write_raw(writer, cell_request, strlen(cell_request));
    }
    ipb_json_member_string(writer, "server_name", call->server_name);
    ipb_json_member_string(writer, "tool_name", call->tool_name);
    ipb_json_key(writer, "tool_args");
    ipb_json_write_raw(writer, call->arguments_json, call->arguments_size);
    ipb_json_end_object(writer);
    ipb_rpc_client_requests_send(calls, call->id, ipb_json_writer_finish(writer, NULL));
}
