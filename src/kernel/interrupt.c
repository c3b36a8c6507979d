/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupting a cell; see the header.
 *
 * A signal may come before the kernel has taken up the cell, or just before a blocking call, and have no effect. So
 * it is sent again, twice. A kernel passes over signals that come within 200 ms after one that it acted on
 * (docs/internals/kernel-wire.md), so these do no harm; an interrupt that the user repeats is sent again
 * after that time.
 */
#include "kernel/interrupt.h"

#define FIRST_RESEND_MS 50
#define SECOND_RESEND_MS 100
#define REPEATED_RESEND_MS 250

void
ipb_interrupt_init(IpbInterrupt *interrupt, IpbLoop *loop, void (*send)(void *data),
                   IpbTimerFunc on_grace_end, void *data)
{
    *interrupt = (IpbInterrupt){.loop = loop, .send = send, .data = data};
    ipb_deadline_init(&interrupt->grace, loop, on_grace_end, data);
}

static void on_resend(void *data);

static void
resend_after(IpbInterrupt *interrupt, unsigned delay_ms, bool is_last)
{
    g_clear_pointer(&interrupt->resend_timer, ipb_timer_free);
    interrupt->is_last_resend = is_last;
    interrupt->resend_timer = ipb_timer_new(interrupt->loop, delay_ms, on_resend, interrupt);
}

static void
on_resend(void *data)
{
    IpbInterrupt *interrupt = data;
    g_clear_pointer(&interrupt->resend_timer, ipb_timer_free);
    interrupt->send(interrupt->data);
    if (!interrupt->is_last_resend)
        resend_after(interrupt, SECOND_RESEND_MS, /* is_last= */ true);
}

void
ipb_interrupt_send(IpbInterrupt *interrupt, unsigned grace_ms)
{
    bool is_first = !interrupt->grace.is_set;
    if (is_first)
        ipb_deadline_set(&interrupt->grace, grace_ms);
    interrupt->send(interrupt->data);
    resend_after(interrupt, is_first ? FIRST_RESEND_MS : REPEATED_RESEND_MS, !is_first);
}

void
ipb_interrupt_end(IpbInterrupt *interrupt)
{
    ipb_deadline_unset(&interrupt->grace);
    g_clear_pointer(&interrupt->resend_timer, ipb_timer_free);
}

void
ipb_interrupt_set_paused(IpbInterrupt *interrupt, bool paused)
{
    ipb_deadline_set_paused(&interrupt->grace, paused);
}
