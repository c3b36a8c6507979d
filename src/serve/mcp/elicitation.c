/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking by elicitation; see the header. Every answer but a clear yes is a no.
 *
 * A message is the question (tools/approval-question.h), wrapped and indented by four spaces.
 * Clients that render Markdown show it as code, unchanged, and nothing in it is markup.
 */
#include "serve/mcp/elicitation.h"

#include "base/display-text.h"
#include "tools/approval-question.h"

#define HINT "decide beforehand: --approve with allow, deny or a file of rules (ipybox-rules(5))"

/* The tool is a call of the client, whose user was asked by the client. */
#define INSTALL_HINT "; or install the package with the tool install_package"
#define STAGED_HINT "; or the user commits them later with 'ipybox changes'"

/* What a question is about. */
static const struct {
    const char *heading;
    const char *if_too_long; /* what to do then */
    const char *hint;        /* what can be done if no one can be asked */
} SUBJECTS[] = {
    [IPB_APPROVAL_OF_CALL] = {"Code in a cell calls a tool:", "call the tool with less data", ""},
    [IPB_APPROVAL_OF_INSTALLATION] = {"Code in a cell wants to install a package:",
                                      "call the tool with less data", INSTALL_HINT},
    [IPB_APPROVAL_OF_COMMIT] = {"Changes of a Python session are to be written to the workspace:",
                                "commit in parts, with the argument paths", STAGED_HINT},
    [IPB_APPROVAL_OF_DISCARD] = {"Changes of a Python session are to be discarded:",
                                 "discard in parts, with the argument paths", ""},
};

typedef struct {
    IpbElicitation *elicitation;
    /* The session's number of the approval, or of the input */
    uint64_t number;
    bool is_input;
    /* Where it was asked: one of these, and the number there */
    IpbMcpRequest *request;
    IpbMcpServer *server;
    uint64_t asked;
} Question;

struct IpbElicitation {
    IpbSession *session;
    /* Question */
    GPtrArray *questions;
};

static void
free_question(void *data)
{
    Question *question = data;
    ipb_mcp_request_unref(question->request);
    g_free(question);
}

IpbElicitation *
ipb_elicitation_new(IpbSession *session)
{
    IpbElicitation *elicitation = g_new0(IpbElicitation, 1);
    elicitation->session = session;
    elicitation->questions = g_ptr_array_new_with_free_func(free_question);
    return elicitation;
}

static void
withdraw_question(const Question *question)
{
    if (question->request != NULL)
        ipb_mcp_request_withdraw(question->request, question->asked);
    else
        ipb_mcp_server_withdraw(question->server, question->asked);
}

void
ipb_elicitation_free(IpbElicitation *elicitation)
{
    if (elicitation == NULL)
        return;
    for (guint i = 0; i < elicitation->questions->len; i++)
        withdraw_question(g_ptr_array_index(elicitation->questions, i));
    g_ptr_array_unref(elicitation->questions);
    g_free(elicitation);
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
            "at most %d in %d are shown; %s, or " HINT,
            g_utf8_strlen(question, -1), rows->len, IPB_DIALOG_MAX_CHARS, IPB_DIALOG_MAX_ROWS,
            SUBJECTS[request->subject].if_too_long);
        return NULL;
    }
    return make_params(SUBJECTS[request->subject].heading, rows, APPROVAL_SCHEMA);
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

static void
take_input(IpbSession *session, uint64_t number, const IpbJson *result, const char *failure)
{
    const char *action = ipb_json_get_string(result, "action");
    const char *value = ipb_json_get_string(ipb_json_get(result, "content"), "value");
    bool is_given = g_strcmp0(action, "accept") == 0 && value != NULL;
    g_autofree char *why =
        result == NULL ? g_strdup_printf("the MCP client could not ask its user (%s)", failure)
                       : g_strdup("the user gave no input");
    g_autoptr(GError) error = NULL;
    if (!ipb_session_answer_input(session, number, is_given ? value : NULL, why, &error))
        ipb_session_answer_input(session, number, NULL, error->message, NULL);
}

static void
take_decision(IpbSession *session, uint64_t number, const IpbJson *result, const char *failure)
{
    const char *action = ipb_json_get_string(result, "action");
    const char *decision = ipb_json_get_string(ipb_json_get(result, "content"), "decision");
    if (result == NULL) {
        g_autofree char *why =
            g_strdup_printf("the MCP client could not ask its user (%s); " HINT, failure);
        ipb_session_refuse(session, number, why);
        return;
    }
    if (g_strcmp0(action, "cancel") == 0) {
        ipb_session_refuse(session, number,
                           "the MCP client closed the question without an answer, as hosts without "
                           "a person do; " HINT);
        return;
    }
    ipb_session_respond(session, number,
                        g_strcmp0(action, "accept") == 0 && g_strcmp0(decision, "allow") == 0);
}

static void
on_answer(const IpbJson *result, const char *failure, void *data)
{
    Question *question = data;
    IpbElicitation *elicitation = question->elicitation;
    IpbSession *session = elicitation->session;
    uint64_t number = question->number;
    bool is_input = question->is_input;
    g_ptr_array_remove(elicitation->questions, question); /* frees it */
    if (is_input)
        take_input(session, number, result, failure);
    else
        take_decision(session, number, result, failure);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* False: the client is gone. */
static bool
ask(IpbElicitation *elicitation, IpbMcpRequest *request, IpbMcpServer *server, uint64_t number,
    bool is_input, const char *params)
{
    static const char METHOD[] = "elicitation/create";
    Question *question = g_new0(Question, 1);
    *question = (Question){.elicitation = elicitation, .number = number, .is_input = is_input};
    question->asked = request != NULL
                          ? ipb_mcp_request_ask(request, NULL, METHOD, params, on_answer, question)
                          : ipb_mcp_server_ask(server, METHOD, params, on_answer, question);
    if (question->asked == 0) {
        g_free(question);
        return false;
    }
    question->request = request != NULL ? ipb_mcp_request_ref(request) : NULL;
    question->server = server;
    g_ptr_array_add(elicitation->questions, question);
    return true;
}

static void
refuse(IpbElicitation *elicitation, const IpbApprovalRequest *approval, bool is_client_there)
{
    g_autofree char *why =
        g_strconcat("it needs an approval, and ",
                    is_client_there ? "the MCP client offers no way to ask its user (elicitation)"
                                    : "no client is connected that could ask its user",
                    "; " HINT, SUBJECTS[approval->subject].hint, NULL);
    ipb_session_refuse(elicitation->session, approval->id, why);
}

void
ipb_elicitation_ask(IpbElicitation *elicitation, IpbMcpRequest *request, IpbMcpServer *server,
                    const IpbApprovalRequest *approval)
{
    bool is_client_there = request != NULL || server != NULL;
    if (!is_client_there || (request != NULL && !ipb_mcp_request_offers_forms(request))) {
        refuse(elicitation, approval, is_client_there);
        return;
    }
    g_autofree char *why = NULL;
    g_autofree char *params = make_approval_params(approval, &why);
    if (params == NULL)
        ipb_session_refuse(elicitation->session, approval->id, why);
    else if (!ask(elicitation, request, server, approval->id, /* is_input= */ false, params))
        refuse(elicitation, approval, server != NULL);
}

void
ipb_elicitation_ask_input(IpbElicitation *elicitation, IpbMcpRequest *request,
                          const IpbEvent *event)
{
    g_autofree char *why = NULL;
    g_autofree char *params = NULL;
    if (event->is_password)
        why = g_strdup("an MCP client must not ask for passwords; give the value as an environment "
                       "variable of the server");
    else
        params = make_input_params(event->text, &why);
    if (params != NULL &&
        !ask(elicitation, request, NULL, event->input, /* is_input= */ true, params))
        why = g_strdup("the client is not connected any more");
    if (why != NULL)
        ipb_session_answer_input(elicitation->session, event->input, NULL, why, NULL);
}

static void
withdraw(IpbElicitation *elicitation, uint64_t number, bool is_input)
{
    for (guint i = 0; i < elicitation->questions->len; i++) {
        Question *question = g_ptr_array_index(elicitation->questions, i);
        if (question->number != number || question->is_input != is_input)
            continue;
        withdraw_question(question);
        g_ptr_array_remove_index(elicitation->questions, i);
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
