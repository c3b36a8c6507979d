/* SPDX-License-Identifier: Apache-2.0
 *
 * Late output as log notifications; see the header.
 */
#include "serve/mcp/late-log.h"

#include <string.h>

#include "kernel/bundle-text.h"

/* Text is sent at most so often, with at most so much of it. */
#define SEND_INTERVAL_MS 100
#define MAX_CHARS 4000
#define MAX_BYTES (MAX_CHARS * 4)
#define LOGGER "ipybox.late_output"

/* Lowest first. */
static const char *const LEVELS[] = {"debug", "info",     "notice", "warning",
                                     "error", "critical", "alert",  "emergency"};
#define LEVEL_INFO 1

struct IpbLateLog {
    IpbLoop *loop;
    IpbConversation *conversation;
    size_t level;
    /* Of one stream of one cell; empty: none waits */
    GString *text;
    int64_t execution_count;
    IpbEventType stream;
    bool is_cut;
    IpbTimer *timer;
};

IpbLateLog *
ipb_late_log_new(IpbLoop *loop, IpbConversation *conversation)
{
    IpbLateLog *log = g_new0(IpbLateLog, 1);
    log->loop = loop;
    log->conversation = conversation;
    log->text = g_string_new(NULL);
    return log;
}

void
ipb_late_log_free(IpbLateLog *log)
{
    if (log == NULL)
        return;
    ipb_timer_free(log->timer);
    g_string_free(log->text, TRUE);
    g_free(log);
}

bool
ipb_late_log_set_level(IpbLateLog *log, const char *level)
{
    for (size_t i = 0; i < G_N_ELEMENTS(LEVELS); i++) {
        if (g_strcmp0(level, LEVELS[i]) == 0) {
            log->level = i;
            return true;
        }
    }
    return false;
}

static bool
is_wanted(const IpbLateLog *log)
{
    return log->level <= LEVEL_INFO && !ipb_conversation_is_congested(log->conversation);
}

/* --- messages --------------------------------------------------------------------------------- */

/* Write members of the data between these two. */
static IpbJsonWriter *
begin_message(int64_t execution_count, const char *stream)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "level", LEVELS[LEVEL_INFO]);
    ipb_json_member_string(writer, "logger", LOGGER);
    ipb_json_key(writer, "data");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "cell");
    if (execution_count > 0)
        ipb_json_write_int(writer, execution_count);
    else
        ipb_json_write_null(writer);
    ipb_json_member_string(writer, "stream", stream);
    return writer;
}

static void
send_message(IpbLateLog *log, IpbJsonWriter *writer)
{
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    g_autofree char *params = ipb_json_writer_finish(writer, NULL);
    ipb_rpc_peer_notify(ipb_conversation_peer(log->conversation), "notifications/message", params);
}

/* Writes the end of a text, which shows where the work is. */
static void
write_text(IpbJsonWriter *writer, const char *text, bool is_cut)
{
    glong n_chars = g_utf8_strlen(text, -1);
    const char *tail = g_utf8_offset_to_pointer(text, MAX(n_chars - MAX_CHARS, 0));
    ipb_json_member_string(writer, "text", tail);
    if (is_cut || tail != text)
        ipb_json_member_bool(writer, "truncated", true);
}

static void
flush(IpbLateLog *log)
{
    g_clear_pointer(&log->timer, ipb_timer_free);
    if (log->text->len > 0 && is_wanted(log)) {
        IpbJsonWriter *writer = begin_message(log->execution_count, ipb_event_name(log->stream));
        write_text(writer, log->text->str, log->is_cut);
        send_message(log, writer);
    }
    g_string_truncate(log->text, 0);
    log->is_cut = false;
}

static void
on_timer(void *data)
{
    flush(data);
}

/* --- events ----------------------------------------------------------------------------------- */

/* The end of @text that is at most MAX_BYTES, and does not begin within a character. */
static const char *
end_of(const char *text)
{
    size_t size = strlen(text);
    const char *end = text + (size > MAX_BYTES ? size - MAX_BYTES : 0);
    while (((unsigned char) *end & 0xc0) == 0x80)
        end++;
    return end;
}

static void
add_text(IpbLateLog *log, const IpbEvent *event)
{
    if (log->text->len > 0 &&
        (log->execution_count != event->execution_count || log->stream != event->type))
        flush(log);
    log->execution_count = event->execution_count;
    log->stream = event->type;
    const char *end = end_of(event->text);
    if (log->text->len + strlen(end) > (size_t) 2 * MAX_BYTES) {
        g_autofree char *kept = g_strdup(end_of(log->text->str));
        g_string_assign(log->text, strlen(end) < MAX_BYTES ? kept : "");
        log->is_cut = true;
    }
    g_string_append(log->text, end);
    log->is_cut = log->is_cut || end != event->text;
    if (log->timer == NULL)
        log->timer = ipb_timer_new(log->loop, SEND_INTERVAL_MS, on_timer, log);
}

static void
add_bundle(IpbLateLog *log, const IpbEvent *event)
{
    flush(log);
    g_autofree char *text = ipb_bundle_text(event->data);
    IpbJsonWriter *writer = begin_message(event->execution_count, ipb_event_name(event->type));
    if (text != NULL)
        write_text(writer, text, false);
    if (event->image_path != NULL)
        ipb_json_member_string(writer, "image", event->image_path);
    send_message(log, writer);
}

void
ipb_late_log_add(IpbLateLog *log, const IpbEvent *event)
{
    if (!is_wanted(log))
        return;
    if (event->data != NULL)
        add_bundle(log, event);
    else if (event->text != NULL && event->text[0] != '\0')
        add_text(log, event);
}
