/* SPDX-License-Identifier: Apache-2.0 */
#include "http/event-stream.h"

#include <string.h>

#include "base/error.h"

static bool
on_event(const IpbServerSentEvent *event, void *data)
{
    g_string_append_printf(data, "%s/%s/%s;", event->type, event->id != NULL ? event->id : "-",
                           event->data);
    return strcmp(event->type, "stop") != 0;
}

static void
assert_read(const char *text, const char *expected)
{
    size_t size = strlen(text);
    for (size_t step = 1; step <= size; step++) {
        g_autoptr(IpbEventStream) stream = ipb_event_stream_new(100);
        GString *seen = g_string_new(NULL);
        for (size_t at = 0; at < size; at += step)
            g_assert_true(ipb_event_stream_push(stream, text + at, MIN(step, size - at), on_event,
                                                seen, NULL));
        g_assert_cmpstr(seen->str, ==, expected);
        g_string_free(seen, true);
    }
}

static void
test_events(void)
{
    assert_read("data: a\n\ndata:b\r\n\r\ndata:  c\r\r", "message/-/a;message/-/b;message/-/ c;");
    assert_read("event: x\nid: 7\ndata: 1\ndata: 2\ndata\n\ndata: y\n\n",
                "x/7/1\n2\n;message/7/y;");
    assert_read("\xef\xbb\xbf"
                "data: a\n\n",
                "message/-/a;");
    assert_read("\xef\xbb"
                "data: a\n\ndata: b\n\n",
                "message/-/b;");
    assert_read(": ping\n\n\nfoo: bar\n\nid: 3\ndata:\n\n", "message/3/;");
    assert_read("data: unfinished\n", "");
}

static void
test_retry(void)
{
    static const struct {
        const char *text;
        int64_t expected;
    } CASES[] = {{"retry: 250\n", 250},
                 {"retry: 0\n", 0},
                 {"retry: -1\n", -1},
                 {"retry: 1.5\n", -1},
                 {"retry:\n", -1},
                 {"retry: 99999999999\n", 3600000},
                 {"retry: 9999999999999999999999\n", -1}};
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autoptr(IpbEventStream) stream = ipb_event_stream_new(100);
        g_assert_true(ipb_event_stream_push(stream, CASES[i].text, strlen(CASES[i].text), on_event,
                                            NULL, NULL));
        g_assert_cmpint(ipb_event_stream_retry_ms(stream), ==, CASES[i].expected);
    }
}

static void
test_limits(void)
{
    g_autofree char *line = g_strnfill(101, 'x');
    static const char PART[] = "data: 0123456789012345678901234567890123456789\n";
    g_autoptr(IpbEventStream) stream = ipb_event_stream_new(100);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipb_event_stream_push(stream, line, 101, on_event, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_nonnull(strstr(error->message, "a line of its event stream has more than 100 bytes"));
    g_clear_error(&error);
    g_autoptr(IpbEventStream) other = ipb_event_stream_new(100);
    g_assert_true(ipb_event_stream_push(other, PART, strlen(PART), on_event, NULL, &error));
    g_assert_true(ipb_event_stream_push(other, PART, strlen(PART), on_event, NULL, &error));
    g_assert_false(ipb_event_stream_push(other, PART, strlen(PART), on_event, NULL, &error));
    g_assert_nonnull(strstr(error->message, "an event of its event stream has more than 100"));
}

static void
test_stop(void)
{
    static const char TEXT[] = "event: stop\ndata: 1\n\ndata: 2\n\n";
    g_autoptr(IpbEventStream) stream = ipb_event_stream_new(100);
    GString *seen = g_string_new(NULL);
    g_assert_true(ipb_event_stream_push(stream, TEXT, strlen(TEXT), on_event, seen, NULL));
    g_assert_cmpstr(seen->str, ==, "stop/-/1;");
    g_string_free(seen, true);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http/event-stream/events", test_events);
    g_test_add_func("/http/event-stream/retry", test_retry);
    g_test_add_func("/http/event-stream/limits", test_limits);
    g_test_add_func("/http/event-stream/stop", test_stop);
    return g_test_run();
}
