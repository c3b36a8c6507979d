/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbEventStream: parses server-sent events (text/event-stream) of a hostile server from bytes that
 * arrive in any pieces: lines that end in LF, CRLF or CR, a byte order mark, comments, data in
 * several lines.
 *
 * Ownership: the owner frees it. It does no input or output. The function must not free the
 * stream; it returns false to stop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

typedef struct IpbEventStream IpbEventStream;

typedef struct {
    /* "message" if the event has no type */
    const char *type;
    /* NUL-terminated after @size bytes; may be empty */
    const char *data;
    size_t size;
    /* The last id, of this event or an earlier one; NULL: none */
    const char *id;
} IpbServerSentEvent;

/* False: nothing more of these bytes is wanted. */
typedef bool (*IpbServerSentEventFunc)(const IpbServerSentEvent *event, void *data);

/* @max_event: maximum bytes of an event, and of a line. */
IpbEventStream *ipb_event_stream_new(size_t max_event);
void ipb_event_stream_free(IpbEventStream *stream);
/* Reports the events that are complete now, including those without data, which only set an id.
 * LIMIT: the message names the maximum, and the stream cannot be used any more. */
bool ipb_event_stream_push(IpbEventStream *stream, const char *bytes, size_t size,
                           IpbServerSentEventFunc func, void *data, GError **error);
/* The delay before a new connection that the server asked for, at most 1 hour; -1: none. */
int64_t ipb_event_stream_retry_ms(const IpbEventStream *stream);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbEventStream, ipb_event_stream_free)
