/* SPDX-License-Identifier: Apache-2.0
 *
 * Answering what servers ask for; see the header. We declare no capabilities (messages.c), so a server may
 * ask for nothing, and only gives a state that it wants to see again. An application that could answer
 * elicitation/create would be asked in refuse_requests, and the capability declared with it.
 */
#include "mcp/input.h"

#include "base/error.h"
#include "mcp/server-log.h"

/* Of a message or a method in an error. */
#define MAX_SHOWN 500

static void
refuse_requests(const IpbJson *requests, GError **error)
{
    const IpbJson *request = ipb_json_first(requests);
    const char *method = ipb_json_get_string(request, "method");
    const char *message = ipb_json_get_string(ipb_json_get(request, "params"), "message");
    g_autofree char *what =
        ipb_server_log_clean(method != NULL ? method : "something without a name",
                             method != NULL ? strlen(method) : 24, MAX_SHOWN);
    g_autofree char *text = ipb_server_log_clean(message != NULL ? message : "",
                                                 message != NULL ? strlen(message) : 0, MAX_SHOWN);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                "it asks for %s before it goes on, which ipybox does not offer%s%s", what,
                *text != '\0' ? ": " : "", text);
}

bool
ipb_mcp_input_answer(const IpbJson *result, char **ret_state, char **ret_responses, GError **error)
{
    const IpbJson *state = ipb_json_get(result, "requestState");
    const IpbJson *requests = ipb_json_get(result, "inputRequests");
    if (ipb_json_length(requests) > 0) {
        refuse_requests(requests, error);
        return false;
    }
    if (!ipb_json_is(state, IPB_JSON_STRING) && !ipb_json_is(requests, IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "its result is \"input_required\" and asks for nothing");
        return false;
    }
    IpbSpan raw = ipb_json_raw(state);
    *ret_state = state != NULL ? g_strndup(raw.start, raw.size) : NULL;
    *ret_responses = requests != NULL ? g_strdup("{}") : NULL;
    return true;
}
