/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbEventStream: server-sent events (text/event-stream) out of the bytes of a hostile server, however they are
 * cut: lines that end in LF, CRLF or CR, a byte order mark, comments, data over several lines.
 *
 * Ownership: plain; no input, no output. The function may not free the stream: it returns false to stop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

typedef struct IpbEventStream IpbEventStream;

typedef struct {
    const char *type; /* "message" if the event does not say */
    const char *data; /* NUL-terminated behind @size bytes; may be empty */
    size_t size;
    const char *id; /* the last that came, in this event or before; NULL: none */
} IpbServerSentEvent;

/* False: nothing more is wanted of these bytes. */
typedef bool (*IpbServerSentEventFunc)(const IpbServerSentEvent *event, void *data);

/* @max_event: bytes of an event, and of a line. */
IpbEventStream *ipb_event_stream_new(size_t max_event);
void ipb_event_stream_free(IpbEventStream *stream);
/* Tells the events that are complete now; also those without data, which only set an id. LIMIT: the message
 * says which maximum; the stream is of no use any more. */
bool ipb_event_stream_push(IpbEventStream *stream, const char *bytes, size_t size,
                           IpbServerSentEventFunc func, void *data, GError **error);
/* The time before a new connection that the server asked for; -1: it did not. At most 1 hour. */
int64_t ipb_event_stream_retry_ms(const IpbEventStream *stream);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbEventStream, ipb_event_stream_free)
