/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCells: the cells of a session. It queues them, gives them to the kernel one after the other,
 * passes the kernel's events on to each cell's own callback, and keeps their time limits. The clock
 * of a cell is paused while an approval or input is awaited.
 *
 * Ownership: the session owns it, and frees it after the kernel. Callbacks are called from the
 * loop, with one exception: ipb_cells_cancel(), ipb_cells_reset() and ipb_cells_close() report the
 * end of waiting cells before they return. A callback may call everything except ipb_cells_free().
 */
#pragma once

#include "kernel/kernel.h"
#include "session/record.h"
#include "session/sandboxing.h"
#include "session/staged-workspace.h"
#include "tools/approvals.h"

typedef struct IpbCells IpbCells;

/* What can undo cells. */
typedef struct {
    /* A cell is about to run; @last_run: the last one that ran. True: ipb_cells_prepared() follows,
     * and the cell waits for it. False: it runs now; with a *@ret_problem, which the caller frees,
     * it cannot be undone. */
    bool (*prepare)(uint64_t cell, uint64_t last_run, bool undoes_on_error, char **ret_problem,
                    void *data);
    /* The cell has failed and is to be undone. True: ipb_cells_undone() follows. Else see above. */
    bool (*undo)(uint64_t cell, char **ret_problem, void *data);
    /* The cell has ended. */
    void (*end)(uint64_t cell, void *data);
} IpbCellUndoFuncs;

typedef struct {
    /* those of the session's calls, which end with the cell; borrowed */
    IpbApprovals *approvals;
    /* borrowed, or NULL */
    IpbSandboxing *sandboxing;
    /* gets the cells and their events; borrowed, or NULL */
    IpbRecord *record;
    /* what cells changed in it is said by their DONE events; borrowed, or NULL */
    IpbStagedWorkspace *staged;
    const char *workspace;
    /* absolute: where images of displays are saved; NULL: they are not saved */
    const char *images_dir;
    /* where the kernel returns to after each cell; NULL: it stays where the cell went */
    const char *working_dir;
    /* late output is shown by late events, and not again with a later cell */
    bool has_rich_client;
    /* gets the events that belong to no cell; may be NULL */
    IpbEventFunc on_event;
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbCellsOptions;

/* How to run a cell; see kernel/kernel.h. */
typedef struct {
    /* of its running, waits for approvals and input not counted; 0: none */
    unsigned timeout_ms;
    bool is_silent;
    bool stores_history;
    /* NULL: none */
    const char *user_expressions;
    /* INPUT_REQUEST events are answered by ipb_cells_answer_input(); else input() fails */
    bool allows_input;
    /* then a request without an answer is refused; 0: an hour */
    unsigned input_timeout_ms;
    /* NULL: none */
    const char *parent;
    /* a message of the client's comm instead of code; see kernel/kernel.h. NULL: none */
    GBytes *comm;
    /* a cell that does not end with OK leaves the state as it was before it; DONE says whether that
     * is so (is_undone) */
    bool undoes_on_error;
} IpbCellOptions;

IpbCells *ipb_cells_new(IpbLoop *loop, const IpbCellsOptions *options);
void ipb_cells_free(IpbCells *cells);
/* Before the first cell: the numbers of cells continue those of @forerunner, and late output of its
 * cells is known. */
void ipb_cells_continue(IpbCells *cells, const IpbCells *forerunner);
/* No cell runs or waits. */
bool ipb_cells_is_idle(const IpbCells *cells);
/* What runs the cells; borrowed. Its events must go to ipb_cells_on_kernel_event(). */
void ipb_cells_set_kernel(IpbCells *cells, IpbKernel *kernel);
/* From now on cells are given to these functions, with @data, before they run. */
void ipb_cells_set_undo(IpbCells *cells, const IpbCellUndoFuncs *funcs, void *data);
/* The cell that waits runs now. @problem: why it cannot be undone; NULL: it can. */
void ipb_cells_prepared(IpbCells *cells, const char *problem);
/* The cell that failed ends now. @problem: why it was not undone; NULL: it was. @left_out: then,
 * why files were not; NULL: they were, or are never. */
void ipb_cells_undone(IpbCells *cells, const char *problem, const char *left_out);
/* An IpbEventFunc; @data: the cells. */
void ipb_cells_on_kernel_event(const IpbEvent *event, void *data);

/* See ipb_session_execute_with(). */
uint64_t ipb_cells_execute(IpbCells *cells, const char *code, const IpbCellOptions *options,
                           IpbEventFunc on_event, void *data, GError **error);
/* See ipb_session_watch_late_output(). */
void ipb_cells_watch_late_output(IpbCells *cells, IpbEventFunc func, void *data);
bool ipb_cells_cancel(IpbCells *cells, uint64_t number);
void ipb_cells_interrupt(IpbCells *cells);
/* See ipb_session_answer_input(). */
bool ipb_cells_answer_input(IpbCells *cells, uint64_t input, const char *value, const char *why,
                            GError **error);
void ipb_cells_hold(IpbCells *cells, bool is_held);
void ipb_cells_keep_notices(IpbCells *cells, const GPtrArray *notices);
void ipb_cells_report_late_output(IpbCells *cells);
/* Ends the waiting cells, because the kernel is about to be reset. */
void ipb_cells_reset(IpbCells *cells);
/* Likewise, because the session ends. No cell is taken any more. */
void ipb_cells_close(IpbCells *cells);

/* An approval is awaited, or none any more. */
void ipb_cells_set_awaiting_approval(IpbCells *cells, bool is_awaiting);
/* How far a tool call of the running cell is. */
void ipb_cells_report_progress(IpbCells *cells, const char *text);
/* What code in the sandbox was denied: it is logged, and reported with the running cell. */
void ipb_cells_report_violation(IpbCells *cells, const char *text);
/* A message for people: it is logged, and is a notice at the end of the running cell, or at the
 * start of the next one. */
void ipb_cells_report_notice(IpbCells *cells, const char *text);
/* The number of the running cell; 0: none runs, or handlers of a comm message. */
uint64_t ipb_cells_running(const IpbCells *cells);
