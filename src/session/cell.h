/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCell: one cell of a session, waiting or running: whom its events go to, and its clock, which stands while
 * an approval is waited for.
 */
#pragma once

#include "session/session.h"

typedef struct {
    uint64_t number;        /* the session's */
    uint64_t kernel_number; /* the kernel's; 0: not running yet */
    char *code;
    bool is_silent, stores_history;
    char *user_expressions; /* or NULL */
    IpbEventFunc on_event;
    void *data;
    bool is_timed_out;
    bool is_cancelled;
    bool is_interrupted;
    bool is_reset;         /* while it ran: its kernel is thrown away on purpose */
    unsigned n_violations; /* of the sandbox, told */

    IpbLoop *loop;
    unsigned timeout_ms;
    int64_t left_us;    /* of the time, when the clock was last stopped */
    int64_t started_us; /* when the clock was last started */
    IpbTimer *timer;    /* NULL: the clock stands */
    void (*on_timeout)(void *data);
    void *timeout_data;
} IpbCell;

IpbCell *ipb_cell_new(IpbLoop *loop, const char *code, const IpbCellOptions *options,
                      IpbEventFunc on_event, void *data);
void ipb_cell_free(IpbCell *cell);
void ipb_cell_emit(const IpbCell *cell, const IpbEvent *event);
void ipb_cell_start_clock(IpbCell *cell, void (*on_timeout)(void *data), void *data);
void ipb_cell_stop_clock(IpbCell *cell);
