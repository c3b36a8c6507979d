/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbWireReader: reads a kernel's end of the wire and cuts it into frames, one at a time: while there is a whole
 * frame, nothing more is read, so what a kernel sends ahead waits in the socket, not here. Plain
 * struct, owned by value; the fd is its own.
 */
#pragma once

#include "base/buffer.h"
#include "kernel/wire.h"

typedef struct {
    int fd;
    IpbBuffer buffer;
    IpbFrame frame; /* the oldest, with has_frame; in the buffer */
    bool has_frame;
    bool is_dry;     /* the last read took all there was; the owner may clear it */
    bool is_ended;   /* end of file, breach, or given up: nothing comes any more */
    GError *error;   /* of a breach */
    bool is_limited; /* see ipb_wire_reader_limit */
    size_t n_left;
} IpbWireReader;

void ipb_wire_reader_init(IpbWireReader *reader, int fd);
void ipb_wire_reader_clear(IpbWireReader *reader);
/* Looks for a frame unless there is one; true if one was found now. */
bool ipb_wire_reader_find(IpbWireReader *reader);
/* One read, without blocking. */
void ipb_wire_reader_read(IpbWireReader *reader);
/* The frame was dealt with. */
void ipb_wire_reader_consume(IpbWireReader *reader);
/* Only what is in the socket at this moment is read, then the wire has ended. */
void ipb_wire_reader_limit(IpbWireReader *reader);
/* Gives the rest up. */
void ipb_wire_reader_end(IpbWireReader *reader);
