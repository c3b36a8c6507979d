/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events: the events are the same if the input comes at once or in two pieces, and
 * none exceeds the maximum.
 */
#include "http/event-stream.h"

#include <string.h>

#define MAX_EVENT 64

static bool
on_event(const IpbServerSentEvent *event, void *data)
{
    GString *seen = data;
    g_assert_cmpuint(event->size, <=, MAX_EVENT);
    g_assert_cmpint(event->data[event->size], ==, '\0');
    g_string_append_printf(seen, "%s|%s|", event->type, event->id != NULL ? event->id : "-");
    g_string_append_len(seen, event->data, (gssize) event->size);
    g_string_append_c(seen, '\n');
    return true;
}

static char *
read_all(const char *bytes, size_t size, size_t cut)
{
    g_autoptr(IpbEventStream) stream = ipb_event_stream_new(MAX_EVENT);
    g_autoptr(GError) error = NULL;
    GString *seen = g_string_new(NULL);
    if (!ipb_event_stream_push(stream, bytes, cut, on_event, seen, &error) ||
        !ipb_event_stream_push(stream, bytes + cut, size - cut, on_event, seen, &error))
        g_string_append(seen, error->message);
    g_string_append_printf(seen, "%d", (int) ipb_event_stream_retry_ms(stream));
    return g_string_free(seen, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    g_autofree char *at_once = read_all((const char *) bytes, size, 0);
    g_autofree char *in_pieces =
        read_all((const char *) bytes, size, size > 0 ? bytes[0] % size : 0);
    g_assert_cmpstr(at_once, ==, in_pieces);
    return 0;
}
