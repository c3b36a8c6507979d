/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to a client; see the header.
 */
#include "serve/mcp/questions.h"

#include <inttypes.h>

typedef struct {
    /* NULL: its answer is not needed any more */
    IpbMcpQuestions *questions;
    uint64_t number;
    char *request_id;
    char *method;
    char *params;
    IpbMcpAnswerFunc func;
    void *data;
    /* 0: it waits for its turn */
    int64_t call;
} Question;

struct IpbMcpQuestions {
    IpbRpcPeer *peer;
    /* Question; the head is being asked, and is owned by its call */
    GQueue queue;
    uint64_t last_number;
};

static void
free_question(Question *question)
{
    g_free(question->request_id);
    g_free(question->method);
    g_free(question->params);
    g_free(question);
}

/* If it is being asked, its call ends later, and frees it. */
static void
abandon(Question *question)
{
    question->questions = NULL;
    if (question->call == 0)
        free_question(question);
}

IpbMcpQuestions *
ipb_mcp_questions_new(IpbRpcPeer *peer)
{
    IpbMcpQuestions *questions = g_new0(IpbMcpQuestions, 1);
    questions->peer = peer;
    g_queue_init(&questions->queue);
    return questions;
}

void
ipb_mcp_questions_free(IpbMcpQuestions *questions)
{
    if (questions == NULL)
        return;
    Question *question;
    while ((question = g_queue_pop_head(&questions->queue)) != NULL) {
        IpbMcpAnswerFunc func = question->func;
        void *data = question->data;
        abandon(question);
        func(NULL, "the connection has ended", data);
    }
    g_free(questions);
}

static void ask_head(IpbMcpQuestions *questions);

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Question *question = data;
    IpbMcpQuestions *questions = question->questions;
    if (questions != NULL) {
        const char *failure = answer->rpc_error != NULL
                                  ? ipb_json_get_string(answer->rpc_error, "message")
                              : answer->failure != NULL ? answer->failure->message
                                                        : NULL;
        g_queue_pop_head(&questions->queue);
        ask_head(questions);
        question->func(answer->result, failure != NULL ? failure : "it does not say why",
                       question->data);
    }
    free_question(question);
}

static void
ask_head(IpbMcpQuestions *questions)
{
    Question *question = g_queue_peek_head(&questions->queue);
    if (question != NULL && question->call == 0)
        question->call =
            ipb_rpc_peer_call_within(questions->peer, question->request_id, question->method,
                                     question->params, /* timeout_ms= */ 0, on_answer, question);
}

uint64_t
ipb_mcp_questions_ask(IpbMcpQuestions *questions, const char *request_id, const char *method,
                      const char *params, IpbMcpAnswerFunc func, void *data)
{
    Question *question = g_new0(Question, 1);
    *question = (Question){
        .questions = questions,
        .number = ++questions->last_number,
        .request_id = g_strdup(request_id),
        .method = g_strdup(method),
        .params = g_strdup(params),
        .func = func,
        .data = data,
    };
    g_queue_push_tail(&questions->queue, question);
    ask_head(questions);
    return questions->last_number;
}

static void
notify_cancelled(const IpbMcpQuestions *questions, const Question *question)
{
    g_autofree char *params = g_strdup_printf(
        "{\"requestId\":%" PRId64 ",\"reason\":\"the tool call has ended\"}", question->call);
    ipb_rpc_peer_notify_within(questions->peer, question->request_id, "notifications/cancelled",
                               params);
}

void
ipb_mcp_questions_withdraw(IpbMcpQuestions *questions, uint64_t number)
{
    for (GList *link = questions->queue.head; link != NULL; link = link->next) {
        Question *question = link->data;
        if (question->number != number)
            continue;
        int64_t call = question->call;
        if (call != 0)
            notify_cancelled(questions, question);
        g_queue_delete_link(&questions->queue, link);
        abandon(question);
        if (call != 0)
            ipb_rpc_peer_cancel_call(questions->peer, call); /* frees it, from the loop */
        ask_head(questions);
        return;
    }
}
