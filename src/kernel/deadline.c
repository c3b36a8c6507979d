/* SPDX-License-Identifier: Apache-2.0
 *
 * A timer that can stand still; see the header.
 */
#include "kernel/deadline.h"

static void
on_timer(void *data)
{
    IpbDeadline *deadline = data;
    ipb_deadline_unset(deadline);
    deadline->func(deadline->data); /* may free what the deadline is in */
}

static void
run(IpbDeadline *deadline, unsigned delay_ms)
{
    deadline->end_us = g_get_monotonic_time() + (int64_t) delay_ms * 1000;
    deadline->timer = ipb_timer_new(deadline->loop, delay_ms, on_timer, deadline);
}

void
ipb_deadline_init(IpbDeadline *deadline, IpbLoop *loop, IpbTimerFunc func, void *data)
{
    *deadline = (IpbDeadline){.loop = loop, .func = func, .data = data};
}

void
ipb_deadline_set(IpbDeadline *deadline, unsigned delay_ms)
{
    ipb_deadline_unset(deadline);
    deadline->is_set = true;
    if (deadline->is_paused)
        deadline->remaining_ms = delay_ms;
    else
        run(deadline, delay_ms);
}

void
ipb_deadline_unset(IpbDeadline *deadline)
{
    deadline->is_set = false;
    g_clear_pointer(&deadline->timer, ipb_timer_free);
}

void
ipb_deadline_set_paused(IpbDeadline *deadline, bool paused)
{
    if (deadline->is_paused == paused)
        return;
    deadline->is_paused = paused;
    if (!deadline->is_set)
        return;
    if (!paused) {
        run(deadline, deadline->remaining_ms);
        return;
    }
    int64_t remaining_us = MAX(deadline->end_us - g_get_monotonic_time(), 0);
    deadline->remaining_ms = (unsigned) (remaining_us / 1000);
    g_clear_pointer(&deadline->timer, ipb_timer_free);
}
