/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of WebSockets; see the header.
 */
#include "http/frames.h"

#include <string.h>

#include <glib.h>

/* Bytes of the shortest head, which say how long the head is. */
#define MIN_HEAD 2
#define MASK_SIZE 4

void
ipb_frames_init(IpbFrames *frames, bool is_server, size_t max_message)
{
    *frames = (IpbFrames){.is_server = is_server, .head_size = MIN_HEAD};
    ipb_buffer_init(&frames->message, max_message);
}

void
ipb_frames_clear(IpbFrames *frames)
{
    ipb_buffer_clear(&frames->message);
}

bool
ipb_frames_is_utf8(const char *bytes, size_t size)
{
    const char *end = bytes + size;
    const char *valid_end;
    while (!g_utf8_validate(bytes, end - bytes, &valid_end)) {
        if (valid_end == end || *valid_end != '\0')
            return false;
        bytes = valid_end + 1;
    }
    return true;
}

static bool
is_control(IpbFrameKind kind)
{
    return ((unsigned) kind & 8) != 0;
}

static IpbFramesEvent
refuse(IpbFrames *frames, unsigned code, const char *reason)
{
    frames->code = code;
    frames->reason = reason;
    return IPB_FRAMES_BAD;
}

/* Checks the first two bytes, which say how long the head is. NULL, or what is wrong. */
static const char *
check_start(IpbFrames *frames)
{
    const uint8_t *head = frames->head;
    unsigned kind = head[0] & 0x0f;
    unsigned length = head[1] & 0x7f;
    bool is_masked = (head[1] & 0x80) != 0;
    frames->is_last = (head[0] & 0x80) != 0;
    frames->kind = (IpbFrameKind) kind;
    if ((head[0] & 0x70) != 0)
        return "a frame of an extension that was not agreed on";
    if ((kind > IPB_FRAME_BINARY && kind < IPB_FRAME_CLOSE) || kind > IPB_FRAME_PONG)
        return "a frame of an unknown kind";
    if (is_masked != frames->is_server)
        return is_masked ? "a masked frame from a server" : "a frame that is not masked";
    if (is_control(frames->kind) && (!frames->is_last || length > IPB_FRAMES_MAX_CONTROL))
        return "a control frame that is too long or fragmented";
    if (kind == IPB_FRAME_CONTINUATION && frames->message_kind == IPB_FRAME_CONTINUATION)
        return "a continuation frame without a message to continue";
    if ((kind == IPB_FRAME_TEXT || kind == IPB_FRAME_BINARY) &&
        frames->message_kind != IPB_FRAME_CONTINUATION)
        return "a message within another";
    frames->head_size = MIN_HEAD +
                        (length == 126   ? 2u
                         : length == 127 ? 8u
                                         : 0u) +
                        (is_masked ? MASK_SIZE : 0u);
    return NULL;
}

static IpbFramesEvent
finish_head(IpbFrames *frames)
{
    unsigned short_length = frames->head[1] & 0x7f;
    size_t n_bytes = short_length == 126 ? 2 : short_length == 127 ? 8 : 0;
    uint64_t length = n_bytes == 0 ? short_length : 0;
    for (size_t i = 0; i < n_bytes; i++)
        length = length << 8 | frames->head[MIN_HEAD + i];
    if ((n_bytes == 2 && length < 126) ||
        (n_bytes == 8 && (length <= UINT16_MAX || length > INT64_MAX)))
        return refuse(frames, IPB_CLOSE_PROTOCOL, "a length that is written in a wrong way");
    frames->left = length;
    frames->mask_at = 0;
    if (is_control(frames->kind)) {
        frames->control_size = 0;
        return IPB_FRAMES_MORE;
    }
    if (length > frames->message.max_size - ipb_buffer_size(&frames->message))
        return refuse(frames, IPB_CLOSE_TOO_BIG, "the message is too large");
    if (frames->kind != IPB_FRAME_CONTINUATION)
        frames->message_kind = frames->kind;
    return IPB_FRAMES_MORE;
}

/* True: the head is complete, or @ret_event is BAD. */
static bool
take_head(IpbFrames *frames, const uint8_t **bytes, size_t *size, IpbFramesEvent *ret_event)
{
    *ret_event = IPB_FRAMES_MORE;
    while (*size > 0 && frames->n_head < frames->head_size) {
        frames->head[frames->n_head++] = *(*bytes)++;
        (*size)--;
        const char *wrong = frames->n_head == MIN_HEAD ? check_start(frames) : NULL;
        if (wrong != NULL) {
            *ret_event = refuse(frames, IPB_CLOSE_PROTOCOL, wrong);
            return true;
        }
    }
    if (frames->n_head < frames->head_size)
        return false;
    *ret_event = finish_head(frames);
    return true;
}

/* The mask is the end of the head. */
static void
unmask(IpbFrames *frames, uint8_t *to, const uint8_t *from, size_t size)
{
    if (!frames->is_server) {
        memcpy(to, from, size);
        return;
    }
    const uint8_t *mask = frames->head + frames->head_size - MASK_SIZE;
    for (size_t i = 0; i < size; i++)
        to[i] = from[i] ^ mask[(frames->mask_at + i) % MASK_SIZE];
    frames->mask_at = (frames->mask_at + size) % MASK_SIZE;
}

static void
take_payload(IpbFrames *frames, const uint8_t **bytes, size_t *size)
{
    size_t taken = (size_t) MIN(frames->left, *size);
    uint8_t *room = is_control(frames->kind) ? frames->control + frames->control_size
                                             : ipb_buffer_reserve(&frames->message, taken);
    if (taken > 0)
        unmask(frames, room, *bytes, taken);
    if (is_control(frames->kind))
        frames->control_size += taken;
    else
        ipb_buffer_commit(&frames->message, taken);
    frames->left -= taken;
    *bytes += taken;
    *size -= taken;
}

static bool
is_close_code(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static IpbFramesEvent
check_close(IpbFrames *frames)
{
    frames->code = IPB_CLOSE_NO_CODE;
    if (frames->control_size == 0)
        return IPB_FRAMES_CONTROL;
    unsigned code = frames->control_size == 1 ? 0 : frames->control[0] * 256u + frames->control[1];
    if (!is_close_code(code))
        return refuse(frames, IPB_CLOSE_PROTOCOL, "a close with a wrong code");
    if (!ipb_frames_is_utf8((const char *) frames->control + 2, frames->control_size - 2))
        return refuse(frames, IPB_CLOSE_NO_UTF8, "a reason that is no UTF-8");
    frames->code = code;
    return IPB_FRAMES_CONTROL;
}

static IpbFramesEvent
finish_frame(IpbFrames *frames)
{
    frames->n_head = 0;
    frames->head_size = MIN_HEAD;
    if (frames->kind == IPB_FRAME_CLOSE)
        return check_close(frames);
    if (is_control(frames->kind))
        return IPB_FRAMES_CONTROL;
    if (!frames->is_last)
        return IPB_FRAMES_MORE;
    if (frames->message_kind == IPB_FRAME_TEXT &&
        !ipb_frames_is_utf8((const char *) ipb_buffer_data(&frames->message),
                            ipb_buffer_size(&frames->message)))
        return refuse(frames, IPB_CLOSE_NO_UTF8, "a text that is no UTF-8");
    frames->is_message_reported = true;
    return IPB_FRAMES_MESSAGE;
}

IpbFramesEvent
ipb_frames_take(IpbFrames *frames, const uint8_t **bytes, size_t *size)
{
    IpbFramesEvent event = IPB_FRAMES_MORE;
    if (frames->reason != NULL)
        return IPB_FRAMES_BAD;
    if (frames->is_message_reported) {
        ipb_buffer_consume(&frames->message, ipb_buffer_size(&frames->message));
        frames->message_kind = IPB_FRAME_CONTINUATION;
        frames->is_message_reported = false;
    }
    while (event == IPB_FRAMES_MORE) {
        bool is_in_head = frames->n_head < frames->head_size;
        if (is_in_head && !take_head(frames, bytes, size, &event))
            return IPB_FRAMES_MORE;
        if (event != IPB_FRAMES_MORE)
            return event;
        take_payload(frames, bytes, size);
        if (frames->left > 0)
            return IPB_FRAMES_MORE;
        event = finish_frame(frames);
    }
    return event;
}

bool
ipb_frames_append(IpbBuffer *out, IpbFrameKind kind, const void *payload, size_t size,
                  const uint8_t *mask)
{
    uint8_t *at = ipb_buffer_reserve(out, size + IPB_FRAMES_MAX_HEAD);
    if (at == NULL)
        return false;
    size_t n_bytes = size < 126 ? 0 : size <= UINT16_MAX ? 2 : 8;
    size_t n = 0;
    at[n++] = (uint8_t) (0x80 | kind);
    at[n++] = (uint8_t) ((mask != NULL ? 0x80 : 0) | (n_bytes == 0   ? size
                                                      : n_bytes == 2 ? 126u
                                                                     : 127u));
    for (size_t i = 0; i < n_bytes; i++)
        at[n++] = (uint8_t) ((uint64_t) size >> (8 * (n_bytes - 1 - i)));
    if (mask != NULL) {
        memcpy(at + n, mask, MASK_SIZE);
        n += MASK_SIZE;
    }
    const uint8_t *from = payload;
    for (size_t i = 0; i < size; i++)
        at[n + i] = mask != NULL ? from[i] ^ mask[i % MASK_SIZE] : from[i];
    ipb_buffer_commit(out, n + size);
    return true;
}
