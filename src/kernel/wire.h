/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel wire (docs/internals/kernel-wire.md): IpbFrame, a frame in the bytes that a kernel
 * sent, which are hostile, and frames for the kernel; and IpbWireReader, which reads a kernel's end
 * of the wire. kernel/messages.h knows what is in a payload.
 *
 * The reader finds one frame at a time. While there is a whole frame, nothing more is read, so what
 * a kernel sends ahead waits in the socket. Plain struct, owned by value; the fd belongs to it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/buffer.h"

#define IPB_WIRE_VERSION 1
/* The length field and what it counts before the payload. */
#define IPB_FRAME_HEADER_SIZE 9
/* The largest value of the length field, and the largest frame. */
#define IPB_FRAME_MAX_LENGTH (64u * 1024 * 1024)
#define IPB_FRAME_MAX_SIZE (4 + IPB_FRAME_MAX_LENGTH)
#define IPB_FRAME_MAX_PAYLOAD (IPB_FRAME_MAX_SIZE - IPB_FRAME_HEADER_SIZE)

typedef enum {
    /* to the kernel */
    IPB_FRAME_START = 1,
    IPB_FRAME_EXECUTE = 2,
    IPB_FRAME_SHUTDOWN = 3,
    IPB_FRAME_REQUEST = 4,
    IPB_FRAME_INPUT = 5,
    IPB_FRAME_PIPES = 6,
    IPB_FRAME_COMM_TO_KERNEL = 7,
    IPB_FRAME_BRANCH = 8,
    IPB_FRAME_PARK = 9,
    IPB_FRAME_RESTORE = 10,
    /* from the kernel */
    IPB_FRAME_HELLO = 64,
    IPB_FRAME_DISPLAY = 65,
    IPB_FRAME_UPDATE_DISPLAY = 66,
    IPB_FRAME_CLEAR_OUTPUT = 67,
    IPB_FRAME_RESULT = 68,
    IPB_FRAME_ERROR = 69,
    IPB_FRAME_DONE = 70,
    IPB_FRAME_REPLY = 71,
    IPB_FRAME_INPUT_REQUEST = 72,
    IPB_FRAME_INPUT_END = 73,
    IPB_FRAME_STREAM = 74,
    IPB_FRAME_COMM = 75,
    IPB_FRAME_PIPES_WANTED = 76,
    IPB_FRAME_PIPES_TAKEN = 77,
    IPB_FRAME_BRANCHED = 78,
} IpbFrameType;

/* A frame in a buffer of the caller. */
typedef struct {
    IpbFrameType type;
    uint32_t marker;     /* 0: none */
    const char *payload; /* no NUL at its end */
    size_t payload_size;
    size_t size; /* of the whole frame */
} IpbFrame;

typedef enum {
    IPB_FRAME_PARTIAL, /* more bytes are needed */
    IPB_FRAME_COMPLETE,
    IPB_FRAME_BREACH, /* the bytes are no frame that a kernel may send: PROTOCOL */
} IpbFrameState;

/* Looks at the frame that begins at @bytes. The header is checked as soon as it is complete, so a
 * frame with a bad length is never waited for. *@ret_missing (for PARTIAL): at least so many bytes
 * are missing. */
IpbFrameState ipb_frame_peek(const uint8_t *bytes, size_t size, IpbFrame *ret_frame,
                             size_t *ret_missing, GError **error);

/* A frame for the kernel, caller frees; NULL with LIMIT if the payload is too large. */
char *ipb_frame_build(IpbFrameType type, const char *payload, size_t payload_size, size_t *ret_size,
                      GError **error);

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    IpbBuffer buffer;
    IpbFrame frame; /* with has_frame: the oldest, in the buffer */
    bool has_frame;
    bool is_dry;     /* the last read emptied the socket; the owner may clear it */
    bool is_ended;   /* end of file, breach, or ipb_wire_reader_end(): nothing more is read */
    GError *error;   /* of a breach */
    bool is_limited; /* see ipb_wire_reader_limit() */
    size_t n_left;   /* bytes to read, if limited */
} IpbWireReader;

void ipb_wire_reader_init(IpbWireReader *reader, int fd);
void ipb_wire_reader_clear(IpbWireReader *reader);
/* Looks for a frame in the buffer, unless there is one already. True if it found one now. */
bool ipb_wire_reader_find(IpbWireReader *reader);
/* One read, without blocking. */
void ipb_wire_reader_read(IpbWireReader *reader);
/* Drops the frame, which was handled. */
void ipb_wire_reader_consume(IpbWireReader *reader);
/* Only what is in the socket at this moment will be read. Then the wire has ended. */
void ipb_wire_reader_limit(IpbWireReader *reader);
/* Drops the rest. */
void ipb_wire_reader_end(IpbWireReader *reader);
