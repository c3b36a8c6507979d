/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the client whether a tool call may run. What is not a clear yes is a no.
 *
 * Ownership: a question belongs to its call of the client, which always ends; the session's list only knows it.
 */
#include <string.h>

#include "base/error.h"
#include "serve/rpc/private.h"

/* ipybox itself, as tools of its own have it. */
#define OWN_SERVER "ipybox"

typedef struct {
    IpbRpcSession *session; /* NULL: nobody waits any more */
    uint64_t request;
    int64_t call;
} Question;

void
ipb_rpc_approval_forget(IpbRpcSession *session)
{
    for (guint i = 0; i < session->questions->len; i++)
        ((Question *) g_ptr_array_index(session->questions, i))->session = NULL;
    g_ptr_array_set_size(session->questions, 0);
}

static char *
make_params(const IpbRpcSession *session, const IpbApprovalRequest *request)
{
    const char *id = ipb_rpc_cell_request(session->cells.head->data);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", session->id);
    ipb_json_key(writer, "request");
    ipb_json_write_raw(writer, id, strlen(id));
    ipb_json_member_string(writer, "server_name", request->server_name);
    if (request->server_params != NULL) {
        ipb_json_key(writer, "server_params");
        ipb_json_write_raw(writer, request->server_params, strlen(request->server_params));
    }
    ipb_json_member_string(writer, "tool_name", request->tool_name);
    ipb_json_key(writer, "tool_args");
    ipb_json_write_raw(writer, request->arguments_json, request->arguments_size);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static void
take_answer(const Question *question, const IpbRpcAnswer *answer)
{
    IpbSession *core = question->session->core;
    if (answer->result != NULL) {
        bool accept = ipb_json_get_bool(answer->result, "accept", false);
        ipb_session_respond(core, question->request, accept);
        return;
    }
    const char *message = answer->rpc_error != NULL
                              ? ipb_json_get_string(answer->rpc_error, "message")
                              : answer->failure->message;
    g_autofree char *why = g_strdup_printf("the client could not decide: %s",
                                           message != NULL ? message : "it does not say why");
    ipb_session_refuse(core, question->request, why);
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Question *question = data;
    if (question->session != NULL) {
        g_ptr_array_remove(question->session->questions, question);
        take_answer(question, answer);
    }
    g_free(question);
}

/* Where only shell commands are asked for, which are tools of ours, everything else is allowed, but for what a rule wants to be asked. */
static bool
is_allowed(const IpbRpcSession *session, const IpbApprovalRequest *request)
{
    const IpbRpcCell *cell = g_queue_peek_head((GQueue *) &session->cells);
    IpbApprovalPolicy own;
    return session->asks_for_shell && !request->is_by_rule &&
           !g_str_equal(request->server_name, OWN_SERVER) &&
           (cell == NULL || !ipb_rpc_cell_approval(cell, &own));
}

void
ipb_rpc_approval_ask(const IpbApprovalRequest *request, void *data)
{
    IpbRpcSession *session = data;
    if (is_allowed(session, request)) {
        ipb_session_respond(session->core, request->id, true);
        return;
    }
    if (g_queue_is_empty(&session->cells)) {
        ipb_session_refuse(session->core, request->id,
                           "it needs an approval, and no cell runs for which it could be asked");
        return;
    }
    g_autofree char *params = make_params(session, request);
    Question *question = g_new0(Question, 1);
    *question = (Question){.session = session, .request = request->id};
    g_ptr_array_add(session->questions, question);
    question->call = ipb_rpc_call(session->server->peer, "approval.request", params,
                                  /* timeout_ms= */ 0, on_answer, question);
}

static void
withdraw(IpbRpcServer *server, int64_t call)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "id", call);
    ipb_json_end_object(writer);
    ipb_rpc_server_notify(server, "approval.withdrawn", writer);
    ipb_rpc_cancel(server->peer, call); /* frees the question, from the loop */
}

void
ipb_rpc_approval_withdraw(uint64_t request, void *data)
{
    IpbRpcSession *session = data;
    for (guint i = 0; i < session->questions->len; i++) {
        Question *question = g_ptr_array_index(session->questions, i);
        if (question->request != request)
            continue;
        question->session = NULL;
        g_ptr_array_remove_index(session->questions, i);
        withdraw(session->server, question->call);
        return;
    }
}
