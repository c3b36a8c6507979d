/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPausableTimer: a timer that can be paused, for the time limits of a kernel's answers. While a
 * kernel's output is not read (back-pressure), the kernel cannot answer, so its time limits are
 * paused. Time in which the kernel, or this program, got no CPU does not count either, up to a
 * maximum.
 *
 * Plain struct, owned by value.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

typedef struct {
    void (*func)(void *data);
    /* ipb_pausable_timer_cpu_wait_us() of the process that the timer is for */
    uint64_t (*cpu_wait_us)(void *data);
} IpbPausableTimerFuncs;

typedef struct {
    IpbLoop *loop; /* borrowed */
    IpbTimer *timer;
    int64_t end_us;        /* monotonic, while the timer runs */
    unsigned remaining_ms; /* while it is paused */
    bool is_set, is_paused;
    uint64_t cpu_wait_us; /* is accounted for already */
    unsigned extended_ms;
    IpbPausableTimerFuncs funcs;
    void *data;
} IpbPausableTimer;

void ipb_pausable_timer_init(IpbPausableTimer *timer, IpbLoop *loop,
                             const IpbPausableTimerFuncs *funcs, void *data);
/* Calls the function in @delay_ms, not counting pauses and, up to a maximum, waits for a CPU.
 * Restarts a running timer. */
void ipb_pausable_timer_set(IpbPausableTimer *timer, unsigned delay_ms);
/* Also the clear function. */
void ipb_pausable_timer_unset(IpbPausableTimer *timer);
void ipb_pausable_timer_set_paused(IpbPausableTimer *timer, bool paused);
/* How long the main thread of a process has waited for a CPU since it was created: on a busy
 * machine, that time is not its own. 0 if the system does not report it. The pid may belong to
 * another process by now. Then the figure is wrong, and the caller must tolerate that. */
uint64_t ipb_pausable_timer_cpu_wait_us(pid_t pid);
