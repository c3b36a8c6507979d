/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOutput, the collector: reads the two output pipes and the wire of one kernel process, and
 * delivers text and frames in the order in which the kernel produced them. It delays nothing for
 * longer than the order requires, and keeps nothing: 100 MB pass through in pieces of 64 KiB.
 *
 * How it finds the order. The kernel writes marker k into both pipes before it sends frame k, and
 * between text to stdout and text to stderr. Each step looks at the oldest frame and the available
 * text:
 *
 * - A frame is delivered when its marker was passed in both pipes.
 * - A pipe that has passed more markers than the other waits for the other.
 * - Text that follows a marker waits until the wire was read, because the frame of that marker was
 *   sent before that text was written.
 *
 * A marker may be missing, because user code closed fd 1 or forged one. No time limit is needed to
 * find out: a write to a pipe is complete when it returns, so what must come first is in the pipe
 * when what follows has been read. The pipe is read up to what FIONREAD reports at that moment. If
 * the marker is not there, it will not come.
 *
 * Ownership: the collector owns the fds. Callbacks may call stop, mark_cell, set_paused, finish and
 * replace_pipes, but not free.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "kernel/wire.h"

typedef struct IpbOutput IpbOutput;

typedef struct {
    /* Text: valid UTF-8 without NUL, NUL-terminated. @is_late: written before the last mark_cell,
     * or after expect_pipes; @cell is of late text, 0: not known. */
    void (*on_text)(bool is_stderr, bool is_late, uint64_t cell, const char *text, size_t size,
                    void *data);
    /* A frame of a type that kernels send. Its payload is not checked. */
    void (*on_frame)(const IpbFrame *frame, void *data);
    /* Once: the kernel closed the wire (@error NULL), or sent bytes that are not a frame. Nothing
     * more is read from it. */
    void (*on_wire_end)(const GError *error, void *data);
    /* Once, after finish: everything was delivered. */
    void (*on_finished)(void *data);
} IpbOutputFuncs;

/* Three fds of one process, all non-blocking. They are taken only on success. */
IpbOutput *ipb_output_new(IpbLoop *loop, int stdout_fd, int stderr_fd, int wire_fd,
                          const uint8_t *key, const IpbOutputFuncs *funcs, void *data,
                          GError **error);
/* A cell starts: what is in the pipes now was written before it. */
void ipb_output_mark_cell(IpbOutput *output);
/* The kernel is about to change to new pipes: what comes through its pipes until then is late text
 * of @cell. */
void ipb_output_expect_pipes(IpbOutput *output, uint64_t cell);
/* Whether the pipes cannot be replaced, because processes hold too many old ones. */
bool ipb_output_has_too_many_pipes(const IpbOutput *output);
/* The kernel writes to new pipes now: @fds are our ends of stdout and stderr, non-blocking, which
 * are taken, also on failure. Call it for the frame, with @marker, which the kernel sent last. What
 * other processes write to the old pipes is late text of the cell of expect_pipes. */
bool ipb_output_replace_pipes(IpbOutput *output, const int fds[2], uint32_t marker, GError **error);
/* The kernel keeps its pipes. */
void ipb_output_keep_pipes(IpbOutput *output);
/* While paused nothing is read and nothing delivered. */
void ipb_output_set_paused(IpbOutput *output, bool paused);
/* Call it when the process is dead, or counts as dead. Delivers in order what is in the pipes and
 * on the wire at this moment, then calls on_finished, always from the loop. It does so even while
 * paused, because the amount is bounded. It does not wait for an end of file, because children of
 * the process may keep the pipes open. @with_frames: false after a breach. */
void ipb_output_finish(IpbOutput *output, bool with_frames);
/* No callback comes any more. */
void ipb_output_stop(IpbOutput *output);
void ipb_output_free(IpbOutput *output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOutput, ipb_output_free)
