/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading frames; see the header.
 */
#include "kernel/wire-reader.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"

/* Read at once: what the frame lacks, within these. */
#define MIN_READ (16 * 1024)
#define MAX_READ (256 * 1024)

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
    if (!reader->has_frame) /* given up meanwhile */
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
