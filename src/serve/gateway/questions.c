/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to a client; see the header. The head of the queue is being asked.
 */
#include "serve/gateway/questions.h"

#include <string.h>
#include <sys/random.h>

#include "base/display-text.h"
#include "base/error.h"
#include "tools/approval-question.h"

#define HINT "decide beforehand: --approve with allow, deny or a file of rules (ipybox-rules(5))"

typedef struct {
    bool is_input;
    uint64_t number; /* the session's, of the input or of the approval */
    char *text;
    bool is_password;
    unsigned code; /* what allows a call; 0: yes */
} Question;

struct IpbGatewayQuestions {
    IpbSession *session;
    IpbGatewayPublisher *publisher;
    const IpbGatewayRequest *request;
    bool *has_stale;
    bool allows_stdin;
    GQueue queue; /* Question */
};

static void
free_question(void *data)
{
    Question *question = data;
    g_free(question->text);
    g_free(question);
}

IpbGatewayQuestions *
ipb_gateway_questions_new(IpbSession *session, IpbGatewayPublisher *publisher,
                          const IpbGatewayRequest *request, bool *has_stale)
{
    IpbGatewayQuestions *questions = g_new0(IpbGatewayQuestions, 1);
    questions->session = session;
    questions->publisher = publisher;
    questions->request = request;
    questions->has_stale = has_stale;
    questions->allows_stdin = ipb_json_get_bool(request->message.content, "allow_stdin", false);
    g_queue_init(&questions->queue);
    return questions;
}

void
ipb_gateway_questions_free(IpbGatewayQuestions *questions)
{
    if (questions == NULL)
        return;
    if (!g_queue_is_empty(&questions->queue))
        *questions->has_stale = true;
    g_queue_clear_full(&questions->queue, free_question);
    g_free(questions);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* Between 1000 and 9999; 0: there are no random numbers. */
static unsigned
make_code(void)
{
    uint32_t number;
    return getrandom(&number, sizeof number, 0) == sizeof number ? 1000 + number % 9000 : 0;
}

static char *
make_prompt(Question *question, bool has_stale)
{
    if (question->is_input)
        return g_strdup(question->text);
    question->code = has_stale ? make_code() : 0;
    if (question->code == 0)
        return g_strdup_printf("%s\nAllow this call? [y]es, [n]o: ", question->text);
    return g_strdup_printf("%s\nType %u to allow this call, anything else to refuse it: ",
                           question->text, question->code);
}

static void
ask_head(IpbGatewayQuestions *questions)
{
    Question *question = g_queue_peek_head(&questions->queue);
    if (question == NULL || questions->request->client == NULL)
        return;
    g_autofree char *prompt = make_prompt(question, *questions->has_stale);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "prompt", prompt);
    ipb_json_member_bool(writer, "password", question->is_password);
    ipb_gateway_publisher_ask(questions->publisher, questions->request, "input_request", writer);
}

static void
add(IpbGatewayQuestions *questions, const Question *question)
{
    g_queue_push_tail(&questions->queue, g_memdup2(question, sizeof *question));
    if (g_queue_get_length(&questions->queue) == 1)
        ask_head(questions);
}

static void
refuse(IpbGatewayQuestions *questions, const Question *question, const char *why)
{
    if (question->is_input)
        ipb_session_answer_input(questions->session, question->number, NULL, why, NULL);
    else
        ipb_session_refuse(questions->session, question->number, why);
}

/* --- input ------------------------------------------------------------------------------------ */

void
ipb_gateway_questions_ask_input(IpbGatewayQuestions *questions, const IpbEvent *event)
{
    Question question = {.is_input = true, .number = event->input};
    if (questions->request->client == NULL) {
        refuse(questions, &question, "the client that sent the cell has gone");
        return;
    }
    question.text = g_strdup(event->text);
    question.is_password = event->is_password;
    add(questions, &question);
}

/* The one at the head may still be answered by the client. */
static void
withdraw(IpbGatewayQuestions *questions, bool is_input, uint64_t number)
{
    for (GList *link = questions->queue.head; link != NULL; link = link->next) {
        const Question *question = link->data;
        if (question->is_input != is_input || question->number != number)
            continue;
        bool is_head = link == questions->queue.head;
        free_question(link->data);
        g_queue_delete_link(&questions->queue, link);
        if (is_head) {
            *questions->has_stale = true;
            ask_head(questions);
        }
        return;
    }
}

void
ipb_gateway_questions_withdraw_input(IpbGatewayQuestions *questions, uint64_t input)
{
    withdraw(questions, /* is_input= */ true, input);
}

/* --- tool calls ------------------------------------------------------------------------------- */

/* The question, or NULL with @ret_why if a person could not see all of it. Caller frees. */
static char *
make_text(const IpbApprovalRequest *request, char **ret_why)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = ipb_approval_question(request, &error);
    if (text == NULL) {
        *ret_why = g_strdup_printf("%s; " HINT, error->message);
        return NULL;
    }
    bool fits;
    g_autoptr(GPtrArray) rows = ipb_display_text_dialog_rows(text, &fits);
    if (fits)
        return g_steal_pointer(&text);
    *ret_why = g_strdup_printf("the question has more than %d characters or %d lines; call the "
                               "tool with less data, or " HINT,
                               IPB_DIALOG_MAX_CHARS, IPB_DIALOG_MAX_ROWS);
    return NULL;
}

void
ipb_gateway_questions_ask_approval(IpbGatewayQuestions *questions,
                                   const IpbApprovalRequest *request)
{
    g_autofree char *why = NULL;
    Question question = {.number = request->id};
    if (questions->request->client == NULL || !questions->allows_stdin)
        why = g_strdup("it needs an approval, and the client that sent the cell cannot be asked "
                       "(allow_stdin); " HINT);
    else
        question.text = make_text(request, &why);
    if (question.text != NULL)
        add(questions, &question);
    else
        refuse(questions, &question, why);
}

void
ipb_gateway_questions_withdraw_approval(IpbGatewayQuestions *questions, uint64_t approval)
{
    withdraw(questions, /* is_input= */ false, approval);
}

/* --- the answer ------------------------------------------------------------------------------- */

/* Everything but a clear yes is a no. */
static bool
is_yes(const Question *question, const char *value)
{
    g_autofree char *word = g_strstrip(g_ascii_strdown(value != NULL ? value : "", -1));
    if (question->code == 0)
        return strcmp(word, "y") == 0 || strcmp(word, "yes") == 0;
    g_autofree char *code = g_strdup_printf("%u", question->code);
    return strcmp(word, code) == 0;
}

static void
take_input(IpbGatewayQuestions *questions, const Question *question, const char *value)
{
    g_autoptr(GError) error = NULL;
    if (value == NULL)
        refuse(questions, question, "the client answered without a string \"value\" (without NUL)");
    else if (!ipb_session_answer_input(questions->session, question->number, value, NULL, &error))
        refuse(questions, question, error->message);
}

void
ipb_gateway_questions_take_reply(IpbGatewayQuestions *questions, const IpbGatewayClient *client,
                                 const IpbJson *content)
{
    if (questions->request->client != client)
        return;
    Question *question = g_queue_pop_head(&questions->queue);
    if (question == NULL)
        return;
    const char *value = ipb_json_get_string(content, "value");
    if (question->is_input)
        take_input(questions, question, value);
    else
        ipb_session_respond(questions->session, question->number, is_yes(question, value));
    free_question(question);
    ask_head(questions);
}

void
ipb_gateway_questions_lose_client(IpbGatewayQuestions *questions)
{
    Question *question;
    while ((question = g_queue_pop_head(&questions->queue)) != NULL) {
        refuse(questions, question, "the client that sent the cell has gone");
        free_question(question);
    }
}
