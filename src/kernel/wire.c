/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of the kernel wire; see the header. All integers on the wire are little-endian.
 */
#include "kernel/wire.h"

#include <string.h>

#include "base/error.h"

/* The smallest value of the length field: type and marker, no payload. */
#define MIN_LENGTH 5

static uint32_t
read_u32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return GUINT32_FROM_LE(value);
}

static void
write_u32(char *bytes, uint32_t value)
{
    value = GUINT32_TO_LE(value);
    memcpy(bytes, &value, sizeof value);
}

static bool
is_from_kernel(uint8_t type)
{
    return type >= IPB_FRAME_HELLO && type <= IPB_FRAME_REPLY;
}

IpbFrameState
ipb_frame_peek(const uint8_t *bytes, size_t size, IpbFrame *ret_frame, size_t *ret_missing,
               GError **error)
{
    if (size < IPB_FRAME_HEADER_SIZE) {
        *ret_missing = IPB_FRAME_HEADER_SIZE - size;
        if (size < 4)
            return IPB_FRAME_PARTIAL;
    }
    uint32_t length = read_u32(bytes);
    if (length < MIN_LENGTH || length > IPB_FRAME_MAX_LENGTH) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "a frame of length %u (%d to %u are allowed)", length, MIN_LENGTH,
                    IPB_FRAME_MAX_LENGTH);
        return IPB_FRAME_BREACH;
    }
    if (size >= 5 && !is_from_kernel(bytes[4])) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "a frame of the unknown type %u",
                    bytes[4]);
        return IPB_FRAME_BREACH;
    }
    if (size < IPB_FRAME_HEADER_SIZE)
        return IPB_FRAME_PARTIAL;
    size_t frame_size = 4 + (size_t) length;
    if (size < frame_size) {
        *ret_missing = frame_size - size;
        return IPB_FRAME_PARTIAL;
    }
    *ret_frame = (IpbFrame){
        .type = (IpbFrameType) bytes[4],
        .marker = read_u32(bytes + 5),
        .payload = (const char *) bytes + IPB_FRAME_HEADER_SIZE,
        .payload_size = frame_size - IPB_FRAME_HEADER_SIZE,
        .size = frame_size,
    };
    return IPB_FRAME_COMPLETE;
}

char *
ipb_frame_build(IpbFrameType type, const char *payload, size_t payload_size, size_t *ret_size,
                GError **error)
{
    if (payload_size > IPB_FRAME_MAX_PAYLOAD) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%zu bytes are too many for one frame to the kernel (at most %u)", payload_size,
                    IPB_FRAME_MAX_PAYLOAD);
        return NULL;
    }
    size_t size = IPB_FRAME_HEADER_SIZE + payload_size;
    char *frame = g_malloc(size);
    write_u32(frame, (uint32_t) (size - 4));
    frame[4] = (char) type;
    write_u32(frame + 5, 0);
    memcpy(frame + IPB_FRAME_HEADER_SIZE, payload, payload_size);
    *ret_size = size;
    return frame;
}
