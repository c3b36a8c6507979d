/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of WebSockets: they are the same if the input comes in two pieces, a message is within
 * its bounds, and we can read what we write. The first byte says which side reads and where the
 * input is cut.
 */
#include <string.h>

#include "http/frames.h"

#define MAX_MESSAGE 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
note(GString *log, const IpbFrames *frames, IpbFramesEvent event)
{
    if (event == IPB_FRAMES_MESSAGE) {
        g_assert(ipb_buffer_size(&frames->message) <= MAX_MESSAGE);
        g_string_append_printf(log, "m%u,%zu;", frames->message_kind,
                               ipb_buffer_size(&frames->message));
        g_string_append_len(log, (const char *) ipb_buffer_data(&frames->message),
                            (gssize) ipb_buffer_size(&frames->message));
    } else if (event == IPB_FRAMES_CONTROL) {
        g_assert(frames->control_size <= IPB_FRAMES_MAX_CONTROL);
        g_string_append_printf(log, "c%u;", frames->kind);
        g_string_append_len(log, (const char *) frames->control, (gssize) frames->control_size);
    } else {
        g_assert(frames->reason != NULL);
        g_string_append_printf(log, "b%u;", frames->code);
    }
}

static bool
feed(IpbFrames *frames, const uint8_t *bytes, size_t size, GString *log)
{
    IpbFramesEvent event;
    while ((event = ipb_frames_take(frames, &bytes, &size)) != IPB_FRAMES_MORE) {
        note(log, frames, event);
        if (event == IPB_FRAMES_BAD)
            return false;
    }
    g_assert(size == 0);
    return true;
}

static char *
read_cut(bool is_server, const uint8_t *bytes, size_t size, size_t cut)
{
    GString *log = g_string_new(NULL);
    IpbFrames frames;
    ipb_frames_init(&frames, is_server, MAX_MESSAGE);
    if (feed(&frames, bytes, cut, log))
        feed(&frames, bytes + cut, size - cut, log);
    ipb_frames_clear(&frames);
    return g_string_free(log, FALSE);
}

static void
check_round_trip(bool is_server, const uint8_t *bytes, size_t size)
{
    IpbBuffer out;
    IpbFrames frames;
    if (size > MAX_MESSAGE)
        return;
    ipb_buffer_init(&out, MAX_MESSAGE + IPB_FRAMES_MAX_HEAD);
    ipb_frames_init(&frames, is_server, MAX_MESSAGE);
    g_assert(ipb_frames_append(&out, IPB_FRAME_BINARY, bytes, size,
                               is_server ? (const uint8_t *) "\1\2\3\4" : NULL));
    const uint8_t *at = ipb_buffer_data(&out);
    size_t left = ipb_buffer_size(&out);
    g_assert(ipb_frames_take(&frames, &at, &left) == IPB_FRAMES_MESSAGE && left == 0);
    g_assert(ipb_buffer_size(&frames.message) == size);
    g_assert(size == 0 || memcmp(ipb_buffer_data(&frames.message), bytes, size) == 0);
    ipb_frames_clear(&frames);
    ipb_buffer_clear(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bool is_server = (data[0] & 1) != 0;
    size_t cut = size > 1 ? (data[0] >> 1) % size : 0;
    g_autofree uint8_t *bytes = g_memdup2(data + 1, size - 1);
    g_autofree char *whole = read_cut(is_server, bytes, size - 1, 0);
    g_autofree char *parts = read_cut(is_server, bytes, size - 1, MIN(cut, size - 1));
    g_assert_cmpstr(whole, ==, parts);
    check_round_trip(is_server, bytes, size - 1);
    return 0;
}
