/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of WebSockets (RFC 6455, section 5), from hostile peers, without extensions. No input, no output: bytes in, messages
 * out; a message that comes in pieces is put together here, and never holds more than its maximum.
 */
#pragma once

#include "base/buffer.h"

/* Of a frame's head, and of what a control frame carries. */
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

/* The codes of closes that are of use here. */
enum {
    IPB_CLOSE_NORMAL = 1000,
    IPB_CLOSE_GOING_AWAY = 1001,
    IPB_CLOSE_PROTOCOL = 1002,
    IPB_CLOSE_NO_CODE = 1005,  /* never sent */
    IPB_CLOSE_NO_CLOSE = 1006, /* never sent */
    IPB_CLOSE_NO_UTF8 = 1007,
    IPB_CLOSE_POLICY = 1008,
    IPB_CLOSE_TOO_BIG = 1009,
};

typedef enum {
    IPB_FRAMES_MORE,    /* all bytes are taken: more are needed */
    IPB_FRAMES_MESSAGE, /* text or binary, in @message until the next call */
    IPB_FRAMES_CONTROL, /* close, ping or pong, in @control until the next call */
    IPB_FRAMES_BAD,     /* close with @code and @reason; nothing is taken any more */
} IpbFramesEvent;

/* Plain struct, owned by value. */
typedef struct {
    bool is_server; /* what comes is masked */
    /* The frame that comes. */
    uint8_t head[IPB_FRAMES_MAX_HEAD];
    size_t n_head;
    size_t head_size; /* as far as it is known */
    uint64_t left;    /* of its payload */
    size_t mask_at;
    bool is_last; /* of its message */
    IpbFrameKind kind;
    /* The message that comes; CONTINUATION: none does. */
    IpbFrameKind message_kind;
    IpbBuffer message;
    bool is_message_told;
    uint8_t control[IPB_FRAMES_MAX_CONTROL];
    size_t control_size;
    /* Of BAD, and of a close that came: NO_CODE if it has none. */
    unsigned code;
    const char *reason; /* of BAD; static */
} IpbFrames;

void ipb_frames_init(IpbFrames *frames, bool is_server, size_t max_message);
void ipb_frames_clear(IpbFrames *frames);
/* Takes bytes off the front of *@bytes until something is whole. */
IpbFramesEvent ipb_frames_take(IpbFrames *frames, const uint8_t **bytes, size_t *size);
/* What goes out: a whole frame at the end of @out. @mask: four bytes, or NULL (a server's). LIMIT-free: false if @out has no room for it. */
bool ipb_frames_append(IpbBuffer *out, IpbFrameKind kind, const void *payload, size_t size,
                       const uint8_t *mask);
/* NULs are valid, other than GLib has it. */
bool ipb_frames_is_utf8(const char *bytes, size_t size);
