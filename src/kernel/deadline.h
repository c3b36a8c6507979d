/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbDeadline: a timer that can stand still. While a kernel's output is not read (back-pressure), it
 * cannot answer, so its time limits must not run; nor does the time count in which it, or this program, got no CPU.
 * Plain struct, owned by value.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

typedef struct {
    void (*func)(void *data);
    /* How long the process that the deadline is for has waited for a CPU since it exists (kernel/cpu-wait.h). */
    uint64_t (*cpu_wait_us)(void *data);
} IpbDeadlineFuncs;

typedef struct {
    IpbLoop *loop; /* borrowed */
    IpbTimer *timer;
    int64_t end_us;        /* monotonic, while the timer runs */
    unsigned remaining_ms; /* while it stands still */
    bool is_set, is_paused;
    uint64_t cpu_wait_us; /* that does not count any more */
    unsigned extended_ms;
    IpbDeadlineFuncs funcs;
    void *data;
} IpbDeadline;

void ipb_deadline_init(IpbDeadline *deadline, IpbLoop *loop, const IpbDeadlineFuncs *funcs,
                       void *data);
/* Calls the function in @delay_ms, not counting pauses and, up to a maximum, waits for a CPU. Restarts a running one. */
void ipb_deadline_set(IpbDeadline *deadline, unsigned delay_ms);
/* Also the clear function. */
void ipb_deadline_unset(IpbDeadline *deadline);
void ipb_deadline_set_paused(IpbDeadline *deadline, bool paused);
