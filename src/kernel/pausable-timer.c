/* SPDX-License-Identifier: Apache-2.0
 *
 * A timer that can be paused; see the header.
 */
#include "kernel/pausable-timer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

/* Maximum total extension of a timer when the kernel gets no CPU. */
#define MAX_EXTENSION_MS 30000
/* Every process waits for less than this now and then. */
#define MIN_EXTENSION_MS 100

static void on_timer(void *data);

static void
run(IpbPausableTimer *timer, unsigned delay_ms)
{
    timer->end_us = g_get_monotonic_time() + (int64_t) delay_ms * 1000;
    timer->timer = ipb_timer_new(timer->loop, delay_ms, on_timer, timer);
}

/* Time that was lost: the process waited for a CPU, or this program came here too late. */
static unsigned
take_lost_ms(IpbPausableTimer *timer)
{
    uint64_t waited_us = timer->funcs.cpu_wait_us(timer->data);
    uint64_t lost_us = waited_us - MIN(timer->cpu_wait_us, waited_us);
    timer->cpu_wait_us = waited_us;
    lost_us += (uint64_t) MAX(g_get_monotonic_time() - timer->end_us, 0);
    return (unsigned) MIN(lost_us / 1000, MAX_EXTENSION_MS - timer->extended_ms);
}

static void
on_timer(void *data)
{
    IpbPausableTimer *timer = data;
    g_clear_pointer(&timer->timer, ipb_timer_free);
    unsigned lost_ms = take_lost_ms(timer);
    if (lost_ms >= MIN_EXTENSION_MS) {
        timer->extended_ms += lost_ms;
        run(timer, lost_ms);
        return;
    }
    timer->is_set = false;
    timer->funcs.func(timer->data); /* may free what the timer is in */
}

void
ipb_pausable_timer_init(IpbPausableTimer *timer, IpbLoop *loop, const IpbPausableTimerFuncs *funcs,
                        void *data)
{
    *timer = (IpbPausableTimer){.loop = loop, .funcs = *funcs, .data = data};
}

void
ipb_pausable_timer_set(IpbPausableTimer *timer, unsigned delay_ms)
{
    ipb_pausable_timer_unset(timer);
    timer->is_set = true;
    timer->cpu_wait_us = timer->funcs.cpu_wait_us(timer->data);
    timer->extended_ms = 0;
    if (timer->is_paused)
        timer->remaining_ms = delay_ms;
    else
        run(timer, delay_ms);
}

void
ipb_pausable_timer_unset(IpbPausableTimer *timer)
{
    timer->is_set = false;
    g_clear_pointer(&timer->timer, ipb_timer_free);
}

void
ipb_pausable_timer_set_paused(IpbPausableTimer *timer, bool paused)
{
    if (timer->is_paused == paused)
        return;
    timer->is_paused = paused;
    if (!timer->is_set)
        return;
    if (!paused) {
        run(timer, timer->remaining_ms);
        return;
    }
    int64_t remaining_us = MAX(timer->end_us - g_get_monotonic_time(), 0);
    timer->remaining_ms = (unsigned) (remaining_us / 1000);
    g_clear_pointer(&timer->timer, ipb_timer_free);
}

uint64_t
ipb_pausable_timer_cpu_wait_us(pid_t pid)
{
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int) pid);
    ipb_autofd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (n < 0)
        return 0;
    text[n] = '\0';
    uint64_t ran_ns, waited_ns; /* proc(5): the first two of three */
    return sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &waited_ns) == 2 ? waited_ns / 1000 : 0;
}
