/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbEvent: what a kernel or a session reports. Kernels, sessions, the public API and the servers
 * all use this one type, so nothing on the way is translated by hand.
 *
 * A kernel sends all types but TOOL_PROGRESS, which only its session sends. A session passes the
 * kernel's events on, with image_path set where it saved an image.
 *
 * Ownership: an event and everything in it are borrowed for the callback.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"
#include "kernel/comm.h"

/* The types up to INPUT_WITHDRAWN have the numbers of IpyboxEventType (ipybox/event.h). */
typedef enum {
    /* text */
    IPB_EVENT_STDOUT,
    /* text */
    IPB_EVENT_STDERR,
    /* text that was written after its cell was done, for clients that do not look at late events.
     * It comes in a later cell, usually first */
    IPB_EVENT_LATE_OUTPUT,
    /* data, metadata, display_id (may be NULL), image_path */
    IPB_EVENT_DISPLAY,
    /* the same, of the display with this display_id */
    IPB_EVENT_UPDATE,
    /* wait */
    IPB_EVENT_CLEAR_OUTPUT,
    /* the value of the last expression: data, metadata, execution_count, image_path, display_id
     * (usually NULL) */
    IPB_EVENT_RESULT,
    /* ename, evalue; text: the traceback */
    IPB_EVENT_ERROR,
    /* text: "server.tool: 3/10 message" */
    IPB_EVENT_TOOL_PROGRESS,
    /* text: a message of ipybox for people. Sessions begin it with "[ipybox] " */
    IPB_EVENT_NOTICE,

    /* These two belong to no cell. The kernel has a process that takes cells; preload_failures */
    IPB_EVENT_READY,
    /* The kernel could not get a process; text: the cause. The next cell tries again */
    IPB_EVENT_START_FAILED,

    /* The cell waits for input, and its clock is paused: text: the prompt; input, is_password. One
     * at a time */
    IPB_EVENT_INPUT_REQUEST,
    /* The answer is not needed any more, but the cell continues: input */
    IPB_EVENT_INPUT_WITHDRAWN,

    /* Of no cell: the kernel's process has ended, and that was not asked for; text: the cause. The
     * cell that ran in it has ended before */
    IPB_EVENT_DIED,
    /* A message of a comm, only of kernels with a rich client: comm. It may belong to no cell */
    IPB_EVENT_COMM,
    /* A kernel that is ready begins with the cell: execution_count that it will have. The cell's
     * time runs from here. Not sent for a cell that never gets so far */
    IPB_EVENT_STARTED,
    /* The last event of a cell, which always comes: status, execution_count, user_expressions,
     * payload; text: see IpbCellStatus */
    IPB_EVENT_DONE,
} IpbEventType;

/* How a cell ended. The values up to LOST have the numbers of IpyboxStatus. In the DONE event of a
 * kernel the text is the kernel's working directory, unless the cell is LOST: then it is the cause,
 * for people. In the DONE event of a session the text says what happened, except for OK and
 * ERROR. */
typedef enum {
    IPB_CELL_OK,
    /* an ERROR event came before */
    IPB_CELL_ERROR,
    /* only of sessions: it was interrupted, and the text says whether its state is kept */
    IPB_CELL_TIMEOUT,
    /* only of sessions: by ipb_session_cancel(), whatever the cell did then; or by
     * ipb_session_interrupt(), unless it handled that and ran to its end */
    IPB_CELL_CANCELLED,
    /* the kernel died, was killed or did not start; the next cell gets a fresh one */
    IPB_CELL_LOST,
    /* only of kernels: an ERROR event came before */
    IPB_CELL_INTERRUPTED,
} IpbCellStatus;

typedef struct {
    IpbEventType type;
    /* of a kernel, and of a session if it is late: the cell's number, as ipb_kernel_execute() or
     * ipb_session_execute() returned it; 0: belongs to no cell */
    uint64_t cell;
    /* STDOUT, STDERR, DISPLAY, UPDATE, CLEAR_OUTPUT: of code that still runs although its cell has
     * ended, such as a thread. The cell is 0 if it is not known. */
    bool is_late;
    /* of a session, if it is late: the header of the client's request that the cell had, or NULL;
     * execution_count is the cell's number in IPython, 0 if it has none */
    const char *parent;
    /* untrusted, but valid UTF-8 and NUL-terminated; a NUL in it is shown as U+2400 */
    const char *text;
    /* of a kernel */
    size_t text_size;
    /* a MIME bundle: an object, its values as in kernel-wire.md */
    const IpbJson *data;
    /* an object or NULL */
    const IpbJson *metadata;
    const char *display_id;
    /* of a session: absolute path of the saved image, or NULL */
    const char *image_path;
    const char *ename;
    const char *evalue;
    int64_t execution_count;
    IpbCellStatus status;
    /* CLEAR_OUTPUT: only when the next output comes */
    bool wait;
    /* DONE of a kernel: the cell had left the directory that the kernel returns to */
    bool is_cwd_reset;
    /* DONE of a session: the cell failed, and the state is as it was before it */
    bool is_undone;
    /* DONE of a session with a staged workspace: what the cell changed there, a JSON array of
     * {"path", "kind", "type"}; and why it is not exactly that, or NULL. Else NULL */
    const char *changes;
    const char *changes_cut;
    /* ERROR: a handler of the user has shown it, so the traceback is empty */
    bool is_shown;
    /* NOTICE: a sandbox refused something */
    bool is_violation;
    /* NOTICE: it belongs to the cell's text, as in ipybox 0.9 */
    bool is_in_text;
    /* INPUT_REQUEST, INPUT_WITHDRAWN: which request; a number is never used again */
    uint64_t input;
    /* INPUT_REQUEST: what is typed must not be shown or kept */
    bool is_password;
    /* {name: {"status": "ok", "data", "metadata"} or {"status": "error", "ename", "evalue",
     * "traceback": [lines]}}, or NULL */
    const IpbJson *user_expressions;
    /* DONE: what a front end of Jupyter is asked to do, an array of objects with a string "source",
     * or NULL; their other members are untrusted. Only kernels with a rich client send it. */
    const IpbJson *payload;
    /* COMM */
    const IpbComm *comm;
    /* READY: "module: error" for each module that could not be preloaded; or NULL */
    const char *const *preload_failures;
    /* ERROR: the parts of the traceback, an array of strings, or NULL: it has one. With newlines
     * between them they are the text. Only kernels with a rich client send them. */
    const IpbJson *parts;
} IpbEvent;

typedef void (*IpbEventFunc)(const IpbEvent *event, void *data);

/* The words of the protocols: "stdout", "late", "ready"; "ok", "timeout". */
const char *ipb_event_name(IpbEventType type);
const char *ipb_cell_status_name(IpbCellStatus status);
