/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel wire; see the header. All integers on the wire are little-endian.
 */
#include "kernel/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"

/* The smallest value of the length field: type and marker, no payload. */
#define MIN_LENGTH 5
/* One read: what the frame lacks, within these bounds. */
#define MIN_READ (16 * 1024)
#define MAX_READ (256 * 1024)

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
    return type >= IPB_FRAME_HELLO && type <= IPB_FRAME_BRANCHED;
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

/* --- reading ---------------------------------------------------------------------------------- */

void
ipb_wire_reader_init(IpbWireReader *reader, int fd)
{
    *reader = (IpbWireReader){.fd = fd};
    ipb_buffer_init(&reader->buffer, IPB_FRAME_MAX_SIZE + MAX_READ);
}

void
ipb_wire_reader_clear(IpbWireReader *reader)
{
    ipb_buffer_clear(&reader->buffer);
    ipb_fd_close(&reader->fd);
    g_clear_error(&reader->error);
}

void
ipb_wire_reader_end(IpbWireReader *reader)
{
    reader->is_ended = true;
    reader->has_frame = false;
    ipb_buffer_clear(&reader->buffer);
}

bool
ipb_wire_reader_find(IpbWireReader *reader)
{
    size_t size = ipb_buffer_size(&reader->buffer), missing;
    if (reader->has_frame || size == 0)
        return false;
    IpbFrameState state = ipb_frame_peek(ipb_buffer_data(&reader->buffer), size, &reader->frame,
                                         &missing, &reader->error);
    reader->has_frame = state == IPB_FRAME_COMPLETE;
    if (state == IPB_FRAME_BREACH)
        ipb_wire_reader_end(reader);
    return reader->has_frame;
}

void
ipb_wire_reader_consume(IpbWireReader *reader)
{
    if (!reader->has_frame) /* the reader has ended since */
        return;
    reader->has_frame = false;
    ipb_buffer_consume(&reader->buffer, reader->frame.size);
    if (ipb_buffer_size(&reader->buffer) == 0)
        ipb_buffer_clear(&reader->buffer);
}

void
ipb_wire_reader_limit(IpbWireReader *reader)
{
    int n_waiting = 0;
    reader->is_limited = true;
    reader->is_dry = false;
    reader->n_left =
        ioctl(reader->fd, FIONREAD, &n_waiting) == 0 && n_waiting > 0 ? (size_t) n_waiting : 0;
}

static size_t
read_size(const IpbWireReader *reader)
{
    size_t n_buffered = ipb_buffer_size(&reader->buffer);
    size_t missing = IPB_FRAME_HEADER_SIZE;
    IpbFrame frame;
    if (n_buffered > 0)
        ipb_frame_peek(ipb_buffer_data(&reader->buffer), n_buffered, &frame, &missing, NULL);
    size_t size = CLAMP(missing, MIN_READ, MAX_READ);
    return reader->is_limited ? MIN(size, reader->n_left) : size;
}

void
ipb_wire_reader_read(IpbWireReader *reader)
{
    size_t size = read_size(reader);
    ssize_t n = 0;
    if (size > 0)
        n = recv(reader->fd, ipb_buffer_reserve(&reader->buffer, size), size, MSG_DONTWAIT);
    if (n > 0) {
        ipb_buffer_commit(&reader->buffer, (size_t) n);
        reader->n_left -= MIN(reader->n_left, (size_t) n);
        reader->is_dry = (size_t) n < size && !reader->is_limited;
        return;
    }
    if (ipb_buffer_size(&reader->buffer) == 0)
        ipb_buffer_clear(&reader->buffer);
    reader->is_dry = true;
    bool is_empty = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (!is_empty || reader->is_limited)
        ipb_wire_reader_end(reader);
}
