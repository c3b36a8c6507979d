/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about tool calls; see the header.
 */
#include "serve/rpc/questions.h"

#include <string.h>

static void
on_answer(uint64_t request, const IpbRpcAnswer *answer, void *data)
{
    IpbSession *session = data;
    if (answer->result != NULL) {
        ipb_session_respond(session, request, ipb_json_get_bool(answer->result, "accept", false));
        return;
    }
    const char *message = answer->rpc_error != NULL
                              ? ipb_json_get_string(answer->rpc_error, "message")
                              : answer->failure->message;
    g_autofree char *why = g_strdup_printf("the client could not decide: %s",
                                           message != NULL ? message : "it does not say why");
    ipb_session_refuse(session, request, why);
}

IpbRpcClientRequests *
ipb_rpc_questions_new(IpbRpcClient *client, IpbSession *session)
{
    static const IpbRpcClientRequestKind kind = {
        .method = "approval.request",
        .cancelled = "approval.withdrawn",
        .on_answer = on_answer,
    };
    return ipb_rpc_client_requests_new(client, &kind, session);
}

void
ipb_rpc_questions_ask(IpbRpcClientRequests *questions, const IpbApprovalRequest *request,
                      const char *session_id, const char *cell_request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", session_id);
    ipb_json_key(writer, "request");
    ipb_json_write_raw(writer, cell_request, strlen(cell_request));
    ipb_json_member_string(writer, "server_name", request->server_name);
    if (request->server_params != NULL) {
        ipb_json_key(writer, "server_params");
        ipb_json_write_raw(writer, request->server_params, strlen(request->server_params));
    }
    ipb_json_member_string(writer, "tool_name", request->tool_name);
    ipb_json_key(writer, "tool_args");
    ipb_json_write_raw(writer, request->arguments_json, request->arguments_size);
    ipb_json_end_object(writer);
    ipb_rpc_client_requests_send(questions, request->id, ipb_json_writer_finish(writer, NULL));
}
