/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking by elicitation; see the header. Every answer but a clear yes is a no.
 *
 * A message is the question (tools/approval-question.h), wrapped and indented by four spaces.
 * Clients that render Markdown show it as code, unchanged, and nothing in it is markup.
 */
#include "serve/mcp/elicitation.h"

#include <inttypes.h>
#include <string.h>

#include "base/display-text.h"
#include "tools/approval-question.h"

#define MIN_REVISION "2025-06-18"

#define HINT                                                                                       \
    "decide beforehand: ipybox mcp --approve with allow, deny or a file of rules "                 \
    "(ipybox-rules(5))"

/* The tool is a call of the client, whose user was asked by the client. */
#define INSTALL_HINT "; or install the package with the tool install_package"

typedef struct {
    /* NULL: its answer is not needed any more */
    IpbElicitation *elicitation;
    /* The session's number of the approval, or of the input */
    uint64_t number;
    bool is_input;
    /* The client's request that it belongs to, or NULL */
    char *request_id;
    /* Of elicitation/create */
    char *params;
    /* 0: it waits for its turn */
    int64_t call;
} Question;

struct IpbElicitation {
    IpbRpcPeer *peer;
    IpbSession *session;
    bool is_offered;
    /* Question; the head is being asked, and is owned by its call */
    GQueue questions;
};

static void
free_question(void *data)
{
    Question *question = data;
    g_free(question->request_id);
    g_free(question->params);
    g_free(question);
}

/* If it is being asked, its call ends later, and frees it. */
static void
abandon(Question *question)
{
    question->elicitation = NULL;
    if (question->call == 0)
        free_question(question);
}

IpbElicitation *
ipb_elicitation_new(IpbRpcPeer *peer, IpbSession *session)
{
    IpbElicitation *elicitation = g_new0(IpbElicitation, 1);
    elicitation->peer = peer;
    elicitation->session = session;
    g_queue_init(&elicitation->questions);
    return elicitation;
}

void
ipb_elicitation_free(IpbElicitation *elicitation)
{
    if (elicitation == NULL)
        return;
    Question *question;
    while ((question = g_queue_pop_head(&elicitation->questions)) != NULL)
        abandon(question);
    g_free(elicitation);
}

void
ipb_elicitation_set_client(IpbElicitation *elicitation, const char *revision,
                           const IpbJson *capabilities)
{
    const IpbJson *offer = ipb_json_get(capabilities, "elicitation");
    /* An empty object means forms; otherwise its members name what is offered. */
    elicitation->is_offered = strcmp(revision, MIN_REVISION) >= 0 &&
                              ipb_json_is(offer, IPB_JSON_OBJECT) &&
                              (ipb_json_length(offer) == 0 || ipb_json_get(offer, "form") != NULL);
}

/* --- the question ----------------------------------------------------------------------------- */

/* The parameters of elicitation/create: @rows below a @heading, indented. Caller frees. */
static char *
make_params(const char *heading, const GPtrArray *rows, const char *schema)
{
    g_autoptr(GString) message = g_string_new(heading);
    g_string_append_c(message, '\n');
    for (guint i = 0; i < rows->len; i++)
        g_string_append_printf(message, "\n    %s", (char *) g_ptr_array_index(rows, i));
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "message", message->str);
    ipb_json_key(writer, "requestedSchema");
    ipb_json_write_raw(writer, schema, strlen(schema));
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static const char APPROVAL_SCHEMA[] =
    "{\"type\":\"object\",\"properties\":{\"decision\":{\"type\":\"string\",\"title\":\"Decision\","
    "\"description\":\"May this call run?\",\"enum\":[\"allow\",\"deny\"]}},"
    "\"required\":[\"decision\"]}";

/* NULL with @ret_why if the client's user could not see all of it. Caller frees. */
static char *
make_approval_params(const IpbApprovalRequest *request, char **ret_why)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *question = ipb_approval_question(request, &error);
    if (question == NULL) {
        *ret_why = g_strdup_printf("%s; " HINT, error->message);
        return NULL;
    }
    bool fits;
    g_autoptr(GPtrArray) rows = ipb_display_text_dialog_rows(question, &fits);
    if (!fits) {
        *ret_why = g_strdup_printf(
            "the question is too long for the MCP client's user: %ld characters in %u lines, but "
            "at most %d in %d are shown; call the tool with less data, or " HINT,
            g_utf8_strlen(question, -1), rows->len, IPB_DIALOG_MAX_CHARS, IPB_DIALOG_MAX_ROWS);
        return NULL;
    }
    return make_params(request->is_installation ? "Code in a cell wants to install a package:"
                                                : "Code in a cell calls a tool:",
                       rows, APPROVAL_SCHEMA);
}

static const char INPUT_SCHEMA[] =
    "{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"string\",\"title\":\"Input\","
    "\"description\":\"The line that the code reads\"}},\"required\":[\"value\"]}";

/* NULL with @ret_why if the prompt is too long. Caller frees. */
static char *
make_input_params(const char *prompt, char **ret_why)
{
    bool fits;
    g_autofree char *printable = ipb_display_text_printable(prompt);
    g_autoptr(GPtrArray) rows = ipb_display_text_dialog_rows(printable, &fits);
    if (fits)
        return make_params("Code in a cell asks for input:", rows, INPUT_SCHEMA);
    *ret_why = g_strdup_printf("the prompt is too long for the MCP client's user: at most %d "
                               "characters in %d lines are shown; print a long text instead",
                               IPB_DIALOG_MAX_CHARS, IPB_DIALOG_MAX_ROWS);
    return NULL;
}

/* --- the answer ------------------------------------------------------------------------------- */

/* Why there is no result. Caller frees. */
static char *
describe_failure(const IpbRpcAnswer *answer)
{
    const char *message = answer->rpc_error != NULL
                              ? ipb_json_get_string(answer->rpc_error, "message")
                              : answer->failure->message;
    return g_strdup_printf("the MCP client could not ask its user (%s)",
                           message != NULL ? message : "it does not say why");
}

static void
take_input(const Question *question, const IpbRpcAnswer *answer)
{
    IpbSession *session = question->elicitation->session;
    const char *action = ipb_json_get_string(answer->result, "action");
    const char *value = ipb_json_get_string(ipb_json_get(answer->result, "content"), "value");
    g_autofree char *why =
        answer->result == NULL ? describe_failure(answer) : g_strdup("the user gave no input");
    g_autoptr(GError) error = NULL;
    bool is_given = g_strcmp0(action, "accept") == 0 && value != NULL;
    if (!ipb_session_answer_input(session, question->number, is_given ? value : NULL, why, &error))
        ipb_session_answer_input(session, question->number, NULL, error->message, NULL);
}

static void
take_answer(const Question *question, const IpbRpcAnswer *answer)
{
    IpbSession *session = question->elicitation->session;
    if (question->is_input) {
        take_input(question, answer);
        return;
    }
    if (answer->result == NULL) {
        g_autofree char *failure = describe_failure(answer);
        g_autofree char *why = g_strconcat(failure, "; " HINT, NULL);
        ipb_session_refuse(session, question->number, why);
        return;
    }
    const char *action = ipb_json_get_string(answer->result, "action");
    const char *decision = ipb_json_get_string(ipb_json_get(answer->result, "content"), "decision");
    bool is_yes = g_strcmp0(action, "accept") == 0 && g_strcmp0(decision, "allow") == 0;
    ipb_session_respond(session, question->number, is_yes);
}

static void ask_head(IpbElicitation *elicitation);

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Question *question = data;
    IpbElicitation *elicitation = question->elicitation;
    if (elicitation != NULL) {
        g_queue_pop_head(&elicitation->questions);
        take_answer(question, answer);
        ask_head(elicitation);
    }
    free_question(question);
}

/* One after the other, so that a person answers the question that they see. */
static void
ask_head(IpbElicitation *elicitation)
{
    Question *question = g_queue_peek_head(&elicitation->questions);
    if (question != NULL && question->call == 0)
        question->call = ipb_rpc_peer_call_within(elicitation->peer, question->request_id,
                                                  "elicitation/create", question->params,
                                                  /* timeout_ms= */ 0, on_answer, question);
}

/* Takes @params. */
static void
add_question(IpbElicitation *elicitation, uint64_t number, bool is_input, const char *request_id,
             char *params)
{
    Question *question = g_new0(Question, 1);
    *question = (Question){
        .elicitation = elicitation,
        .number = number,
        .is_input = is_input,
        .request_id = g_strdup(request_id),
        .params = params,
    };
    g_queue_push_tail(&elicitation->questions, question);
    ask_head(elicitation);
}

bool
ipb_elicitation_is_offered(const IpbElicitation *elicitation)
{
    return elicitation->is_offered;
}

void
ipb_elicitation_ask(IpbElicitation *elicitation, const char *request_id,
                    const IpbApprovalRequest *approval)
{
    if (!elicitation->is_offered) {
        g_autofree char *why =
            g_strconcat("it needs an approval, and the MCP client offers no way to ask its user "
                        "(elicitation); " HINT,
                        approval->is_installation ? INSTALL_HINT : NULL, NULL);
        ipb_session_refuse(elicitation->session, approval->id, why);
        return;
    }
    g_autofree char *why = NULL;
    char *params = make_approval_params(approval, &why);
    if (params == NULL) {
        ipb_session_refuse(elicitation->session, approval->id, why);
        return;
    }
    add_question(elicitation, approval->id, /* is_input= */ false, request_id, params);
}

void
ipb_elicitation_ask_input(IpbElicitation *elicitation, const char *request_id,
                          const IpbEvent *event)
{
    g_autofree char *why = NULL;
    char *params = NULL;
    if (event->is_password)
        why = g_strdup("an MCP client must not ask for passwords; give the value as an environment "
                       "variable of the server");
    else
        params = make_input_params(event->text, &why);
    if (params == NULL)
        ipb_session_answer_input(elicitation->session, event->input, NULL, why, NULL);
    else
        add_question(elicitation, event->input, /* is_input= */ true, request_id, params);
}

static void
notify_cancelled(IpbElicitation *elicitation, const char *request_id, int64_t call)
{
    g_autofree char *params =
        g_strdup_printf("{\"requestId\":%" PRId64 ",\"reason\":\"the tool call has ended\"}", call);
    ipb_rpc_peer_notify_within(elicitation->peer, request_id, "notifications/cancelled", params);
}

static void
withdraw(IpbElicitation *elicitation, uint64_t number, bool is_input)
{
    for (GList *link = elicitation->questions.head; link != NULL; link = link->next) {
        Question *question = link->data;
        if (question->number != number || question->is_input != is_input)
            continue;
        int64_t call = question->call;
        if (call != 0)
            notify_cancelled(elicitation, question->request_id, call);
        g_queue_delete_link(&elicitation->questions, link);
        abandon(question);
        if (call != 0) {
            ipb_rpc_peer_cancel_call(elicitation->peer,
                                     call); /* frees the question, from the loop */
        }
        ask_head(elicitation);
        return;
    }
}

void
ipb_elicitation_withdraw(IpbElicitation *elicitation, uint64_t approval)
{
    withdraw(elicitation, approval, /* is_input= */ false);
}

void
ipb_elicitation_withdraw_input(IpbElicitation *elicitation, uint64_t input)
{
    withdraw(elicitation, input, /* is_input= */ true);
}
