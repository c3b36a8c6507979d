/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the program's tools; see the header and <ipybox/tool-call.h>.
 */
#include "lib/tool-call.h"

#include <string.h>

#include "base/error.h"
#include "json/writer.h"

#define MAX_RESULT (64u << 20)

struct IpyboxToolCall {
    IpbWaiting waiting;
    unsigned references;
    char *server;
    char *tool;
    char *arguments;
};

const char *
ipybox_tool_call_get_server(const IpyboxToolCall *call)
{
    g_return_val_if_fail(call != NULL, NULL);
    return call->server;
}

const char *
ipybox_tool_call_get_tool(const IpyboxToolCall *call)
{
    g_return_val_if_fail(call != NULL, NULL);
    return call->tool;
}

const char *
ipybox_tool_call_get_arguments(const IpyboxToolCall *call)
{
    g_return_val_if_fail(call != NULL, NULL);
    return call->arguments;
}

/* --- answers --------------------------------------------------------------------------------- */

static bool
check_waiting(const IpyboxToolCall *call, GError **error)
{
    if (call->waiting.core == NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                            "the tool call does not wait any more: it was answered, or its cell or "
                            "its session has ended");
    return call->waiting.core != NULL;
}

static bool
check_size(size_t size, GError **error)
{
    if (size > MAX_RESULT)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the result of a tool may have %u MiB, not %zu bytes", MAX_RESULT >> 20, size);
    return size <= MAX_RESULT;
}

/* Takes @writer, which has the result object of a tool. */
static bool
answer(IpyboxToolCall *call, IpbJsonWriter *writer, GError **error)
{
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, error);
    if (document == NULL)
        return false;
    ipb_session_answer_tool(ipb_waiting_detach(&call->waiting), call->waiting.id,
                            ipb_json_root(document), &document, NULL);
    return true;
}

gboolean
ipybox_tool_call_return(IpyboxToolCall *call, const char *json, GError **error)
{
    g_return_val_if_fail(call != NULL && json != NULL, FALSE);
    g_autoptr(GError) cause = NULL;
    size_t size = strlen(json);
    if (!check_waiting(call, error) || !check_size(size, error))
        return FALSE;
    g_autoptr(IpbJsonDoc) value = ipb_json_parse(json, size, &IPB_JSON_LIMITS_MESSAGE, &cause);
    if (value == NULL) {
        bool is_limit = g_error_matches(cause, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
        g_set_error(error, IPYBOX_ERROR, is_limit ? IPYBOX_ERROR_LIMIT : IPYBOX_ERROR_INVALID,
                    "the result of a tool must be JSON: %s", cause->message);
        return FALSE;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_value(writer, "structuredContent", ipb_json_root(value));
    ipb_json_end_object(writer);
    return answer(call, writer, error);
}

gboolean
ipybox_tool_call_return_text(IpyboxToolCall *call, const char *text, GError **error)
{
    g_return_val_if_fail(call != NULL && text != NULL, FALSE);
    if (!check_waiting(call, error) || !check_size(strlen(text), error))
        return FALSE;
    if (!g_utf8_validate(text, -1, NULL)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "the result of a tool must be UTF-8");
        return FALSE;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "content");
    ipb_json_begin_array(writer);
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "type", "text");
    ipb_json_member_string(writer, "text", text);
    ipb_json_end_object(writer);
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    return answer(call, writer, error);
}

gboolean
ipybox_tool_call_fail(IpyboxToolCall *call, const char *message)
{
    g_return_val_if_fail(call != NULL && message != NULL, FALSE);
    IpbSession *core = ipb_waiting_detach(&call->waiting);
    if (core == NULL)
        return FALSE;
    g_autofree char *text = g_utf8_make_valid(message, -1);
    g_autoptr(GError) failure = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, text);
    ipb_session_answer_tool(core, call->waiting.id, NULL, NULL, failure);
    return TRUE;
}

IpyboxToolCall *
ipybox_tool_call_ref(IpyboxToolCall *call)
{
    g_return_val_if_fail(call != NULL, NULL);
    call->references++;
    return call;
}

void
ipybox_tool_call_unref(IpyboxToolCall *call)
{
    if (call == NULL || --call->references > 0)
        return;
    ipybox_tool_call_fail(call, "the application has not answered");
    g_free(call->server);
    g_free(call->tool);
    g_free(call->arguments);
    g_free(call);
}

/* --- for the session ------------------------------------------------------------------------- */

IpyboxToolCall *
ipb_lib_tool_call_new(const IpbApplicationCall *call, IpbSession *core, GPtrArray *waiting)
{
    IpyboxToolCall *made = g_new(IpyboxToolCall, 1);
    *made = (IpyboxToolCall){
        .references = 1,
        .server = g_strdup(call->server_name),
        .tool = g_strdup(call->tool_name),
        .arguments = g_strndup(call->arguments_json, call->arguments_size),
    };
    ipb_waiting_attach(&made->waiting, core, waiting, call->id);
    return made;
}
