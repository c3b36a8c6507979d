/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbInterrupt: interrupts a running cell. It sends a signal and repeats it until it has an effect.
 * At the end of a grace period it calls a function that does something stronger.
 *
 * Plain struct, owned by value.
 */
#pragma once

#include "kernel/pausable-timer.h"

typedef struct {
    IpbLoop *loop; /* borrowed */
    IpbPausableTimer grace;
    IpbTimer *resend_timer;
    unsigned resend_ms; /* until the next repetition */
    void (*send)(bool is_repetition, void *data);
    void *data;
} IpbInterrupt;

/* @send sends the signal, or repeats it for a cell that has not reacted to it. The function of
 * @grace is called once, at the end of the grace period. */
void ipb_interrupt_init(IpbInterrupt *interrupt, IpbLoop *loop,
                        void (*send)(bool is_repetition, void *data),
                        const IpbPausableTimerFuncs *grace, void *data);
/* The first interrupt of a cell starts the grace period. Later ones only send the signal. */
void ipb_interrupt_send(IpbInterrupt *interrupt, unsigned grace_ms);
/* The interrupt had its effect, or the cell ended in another way. Also the clear function. */
void ipb_interrupt_end(IpbInterrupt *interrupt);
/* Pauses the grace period. */
void ipb_interrupt_set_paused(IpbInterrupt *interrupt, bool paused);
