/* SPDX-License-Identifier: Apache-2.0
 *
 * tools/call; see client.h. A modern server may answer that it needs something first ("input_required"); then the
 * call is made again with what it asked for, in as many rounds as the limit allows. All rounds are one call: one
 * progress token, one duration.
 */
#include "mcp/client-private.h"

#include <string.h>

#include "base/error.h"
#include "mcp/input.h"

/* What a request adds to its parameters: jsonrpc, id, method. */
#define MAX_ENVELOPE 256

/* Sends the call; @state and @responses are of the round before, or NULL. False: it ends with an error. */
static bool
send_round(IpbMcpCall *call, const char *state, const char *responses)
{
    IpbMessageMeta meta = ipb_mcp_call_meta(call);
    char *params =
        ipb_message_call(call->tool, ipb_json_root(call->arguments), state, responses, &meta);
    GError *refusal = ipb_mcp_call_refuse(call->client, strlen(params) + MAX_ENVELOPE);
    if (refusal != NULL) {
        g_free(params);
        ipb_mcp_call_end_later(call, refusal);
        return false;
    }
    ipb_mcp_call_send(call, "tools/call", params);
    return true;
}

/* The call again, with what the server wants to see in it. */
static void
start_next_round(IpbMcpCall *call, const IpbJson *result)
{
    GError *error = NULL;
    g_autofree char *state = NULL, *responses = NULL;
    if (++call->rounds > call->client->limits.rounds)
        error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                            "the server asked for more input %u times and never gave a "
                            "result" IPB_MCP_LIMIT_HINT("rounds"),
                            call->rounds);
    else
        ipb_mcp_input_answer(result, &state, &responses, &error);
    if (error != NULL)
        ipb_mcp_call_end_with(call, error);
    else
        send_round(call, state, responses);
}

static void
on_called(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    g_autoptr(GError) failure = ipb_mcp_call_error(call, answer);
    GError *error = NULL;
    if (failure != NULL)
        ipb_mcp_call_end(call, NULL, NULL, failure);
    else if (call->client->is_modern &&
             ipb_message_result_type(answer->result) == IPB_RESULT_INPUT_REQUIRED)
        start_next_round(call, answer->result);
    else if (!ipb_mcp_call_check_complete(call, answer, &error) ||
             !ipb_message_check_call(answer->result, &error))
        ipb_mcp_call_end_with(call, error);
    else
        ipb_mcp_call_end(call, answer->result, answer->document, NULL);
}

static void
on_duration(void *data)
{
    IpbMcpCall *call = data;
    const IpbMcpClient *client = call->client;
    g_clear_pointer(&call->duration_timer, ipb_timer_free);
    ipb_mcp_call_withdraw(call, "timeout");
    ipb_mcp_call_end_later(
        call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                          "MCP server %s: %s: no answer within %g s, in spite of its "
                          "progress" IPB_MCP_LIMIT_HINT("call_duration"),
                          client->name, call->what, client->limits.call_duration_ms / 1000.0));
}

/* The arguments, known to be an object: foreign text never goes into a message unread. */
static IpbJsonDoc *
parse_arguments(const char *text, size_t size, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, error);
    if (document == NULL) {
        g_prefix_error(error, "the arguments of the call: ");
        if (g_error_matches(*error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL))
            (*error)->code = IPYBOX_ERROR_INVALID; /* the caller's mistake, not the server's */
        return NULL;
    }
    if (!ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the arguments of the call must be a JSON object");
        return NULL;
    }
    return g_steal_pointer(&document);
}

int64_t
ipb_mcp_client_call_tool(IpbMcpClient *client, const char *tool, const char *arguments_json,
                         size_t size, IpbMcpProgressFunc on_progress, IpbMcpResultFunc func,
                         void *data)
{
    g_autofree char *what = g_strconcat("tool ", tool, NULL);
    IpbMcpCall *call = ipb_mcp_call_new(client, what, func, data);
    int64_t id = call->id;
    call->on_answer = on_called;
    call->on_progress = on_progress;
    call->timeout_ms = client->limits.call_timeout_ms;
    call->tool = g_strdup(tool);
    g_autoptr(GError) error = NULL;
    call->arguments = parse_arguments(arguments_json, size, &error);
    if (call->arguments == NULL) {
        ipb_mcp_call_end_later(call, g_steal_pointer(&error));
        return id;
    }
    call->duration_timer =
        ipb_timer_new(client->loop, client->limits.call_duration_ms, on_duration, call);
    if (send_round(call, NULL, NULL) && !client->is_modern)
        g_clear_pointer(&call->arguments, ipb_json_doc_free); /* there will be no other round */
    return id;
}
