/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events; see the header and the HTML standard, "Parsing an event stream".
 */
#include "http/event-stream.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

/* Bytes of an event's id, and of its type. Longer ones are ignored. */
#define MAX_NAME 1024
#define MAX_RETRY_MS (60 * 60 * 1000)

struct IpbEventStream {
    size_t max_event;
    /* The received part of the current line */
    GString *line;
    /* Of the current event, each line with its LF */
    GString *data;
    /* Of the current event, or NULL */
    char *type;
    /* The last one, or NULL */
    char *id;
    bool has_fields;
    /* An LF now belongs to the CR before it. */
    bool after_cr;
    /* The first line, which may begin with a byte order mark, is over. */
    bool has_begun;
    int64_t retry_ms;
};

IpbEventStream *
ipb_event_stream_new(size_t max_event)
{
    IpbEventStream *stream = g_new0(IpbEventStream, 1);
    stream->max_event = max_event;
    stream->line = g_string_new(NULL);
    stream->data = g_string_new(NULL);
    stream->retry_ms = -1;
    return stream;
}

void
ipb_event_stream_free(IpbEventStream *stream)
{
    if (stream == NULL)
        return;
    g_string_free(stream->line, true);
    g_string_free(stream->data, true);
    g_free(stream->type);
    g_free(stream->id);
    g_free(stream);
}

int64_t
ipb_event_stream_retry_ms(const IpbEventStream *stream)
{
    return stream->retry_ms;
}

/* Returns the memory of a large event. */
static void
reset(GString **string)
{
    if ((*string)->allocated_len > 64 * 1024) {
        g_string_free(*string, true);
        *string = g_string_new(NULL);
    }
    g_string_truncate(*string, 0);
}

/* At an empty line: the event is complete. False: nothing more is wanted. */
static bool
dispatch(IpbEventStream *stream, IpbServerSentEventFunc func, void *func_data)
{
    if (!stream->has_fields)
        return true;
    GString *data = stream->data;
    if (data->len > 0)
        g_string_truncate(data, data->len - 1); /* the last LF */
    IpbServerSentEvent event = {
        .type = stream->type != NULL && *stream->type != '\0' ? stream->type : "message",
        .data = data->str,
        .size = data->len,
        .id = stream->id,
    };
    stream->has_fields = false;
    bool is_wanted = func(&event, func_data);
    g_clear_pointer(&stream->type, g_free);
    reset(&stream->data);
    return is_wanted;
}

static void
set_retry(IpbEventStream *stream, const char *value, size_t size)
{
    int64_t ms = 0;
    if (size == 0 || size > 18)
        return;
    for (size_t i = 0; i < size; i++) {
        if (!g_ascii_isdigit(value[i]))
            return;
        ms = ms * 10 + (value[i] - '0');
    }
    stream->retry_ms = MIN(ms, MAX_RETRY_MS);
}

static bool
add_data(IpbEventStream *stream, const char *value, size_t size, GError **error)
{
    if (size >= stream->max_event || stream->data->len > stream->max_event - size - 1) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "an event of its event stream has more than %zu bytes, the maximum",
                    stream->max_event);
        return false;
    }
    g_string_append_len(stream->data, value, (gssize) size);
    g_string_append_c(stream->data, '\n');
    return true;
}

static bool
is_field(const char *line, size_t size, const char *name)
{
    return size == strlen(name) && memcmp(line, name, size) == 0;
}

/* A line that is not empty. */
static bool
take_field(IpbEventStream *stream, const char *line, size_t size, GError **error)
{
    const char *colon = memchr(line, ':', size);
    size_t name_size = colon != NULL ? (size_t) (colon - line) : size;
    if (name_size == 0)
        return true; /* a comment */
    const char *value = colon != NULL ? colon + 1 : line + size;
    size_t value_size = size - (size_t) (value - line);
    if (value_size > 0 && *value == ' ') {
        value++;
        value_size--;
    }
    bool is_name = value_size <= MAX_NAME && memchr(value, '\0', value_size) == NULL;
    if (is_field(line, name_size, "data")) {
        stream->has_fields = true;
        return add_data(stream, value, value_size, error);
    }
    if (is_field(line, name_size, "event") && is_name) {
        stream->has_fields = true;
        g_free(stream->type);
        stream->type = g_strndup(value, value_size);
    } else if (is_field(line, name_size, "id") && is_name) {
        stream->has_fields = true;
        g_free(stream->id);
        stream->id = g_strndup(value, value_size);
    } else if (is_field(line, name_size, "retry")) {
        set_retry(stream, value, value_size);
    }
    return true;
}

static bool
add_to_line(IpbEventStream *stream, const char *bytes, size_t size, GError **error)
{
    if (size > stream->max_event - stream->line->len) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "a line of its event stream has more than %zu bytes, the maximum",
                    stream->max_event);
        return false;
    }
    g_string_append_len(stream->line, bytes, (gssize) size);
    return true;
}

/* The line is complete. *ret_is_wanted: the function wants more. */
static bool
end_line(IpbEventStream *stream, IpbServerSentEventFunc func, void *data, bool *ret_is_wanted,
         GError **error)
{
    const char *line = stream->line->str;
    size_t size = stream->line->len;
    if (!stream->has_begun)
        ipb_utf8_skip_mark(&line, &size);
    stream->has_begun = true;
    *ret_is_wanted = size > 0 || dispatch(stream, func, data);
    bool ok = size == 0 || take_field(stream, line, size, error);
    reset(&stream->line);
    return ok;
}

bool
ipb_event_stream_push(IpbEventStream *stream, const char *bytes, size_t size,
                      IpbServerSentEventFunc func, void *data, GError **error)
{
    size_t at = 0;
    while (at < size) {
        if (stream->after_cr && bytes[at] == '\n')
            at++;
        stream->after_cr = false;
        size_t end = at;
        while (end < size && bytes[end] != '\n' && bytes[end] != '\r')
            end++;
        if (end > at && !add_to_line(stream, bytes + at, end - at, error))
            return false;
        if (end == size)
            return true;
        stream->after_cr = bytes[end] == '\r';
        bool is_wanted;
        if (!end_line(stream, func, data, &is_wanted, error))
            return false;
        if (!is_wanted)
            return true;
        at = end + 1;
    }
    return true;
}
