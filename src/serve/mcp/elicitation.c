/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking by elicitation; see the header. What is not a clear yes is a no.
 */
#include "serve/mcp/elicitation.h"

#include <inttypes.h>
#include <string.h>

#include "base/printable.h"

/* Characters of the arguments that a question shows. */
#define MAX_SHOWN 4000
#define MIN_REVISION "2025-06-18"

#define HINT                                                                                       \
    "decide beforehand: ipybox mcp --approve with allow, deny or a file of rules "                 \
    "(ipybox-rules(5))"

typedef struct {
    IpbElicitation *elicitation; /* NULL: nobody waits any more */
    uint64_t request;
    int64_t call;
} Question;

struct IpbElicitation {
    IpbRpcPeer *peer;
    IpbSession *session;
    bool is_offered;
    GPtrArray *questions; /* Question, owned by their calls */
};

IpbElicitation *
ipb_elicitation_new(IpbRpcPeer *peer, IpbSession *session)
{
    IpbElicitation *elicitation = g_new0(IpbElicitation, 1);
    elicitation->peer = peer;
    elicitation->session = session;
    elicitation->questions = g_ptr_array_new();
    return elicitation;
}

void
ipb_elicitation_free(IpbElicitation *elicitation)
{
    if (elicitation == NULL)
        return;
    for (guint i = 0; i < elicitation->questions->len; i++)
        ((Question *) g_ptr_array_index(elicitation->questions, i))->elicitation = NULL;
    g_ptr_array_unref(elicitation->questions);
    g_free(elicitation);
}

void
ipb_elicitation_set_client(IpbElicitation *elicitation, const char *revision,
                           const IpbJson *capabilities)
{
    const IpbJson *offer = ipb_json_get(capabilities, "elicitation");
    /* An empty offer means forms; otherwise what is offered is named. */
    elicitation->is_offered = strcmp(revision, MIN_REVISION) >= 0 &&
                              ipb_json_is(offer, IPB_JSON_OBJECT) &&
                              (ipb_json_length(offer) == 0 || ipb_json_get(offer, "form") != NULL);
}

/* --- the question ------------------------------------------------------------------------------ */

static char *
make_message(const IpbApprovalRequest *request)
{
    g_autofree char *server = ipb_printable(request->server_name);
    g_autofree char *tool = ipb_printable(request->tool_name);
    g_autofree char *raw = g_strndup(request->arguments_json, request->arguments_size);
    g_autofree char *arguments = ipb_printable(raw);
    glong length = g_utf8_strlen(arguments, -1);
    g_autofree char *shown = g_utf8_substring(arguments, 0, MIN(length, MAX_SHOWN));
    g_autofree char *cut =
        length > MAX_SHOWN
            ? g_strdup_printf(" … (the first %d of %ld characters)", MAX_SHOWN, length)
            : g_strdup("");
    return g_strdup_printf("Code in a cell calls the tool %s.%s.\n\nArguments: %s%s", server, tool,
                           shown, cut);
}

static const char SCHEMA[] =
    "{\"type\":\"object\",\"properties\":{\"decision\":{\"type\":\"string\",\"title\":\"Decision\","
    "\"description\":\"May this call run?\",\"enum\":[\"allow\",\"deny\"]}},"
    "\"required\":[\"decision\"]}";

static char *
make_params(const IpbApprovalRequest *request)
{
    g_autofree char *message = make_message(request);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "message", message);
    ipb_json_key(writer, "requestedSchema");
    ipb_json_write_raw(writer, SCHEMA, sizeof SCHEMA - 1);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

/* --- the answer -------------------------------------------------------------------------------- */

static void
take_answer(const Question *question, const IpbRpcAnswer *answer)
{
    IpbSession *session = question->elicitation->session;
    if (answer->result == NULL) {
        const char *message = answer->rpc_error != NULL
                                  ? ipb_json_get_string(answer->rpc_error, "message")
                                  : answer->failure->message;
        g_autofree char *why = g_strdup_printf("the MCP client could not ask its user (%s); " HINT,
                                               message != NULL ? message : "it does not say why");
        ipb_session_refuse(session, question->request, why);
        return;
    }
    const char *action = ipb_json_get_string(answer->result, "action");
    const char *decision = ipb_json_get_string(ipb_json_get(answer->result, "content"), "decision");
    bool is_yes = g_strcmp0(action, "accept") == 0 && g_strcmp0(decision, "allow") == 0;
    ipb_session_respond(session, question->request, is_yes);
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Question *question = data;
    if (question->elicitation != NULL) {
        g_ptr_array_remove(question->elicitation->questions, question);
        take_answer(question, answer);
    }
    g_free(question);
}

void
ipb_elicitation_ask(IpbElicitation *elicitation, const IpbApprovalRequest *request)
{
    if (!elicitation->is_offered) {
        ipb_session_refuse(elicitation->session, request->id,
                           "it needs an approval, and the MCP client offers no way to ask its user "
                           "(elicitation); " HINT);
        return;
    }
    g_autofree char *params = make_params(request);
    Question *question = g_new0(Question, 1);
    *question = (Question){.elicitation = elicitation, .request = request->id};
    g_ptr_array_add(elicitation->questions, question);
    question->call = ipb_rpc_call(elicitation->peer, "elicitation/create", params,
                                  /* timeout_ms= */ 0, on_answer, question);
}

static void
tell_cancelled(IpbElicitation *elicitation, int64_t call)
{
    g_autofree char *params =
        g_strdup_printf("{\"requestId\":%" PRId64 ",\"reason\":\"the tool call has ended\"}", call);
    ipb_rpc_notify(elicitation->peer, "notifications/cancelled", params);
}

void
ipb_elicitation_withdraw(IpbElicitation *elicitation, uint64_t request)
{
    for (guint i = 0; i < elicitation->questions->len; i++) {
        Question *question = g_ptr_array_index(elicitation->questions, i);
        if (question->request != request)
            continue;
        int64_t call = question->call;
        question->elicitation = NULL;
        g_ptr_array_remove_index(elicitation->questions, i);
        tell_cancelled(elicitation, call);
        ipb_rpc_cancel(elicitation->peer, call); /* frees the question, from the loop */
        return;
    }
}
