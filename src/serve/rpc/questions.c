/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about tool calls; see the header.
 */
#include "serve/rpc/questions.h"

#include <string.h>

struct IpbRpcQuestions {
    IpbRpcClient *client;
    IpbSession *session;
    const char *session_id;
    GPtrArray *open; /* Question, the oldest first; borrowed */
    bool holds;
};

typedef struct {
    IpbRpcQuestions *questions; /* NULL: its answer is ignored */
    uint64_t request;
    char *params; /* of a question that is held; NULL: it was sent */
    int64_t call; /* of the client, if it was sent */
} Question;

static void
free_question(Question *question)
{
    g_free(question->params);
    g_free(question);
}

IpbRpcQuestions *
ipb_rpc_questions_new(IpbRpcClient *client, IpbSession *session, const char *session_id)
{
    IpbRpcQuestions *questions = g_new0(IpbRpcQuestions, 1);
    questions->client = client;
    questions->session = session;
    questions->session_id = session_id;
    questions->open = g_ptr_array_new();
    return questions;
}

void
ipb_rpc_questions_free(IpbRpcQuestions *questions)
{
    if (questions == NULL)
        return;
    for (guint i = 0; i < questions->open->len; i++) {
        Question *question = g_ptr_array_index(questions->open, i);
        question->questions = NULL;
        if (question->params != NULL)
            free_question(question);
    }
    g_ptr_array_unref(questions->open);
    g_free(questions);
}

/* --- the answer ------------------------------------------------------------------------------ */

static void
take_answer(const Question *question, const IpbRpcAnswer *answer)
{
    IpbSession *session = question->questions->session;
    if (answer->result != NULL) {
        bool accept = ipb_json_get_bool(answer->result, "accept", false);
        ipb_session_respond(session, question->request, accept);
        return;
    }
    const char *message = answer->rpc_error != NULL
                              ? ipb_json_get_string(answer->rpc_error, "message")
                              : answer->failure->message;
    g_autofree char *why = g_strdup_printf("the client could not decide: %s",
                                           message != NULL ? message : "it does not say why");
    ipb_session_refuse(session, question->request, why);
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Question *question = data;
    if (question->questions != NULL) {
        g_ptr_array_remove(question->questions->open, question);
        take_answer(question, answer);
    }
    free_question(question);
}

/* --- the question ---------------------------------------------------------------------------- */

static char *
make_params(const IpbRpcQuestions *questions, const IpbApprovalRequest *request,
            const char *cell_request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", questions->session_id);
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
    return ipb_json_writer_finish(writer, NULL);
}

static void
send_question(Question *question)
{
    g_autofree char *params = g_steal_pointer(&question->params);
    question->call =
        ipb_rpc_peer_call(ipb_rpc_client_peer(question->questions->client), "approval.request",
                          params, /* timeout_ms= */ 0, on_answer, question);
}

void
ipb_rpc_questions_ask(IpbRpcQuestions *questions, const IpbApprovalRequest *request,
                      const char *cell_request)
{
    Question *question = g_new0(Question, 1);
    *question = (Question){
        .questions = questions,
        .request = request->id,
        .params = make_params(questions, request, cell_request),
    };
    g_ptr_array_add(questions->open, question);
    if (!questions->holds)
        send_question(question);
}

void
ipb_rpc_questions_hold(IpbRpcQuestions *questions, bool holds)
{
    questions->holds = holds;
    /* Sending may make the client congested again: then the rest is held. */
    for (guint i = 0; i < questions->open->len && !questions->holds; i++) {
        Question *question = g_ptr_array_index(questions->open, i);
        if (question->params != NULL)
            send_question(question);
    }
}

static void
notify_withdrawn(IpbRpcClient *client, int64_t call)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "id", call);
    ipb_json_end_object(writer);
    ipb_rpc_client_notify(client, "approval.withdrawn", writer);
}

void
ipb_rpc_questions_withdraw(IpbRpcQuestions *questions, uint64_t request)
{
    for (guint i = 0; i < questions->open->len; i++) {
        Question *question = g_ptr_array_index(questions->open, i);
        if (question->request != request)
            continue;
        question->questions = NULL;
        g_ptr_array_remove_index(questions->open, i);
        if (question->params != NULL) {
            free_question(question);
            return;
        }
        notify_withdrawn(questions->client, question->call);
        /* Frees the question, from the loop. */
        ipb_rpc_peer_cancel_call(ipb_rpc_client_peer(questions->client), question->call);
        return;
    }
}
