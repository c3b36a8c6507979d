/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbInterrupt: how a running cell is interrupted: a signal, repeated until it has its effect, and a grace period after
 * which something stronger is due. Plain struct, owned by value.
 */
#pragma once

#include "kernel/deadline.h"

typedef struct {
    IpbLoop *loop; /* borrowed */
    IpbDeadline grace;
    IpbTimer *resend_timer;
    unsigned resend_ms; /* until the next repetition */
    void (*send)(bool is_repetition, void *data);
    void *data;
} IpbInterrupt;

/* @send sends the signal, or repeats it for a cell that has not acted on it; @grace: its function is called once, when the grace
 * period has passed. */
void ipb_interrupt_init(IpbInterrupt *interrupt, IpbLoop *loop,
                        void (*send)(bool is_repetition, void *data), const IpbDeadlineFuncs *grace,
                        void *data);
/* The first one for a cell starts the grace period; later ones only send. */
void ipb_interrupt_send(IpbInterrupt *interrupt, unsigned grace_ms);
/* It had its effect, or another end came. Also the clear function. */
void ipb_interrupt_end(IpbInterrupt *interrupt);
/* The grace period stands still. */
void ipb_interrupt_set_paused(IpbInterrupt *interrupt, bool paused);
