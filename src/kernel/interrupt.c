/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupting a cell; see the header.
 *
 * A signal may come before the kernel has taken up the cell, or just before a blocking call, and have no effect. So
 * it is repeated, by another signal than the first: the kernel passes over a repetition if the cell has acted on an interrupt, which
 * may be cleaning up now, as long as nobody asks anew.
 */
#include "kernel/interrupt.h"

/* To the first repetition; each further one takes twice as long. */
#define FIRST_RESEND_MS 50

void
ipb_interrupt_init(IpbInterrupt *interrupt, IpbLoop *loop,
                   void (*send)(bool is_repetition, void *data), const IpbDeadlineFuncs *grace,
                   void *data)
{
    *interrupt = (IpbInterrupt){.loop = loop, .send = send, .data = data};
    ipb_deadline_init(&interrupt->grace, loop, grace, data);
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
        ipb_deadline_set(&interrupt->grace, grace_ms);
    ipb_timer_free(interrupt->resend_timer);
    interrupt->resend_ms = FIRST_RESEND_MS;
    interrupt->resend_timer =
        ipb_timer_new(interrupt->loop, interrupt->resend_ms, on_resend, interrupt);
    interrupt->send(/* is_repetition= */ false, interrupt->data);
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
