/* SPDX-License-Identifier: Apache-2.0
 *
 * A timer that can be paused; see the header.
 */
#include "kernel/deadline.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

/* Maximum total extension of a deadline when the kernel gets no CPU. */
#define MAX_EXTENSION_MS 30000
/* Every process waits for less than this now and then. */
#define MIN_EXTENSION_MS 100

static void on_timer(void *data);

static void
run(IpbDeadline *deadline, unsigned delay_ms)
{
    deadline->end_us = g_get_monotonic_time() + (int64_t) delay_ms * 1000;
    deadline->timer = ipb_timer_new(deadline->loop, delay_ms, on_timer, deadline);
}

/* Time that was lost: the process waited for a CPU, or this program came here too late. */
static unsigned
take_lost_ms(IpbDeadline *deadline)
{
    uint64_t waited_us = deadline->funcs.cpu_wait_us(deadline->data);
    uint64_t lost_us = waited_us - MIN(deadline->cpu_wait_us, waited_us);
    deadline->cpu_wait_us = waited_us;
    lost_us += (uint64_t) MAX(g_get_monotonic_time() - deadline->end_us, 0);
    return (unsigned) MIN(lost_us / 1000, MAX_EXTENSION_MS - deadline->extended_ms);
}

static void
on_timer(void *data)
{
    IpbDeadline *deadline = data;
    g_clear_pointer(&deadline->timer, ipb_timer_free);
    unsigned lost_ms = take_lost_ms(deadline);
    if (lost_ms >= MIN_EXTENSION_MS) {
        deadline->extended_ms += lost_ms;
        run(deadline, lost_ms);
        return;
    }
    deadline->is_set = false;
    deadline->funcs.func(deadline->data); /* may free what the deadline is in */
}

void
ipb_deadline_init(IpbDeadline *deadline, IpbLoop *loop, const IpbDeadlineFuncs *funcs, void *data)
{
    *deadline = (IpbDeadline){.loop = loop, .funcs = *funcs, .data = data};
}

void
ipb_deadline_set(IpbDeadline *deadline, unsigned delay_ms)
{
    ipb_deadline_unset(deadline);
    deadline->is_set = true;
    deadline->cpu_wait_us = deadline->funcs.cpu_wait_us(deadline->data);
    deadline->extended_ms = 0;
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

uint64_t
ipb_deadline_cpu_wait_us(pid_t pid)
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
