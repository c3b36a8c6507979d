/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of tools; see the header.
 */
#include "serve/mcp/served-call.h"

#include <string.h>

/* Progress messages are sent at most so often, with at most so much of the output. */
#define PROGRESS_INTERVAL_MS 100
#define MAX_PROGRESS_CHARS 4000

void
ipb_served_call_free(IpbServedCall *call)
{
    ipb_timer_free(call->progress_timer);
    if (call->is_cancelled)
        ipb_rpc_request_drop(call->request);
    ipb_rpc_request_unref(call->request);
    ipb_cell_text_free(call->text);
    g_free(call->package);
    g_free(call->token_json);
    g_string_free(call->news, TRUE);
    g_free(call);
}

IpbServedCall *
ipb_served_call_new(IpbLoop *loop, GPtrArray *calls, IpbRpcRequest *request, const char *tool)
{
    IpbServedCall *call = g_new0(IpbServedCall, 1);
    call->loop = loop;
    call->calls = calls;
    call->tool = tool;
    call->request = ipb_rpc_request_ref(request);
    call->news = g_string_new(NULL);
    const IpbJson *token =
        ipb_json_get(ipb_json_get(ipb_rpc_request_params(request), "_meta"), "progressToken");
    if (ipb_json_is(token, IPB_JSON_STRING) || ipb_json_is(token, IPB_JSON_NUMBER)) {
        IpbSpan raw = ipb_json_raw(token);
        call->token_json = g_strndup(raw.start, raw.size);
    }
    g_ptr_array_add(calls, call);
    return call;
}

void
ipb_served_call_finish(IpbServedCall *call, const char *text, bool is_error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "content");
    ipb_json_begin_array(writer);
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "type", "text");
    ipb_json_member_string(writer, "text", text);
    ipb_json_end_object(writer);
    ipb_json_end_array(writer);
    ipb_json_member_bool(writer, "isError", is_error);
    if (call->cell != 0) {
        ipb_json_key(writer, "_meta");
        ipb_json_begin_object(writer);
        ipb_json_member_int(writer, "ipybox/cell_id", (int64_t) call->cell);
        ipb_json_end_object(writer);
    }
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *result = ipb_json_writer_finish(writer, &size);
    if (!call->is_cancelled)
        ipb_rpc_request_reply(call->request, result, size);
    g_ptr_array_remove(call->calls, call);
}

void
ipb_served_call_send_news(IpbServedCall *call)
{
    if (call->news->len == 0 || call->is_cancelled)
        return;
    /* The end of it, which shows where the work is. */
    glong n_chars = g_utf8_strlen(call->news->str, (gssize) call->news->len);
    const char *tail =
        g_utf8_offset_to_pointer(call->news->str, MAX(n_chars - MAX_PROGRESS_CHARS, 0));
    call->on_progress(call->request, call->token_json, ++call->progress, tail, call->progress_data);
    g_string_truncate(call->news, 0);
}

static void
on_progress_timer(void *data)
{
    IpbServedCall *call = data;
    g_clear_pointer(&call->progress_timer, ipb_timer_free);
    ipb_served_call_send_news(call);
}

void
ipb_served_call_add_news(IpbServedCall *call, const char *text)
{
    if (call->token_json == NULL || text == NULL)
        return;
    if (call->news->len > MAX_PROGRESS_CHARS * 8) /* bytes: more than will be sent */
        g_string_truncate(call->news, 0);
    g_string_append_len(call->news, text, (gssize) MIN(strlen(text), MAX_PROGRESS_CHARS * 8));
    if (call->progress_timer == NULL)
        call->progress_timer =
            ipb_timer_new(call->loop, PROGRESS_INTERVAL_MS, on_progress_timer, call);
}

void
ipb_served_call_fail(IpbServedCall *call, const char *message)
{
    g_autofree char *text = g_strdup_printf(IPB_TOOL_ERROR_PREFIX "%s: %s", call->tool, message);
    ipb_served_call_finish(call, text, true);
}

void
ipb_served_call_refuse(IpbServedCall *call, const char *name, const char *wanted)
{
    g_autofree char *text = g_strdup_printf("invalid argument: %s must be %s", name, wanted);
    ipb_served_call_fail(call, text);
}
