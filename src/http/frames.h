/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of WebSockets (RFC 6455, section 5) from hostile peers, without extensions. It does no
 * input or output: bytes go in, messages come out. A message in several frames is assembled here,
 * up to its maximum.
 */
#pragma once

#include "base/buffer.h"

/* Bytes of a frame's head, and of a control frame's payload. */
#define IPB_FRAMES_MAX_HEAD 14
#define IPB_FRAMES_MAX_CONTROL 125

typedef enum {
    IPB_FRAME_CONTINUATION = 0,
    IPB_FRAME_TEXT = 1,
    IPB_FRAME_BINARY = 2,
    IPB_FRAME_CLOSE = 8,
    IPB_FRAME_PING = 9,
    IPB_FRAME_PONG = 10,
} IpbFrameKind;

/* The codes of closes that are used here. NO_CODE and NO_CLOSE are never sent. */
enum {
    IPB_CLOSE_NORMAL = 1000,
    IPB_CLOSE_GOING_AWAY = 1001,
    IPB_CLOSE_PROTOCOL = 1002,
    IPB_CLOSE_NO_CODE = 1005,
    IPB_CLOSE_NO_CLOSE = 1006,
    IPB_CLOSE_NO_UTF8 = 1007,
    IPB_CLOSE_POLICY = 1008,
    IPB_CLOSE_TOO_BIG = 1009,
};

typedef enum {
    /* All bytes were consumed, and more are needed. */
    IPB_FRAMES_MORE,
    /* A text or binary message, in @message until the next call. */
    IPB_FRAMES_MESSAGE,
    /* A close, ping or pong, in @control until the next call. */
    IPB_FRAMES_CONTROL,
    /* Malformed: close with @code and @reason. Nothing is parsed any more. */
    IPB_FRAMES_BAD,
} IpbFramesEvent;

/* Plain struct, owned by value. */
typedef struct {
    /* A server receives masked frames. */
    bool is_server;
    /* The frame that is being received; @head_size as far as it is known. */
    uint8_t head[IPB_FRAMES_MAX_HEAD];
    size_t n_head;
    size_t head_size;
    /* Bytes of its payload that are still to come */
    uint64_t left;
    size_t mask_at;
    /* It is the last frame of its message. */
    bool is_last;
    IpbFrameKind kind;
    /* The message that is being received; CONTINUATION: none. */
    IpbFrameKind message_kind;
    IpbBuffer message;
    bool is_message_reported;
    uint8_t control[IPB_FRAMES_MAX_CONTROL];
    size_t control_size;
    /* Of BAD, and of a received close: NO_CODE if it has none. */
    unsigned code;
    /* Of BAD; static. */
    const char *reason;
} IpbFrames;

void ipb_frames_init(IpbFrames *frames, bool is_server, size_t max_message);
void ipb_frames_clear(IpbFrames *frames);
/* Consumes bytes at the front of *@bytes until a message or control frame is complete. */
IpbFramesEvent ipb_frames_take(IpbFrames *frames, const uint8_t **bytes, size_t *size);
/* Appends a complete frame to @out; false if @out has no room for it. @mask: four bytes, or NULL
 * for a server. */
bool ipb_frames_append(IpbBuffer *out, IpbFrameKind kind, const void *payload, size_t size,
                       const uint8_t *mask);
/* Unlike for g_utf8_validate, NULs are valid. */
bool ipb_frames_is_utf8(const char *bytes, size_t size);
