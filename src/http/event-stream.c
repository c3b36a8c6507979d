/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events; see the header and the HTML standard, "Parsing an event stream".
 */
#include "http/event-stream.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

/* Of an event's id and of its type: longer ones are as if they had not been sent. */
#define MAX_NAME 1024
#define MAX_RETRY_MS (60 * 60 * 1000)

struct IpbEventStream {
    size_t max_event;
    GString *line; /* what has come of the current one */
    GString *data; /* of the current event, each line with its LF */
    char *type;    /* of the current event, or NULL */
    char *id;      /* the last, or NULL */
    bool has_fields;
    bool after_cr;  /* an LF now belongs to the line end before it */
    bool has_begun; /* the first line, which may begin with a byte order mark, is over */
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

/* A big event's memory is given back. */
static void
reset(GString **string)
{
    if ((*string)->allocated_len > 64 * 1024) {
        g_string_free(*string, true);
        *string = g_string_new(NULL);
    }
    g_string_truncate(*string, 0);
}

/* The empty line: the event is complete. False: no more is wanted. */
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
    bool goes_on = func(&event, func_data);
    g_clear_pointer(&stream->type, g_free);
    reset(&stream->data);
    return goes_on;
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

/* The line is complete. *ret_goes_on: whether more is wanted. */
static bool
end_line(IpbEventStream *stream, IpbServerSentEventFunc func, void *data, bool *ret_goes_on,
         GError **error)
{
    const char *line = stream->line->str;
    size_t size = stream->line->len;
    if (!stream->has_begun)
        ipb_utf8_skip_mark(&line, &size);
    stream->has_begun = true;
    *ret_goes_on = size > 0 || dispatch(stream, func, data);
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
        bool goes_on;
        if (!end_line(stream, func, data, &goes_on, error))
            return false;
        if (!goes_on)
            return true;
        at = end + 1;
    }
    return true;
}
