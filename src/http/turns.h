/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpTurns: work that takes long, one piece after the other, with pauses. After a piece,
 * nothing of this kind is done for four times as long as it took. So other clients of the loop get
 * most of the time. A request of theirs needs several turns of the loop, and waits for one piece.
 *
 * Ownership: the IpbHttpTurn belongs to its user, who cancels it before it is freed.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbHttpTurns IpbHttpTurns;

/* Zero at first. */
typedef struct {
    GList link; /* its data is this */
    bool is_waiting;
    void (*func)(void *data);
    void *data;
} IpbHttpTurn;

IpbHttpTurns *ipb_http_turns_new(IpbLoop *loop);
/* Calls @func from the loop when it is its turn. Not while it waits. */
void ipb_http_turns_wait(IpbHttpTurns *turns, IpbHttpTurn *turn, void (*func)(void *data),
                         void *data);
/* Does nothing if it does not wait. */
void ipb_http_turns_cancel(IpbHttpTurns *turns, IpbHttpTurn *turn);
/* Nothing may wait any more. */
void ipb_http_turns_free(IpbHttpTurns *turns);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpTurns, ipb_http_turns_free)
