/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of the kernel wire (docs/internals/kernel-wire.md): finding them in the bytes that a kernel
 * sent, which are hostile, and writing those for it. What is in a payload is messages.h' matter.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

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
    /* from the kernel */
    IPB_FRAME_HELLO = 64,
    IPB_FRAME_DISPLAY = 65,
    IPB_FRAME_UPDATE_DISPLAY = 66,
    IPB_FRAME_CLEAR_OUTPUT = 67,
    IPB_FRAME_RESULT = 68,
    IPB_FRAME_ERROR = 69,
    IPB_FRAME_DONE = 70,
    IPB_FRAME_REPLY = 71,
} IpbFrameType;

/* A frame in somebody else's buffer. */
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
    IPB_FRAME_BREACH, /* what stands there is no frame that a kernel may send: PROTOCOL */
} IpbFrameState;

/* Looks at the frame that begins at @bytes. Its header is checked as soon as it is there, so that a bad
 * length is never waited for. *@ret_missing (for PARTIAL) is how many bytes are missing at least. */
IpbFrameState ipb_frame_peek(const uint8_t *bytes, size_t size, IpbFrame *ret_frame,
                             size_t *ret_missing, GError **error);

/* A frame for the kernel, caller frees; NULL with LIMIT if the payload is too large. */
char *ipb_frame_build(IpbFrameType type, const char *payload, size_t payload_size, size_t *ret_size,
                      GError **error);
