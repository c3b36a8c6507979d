/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs cells in a session of libipybox, one after the other, for a verb at the terminal: shows
 * their output as it arrives, asks before tool calls and for input, and handles Ctrl-C. The
 * verb gives IpbRunCells, which say what the next cell is and what is done with its events.
 */
#pragma once

#include <stdbool.h>

#include <ipybox/ipybox.h>

#include "cli/cli.h"
#include "cli/run-options.h"

/* How a cell is run. All zero: as the arguments say. */
typedef struct {
    unsigned timeout_ms; /* if it is less than that of the arguments; 0: no other limit */
    bool is_after_reset; /* the kernel is ended first, and the cell gets a fresh one */
} IpbRunCell;

typedef struct {
    /* Returns the code of the next cell, borrowed until the next call. NULL: there is none. */
    const char *(*next)(void *data, IpbRunCell *ret_cell);
    /* What happens in cells, also late. Or NULL. */
    void (*on_event)(void *data, const IpyboxEvent *event);
    /* A cell has ended. Returns whether the next one may run. */
    bool (*on_end)(void *data, const IpyboxResult *result);
    /* A cell has ended so that no other one runs, and its message was shown. Or NULL. */
    void (*on_failure)(void *data);
    void *data;
    bool is_sequence; /* Ctrl-C ends it, however the interrupted cell ends */
    bool is_quiet;    /* output and errors of cells are not shown */
    bool drops_files; /* what a staged session has written is discarded, and not reviewed */
    bool has_begun;   /* is set when the first cell begins */
} IpbRunCells;

/* Returns the exit status: that of the last cell. */
int ipb_run_session(const IpbVerb *verb, const IpbRunArguments *arguments, IpbRunCells *cells);
