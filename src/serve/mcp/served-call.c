/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of tools; see the header.
 */
#include "serve/mcp/served-call.h"

#include <string.h>

/* Progress messages are sent at most so often, with at most so much of the output. */
#define PROGRESS_INTERVAL_MS 100
#define MAX_PROGRESS_CHARS 4000
/* Hosts give up after 60 s or more without a message. */
#define WAITING_INTERVAL_MS 10000

void
ipb_served_call_free(IpbServedCall *call)
{
    if (call->slot != NULL)
        *call->slot = NULL;
    ipb_timer_free(call->progress_timer);
    ipb_timer_free(call->waiting_timer);
    ipb_mcp_request_set_cancel(call->request, NULL, NULL);
    ipb_mcp_request_unref(call->request);
    ipb_cell_text_free(call->text);
    ipb_answer_images_free(call->shown);
    ipb_structured_cell_free(call->cell);
    g_free(call->structured);
    g_free(call->package);
    g_free(call->session_id);
    g_free(call->note);
    g_string_free(call->news, TRUE);
    g_free(call);
}

static void
on_cancel(void *data)
{
    IpbServedCall *call = data;
    call->is_cancelled = true;
    if (call->cancel != NULL)
        call->cancel(call); /* may free the call */
}

IpbServedCall *
ipb_served_call_new(IpbLoop *loop, GPtrArray *calls, IpbMcpRequest *request, const char *tool)
{
    IpbServedCall *call = g_new0(IpbServedCall, 1);
    call->loop = loop;
    call->calls = calls;
    call->tool = tool;
    call->request = ipb_mcp_request_ref(request);
    call->news = g_string_new(NULL);
    ipb_mcp_request_set_cancel(request, on_cancel, call);
    g_ptr_array_add(calls, call);
    return call;
}

/* Members of "_meta" that say what the call is of; NULL: nothing. Caller frees. */
static char *
make_meta(const IpbServedCall *call)
{
    g_autoptr(GString) meta = g_string_new(NULL);
    if (call->session_id != NULL)
        g_string_append_printf(meta, "\"ipybox/session_id\":\"%s\"", call->session_id);
    if (call->cell_id != 0)
        g_string_append_printf(meta, "%s\"ipybox/cell_id\":%" G_GUINT64_FORMAT,
                               meta->len > 0 ? "," : "", call->cell_id);
    return meta->len > 0 ? g_string_free(g_steal_pointer(&meta), FALSE) : NULL;
}

static void
write_text(IpbJsonWriter *writer, const char *text)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "type", "text");
    ipb_json_member_string(writer, "text", text);
    ipb_json_end_object(writer);
}

static void
answer(IpbServedCall *call, const char *text, bool is_error)
{
    if (call->is_cancelled || call->is_answered)
        return;
    call->is_answered = true;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "content");
    ipb_json_begin_array(writer);
    write_text(writer, text);
    if (call->shown != NULL)
        ipb_answer_images_write(call->shown, writer);
    if (call->note != NULL)
        write_text(writer, call->note);
    ipb_json_end_array(writer);
    if (call->structured != NULL) {
        ipb_json_key(writer, "structuredContent");
        ipb_json_write_raw(writer, call->structured, strlen(call->structured));
    }
    ipb_json_member_bool(writer, "isError", is_error);
    ipb_json_end_object(writer);
    g_autofree char *result = ipb_json_writer_finish(writer, NULL);
    g_autofree char *meta = make_meta(call);
    ipb_mcp_request_reply(call->request, result, meta);
}

void
ipb_served_call_finish(IpbServedCall *call, const char *text, bool is_error)
{
    answer(call, text, is_error);
    g_ptr_array_remove(call->calls, call);
}

void
ipb_served_call_answer_early(IpbServedCall *call, const char *message)
{
    g_autofree char *text = g_strdup_printf(IPB_TOOL_ERROR_PREFIX "%s: %s", call->tool, message);
    answer(call, text, true);
}

void
ipb_served_call_finish_named(IpbServedCall *call, const char *name, const char *text)
{
    if (call->is_structured) {
        IpbJsonWriter *writer = ipb_json_writer_new();
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, name, text);
        ipb_json_end_object(writer);
        call->structured = ipb_json_writer_finish(writer, NULL);
    }
    ipb_served_call_finish(call, text, false);
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
    g_autofree char *meta = make_meta(call);
    ipb_mcp_request_progress(call->request, (double) ++call->progress, /* total= */ -1, tail, meta);
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
    if (!ipb_mcp_request_wants_progress(call->request) || text == NULL)
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

static void
on_waiting_timer(void *data)
{
    IpbServedCall *call = data;
    g_autofree char *text = call->n_waits == 0
                                ? g_strdup("[ipybox] waiting for a previous cell to end\n")
                                : g_strdup_printf("[ipybox] still waiting, since %u s\n",
                                                  call->n_waits * (WAITING_INTERVAL_MS / 1000));
    call->n_waits++;
    g_clear_pointer(&call->waiting_timer, ipb_timer_free);
    call->waiting_timer = ipb_timer_new(call->loop, WAITING_INTERVAL_MS, on_waiting_timer, call);
    ipb_served_call_add_news(call, text);
    ipb_served_call_send_news(call);
}

void
ipb_served_call_start_waiting(IpbServedCall *call, bool is_behind)
{
    if (!ipb_mcp_request_wants_progress(call->request))
        return;
    call->n_waits = is_behind ? 0 : 1;
    call->waiting_timer =
        ipb_timer_new(call->loop, is_behind ? 0 : WAITING_INTERVAL_MS, on_waiting_timer, call);
}

void
ipb_served_call_stop_waiting(IpbServedCall *call)
{
    g_clear_pointer(&call->waiting_timer, ipb_timer_free);
}
