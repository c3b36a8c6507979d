/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbWaiting: what the program gets and may answer later: a request for approval, or a call of one
 * of its tools. Each embeds this as its first member.
 *
 * Ownership: a session has a list of those that wait, and no reference to them. They know the
 * session's core until they are detached.
 */
#pragma once

#include "session/session.h"

typedef struct {
    IpbSession *core; /* NULL: it does not wait any more */
    GPtrArray *list;  /* the session's; valid while core is */
    uint64_t id;
} IpbWaiting;

/* Adds it to the list. */
void ipb_waiting_attach(IpbWaiting *waiting, IpbSession *core, GPtrArray *list, uint64_t id);
/* It does not wait any more. Returns the core; NULL: it did not wait. */
IpbSession *ipb_waiting_detach(IpbWaiting *waiting);
/* The one with this id, which does not wait any more; NULL: there is none. */
void *ipb_waiting_detach_id(GPtrArray *list, uint64_t id);
/* None waits any more: the core ends. */
void ipb_waiting_detach_all(GPtrArray *list);
