/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel and the forkserver send: frames, what is in them, and packets. The first byte says which.
 */
#include <string.h>

#include "kernel/control.h"
#include "kernel/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_text(const char *text)
{
    g_assert(text == NULL || g_utf8_validate(text, -1, NULL));
}

static void
check_message(const IpbFrame *frame)
{
    g_auto(IpbMessage) message = {0};
    g_autoptr(GError) error = NULL;
    if (!ipb_message_parse(frame, &message, &error)) {
        g_assert(error != NULL && message.document == NULL);
        check_text(error->message);
        return;
    }
    check_text(message.event.text);
    check_text(message.event.ename);
    check_text(message.event.evalue);
    check_text(message.event.display_id);
    g_assert(message.event.text == NULL || strlen(message.event.text) == message.event.text_size);
}

static void
read_frames(const uint8_t *data, size_t size)
{
    for (;;) {
        IpbFrame frame;
        size_t missing = 0;
        g_autoptr(GError) error = NULL;
        IpbFrameState state = ipb_frame_peek(data, size, &frame, &missing, &error);
        g_assert((error != NULL) == (state == IPB_FRAME_BREACH));
        if (state == IPB_FRAME_PARTIAL)
            g_assert(missing > 0);
        if (state != IPB_FRAME_COMPLETE)
            return;
        g_assert(frame.size <= size && frame.size >= IPB_FRAME_HEADER_SIZE);
        check_message(&frame);
        data += frame.size;
        size -= frame.size;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] != 'c') {
        read_frames(data + 1, size - 1);
        return 0;
    }
    g_auto(IpbControlMessage) message = {0};
    ipb_control_parse((const char *) data + 1, size - 1, &message, NULL);
    for (char **name = message.missing; name != NULL && *name != NULL; name++)
        check_text(*name);
    for (char **line = message.preload_failures; line != NULL && *line != NULL; line++)
        check_text(*line);
    return 0;
}
