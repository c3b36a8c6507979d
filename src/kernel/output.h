/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOutput, the collector: reads the two output pipes and the wire of one kernel process and tells text and
 * frames in the order in which the kernel produced them. It holds nothing back for longer than the order
 * needs, and keeps nothing: 100 MB flow through in pieces of 64 KiB.
 *
 * How the order is found. The kernel writes marker k into both pipes before it sends frame k, and
 * between text to stdout and text to stderr. Each step looks at the oldest frame and the text at hand:
 *
 * - a frame is told when its marker was passed in both pipes;
 * - a pipe that has passed more markers than the other waits for the other;
 * - text that follows a marker waits until the wire was read, for the frame of that marker was sent
 *   before that text was written.
 *
 * A missing marker (user code closed fd 1, or forged one) needs no time limit: writes to pipes
 * are done when they return, so what must come first is in the pipe when what follows has been read. The
 * pipe is read up to what FIONREAD says at that moment; if the marker is not there, it will not come.
 *
 * Ownership: the fds are the collector's. Callbacks may call stop, mark_cell, set_paused and
 * finish, but not free.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "kernel/wire.h"

typedef struct IpbOutput IpbOutput;

typedef struct {
    /* Text, valid UTF-8 without NUL, NUL-terminated. @is_late: written before the last mark_cell. */
    void (*on_text)(bool is_stderr, bool is_late, const char *text, size_t size, void *data);
    /* A frame of a type that kernels send; nothing else of it is checked. */
    void (*on_frame)(const IpbFrame *frame, void *data);
    /* Once: the kernel closed the wire (@error NULL), or sent what is no frame. Nothing more is read from it. */
    void (*on_wire_end)(const GError *error, void *data);
    /* Once, after finish: everything was told. */
    void (*on_finished)(void *data);
} IpbOutputFuncs;

/* Three fds of one process, all non-blocking. They are taken only on success. */
IpbOutput *ipb_output_new(IpbLoop *loop, int stdout_fd, int stderr_fd, int wire_fd,
                          const uint8_t *key, const IpbOutputFuncs *funcs, void *data,
                          GError **error);
/* A cell begins: what is in the pipes now was written before it. */
void ipb_output_mark_cell(IpbOutput *output);
/* While paused nothing is read and nothing told. */
void ipb_output_set_paused(IpbOutput *output, bool paused);
/* The process is dead or shall count so: tells what is in the pipes and on the wire at this moment, in
 * order, even when paused (it is bounded), then on_finished, always from the loop. Does not wait for an
 * end of file: the process' children may keep the pipes open. @with_frames: false after a breach. */
void ipb_output_finish(IpbOutput *output, bool with_frames);
/* No callback comes any more. */
void ipb_output_stop(IpbOutput *output);
void ipb_output_free(IpbOutput *output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOutput, ipb_output_free)
