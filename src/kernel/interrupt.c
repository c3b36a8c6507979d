/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupting a cell; see the header.
 *
 * A signal has no effect if it comes before the kernel has started the cell, or just before a
 * blocking call. So it is repeated, with a different signal. The kernel ignores a repetition if the
 * cell has reacted to an interrupt, because the cell may be cleaning up. A new request to interrupt
 * starts with the first signal again.
 */
#include "kernel/interrupt.h"

/* From the signal to its first repetition. Each further wait is twice as long. */
#define FIRST_RESEND_MS 50

void
ipb_interrupt_init(IpbInterrupt *interrupt, IpbLoop *loop,
                   void (*send)(bool is_repetition, void *data), const IpbPausableTimerFuncs *grace,
                   void *data)
{
    *interrupt = (IpbInterrupt){.loop = loop, .send = send, .data = data};
    ipb_pausable_timer_init(&interrupt->grace, loop, grace, data);
}

static void
on_resend(void *data)
{
    IpbInterrupt *interrupt = data;
    interrupt->resend_ms *= 2;
    ipb_timer_free(interrupt->resend_timer);
    interrupt->resend_timer =
        ipb_timer_new(interrupt->loop, interrupt->resend_ms, on_resend, interrupt);
    interrupt->send(/* is_repetition= */ true, interrupt->data);
}

void
ipb_interrupt_send(IpbInterrupt *interrupt, unsigned grace_ms)
{
    if (!interrupt->grace.is_set)
        ipb_pausable_timer_set(&interrupt->grace, grace_ms);
    ipb_timer_free(interrupt->resend_timer);
    interrupt->resend_ms = FIRST_RESEND_MS;
    interrupt->resend_timer =
        ipb_timer_new(interrupt->loop, interrupt->resend_ms, on_resend, interrupt);
    interrupt->send(/* is_repetition= */ false, interrupt->data);
}

void
ipb_interrupt_end(IpbInterrupt *interrupt)
{
    ipb_pausable_timer_unset(&interrupt->grace);
    g_clear_pointer(&interrupt->resend_timer, ipb_timer_free);
}

void
ipb_interrupt_set_paused(IpbInterrupt *interrupt, bool paused)
{
    ipb_pausable_timer_set_paused(&interrupt->grace, paused);
}
