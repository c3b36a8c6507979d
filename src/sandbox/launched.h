/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLaunched: one of the processes that hold a sandbox, a child of ours by its pidfd. A plain struct, owned by value; it is of no process
 * while its pidfd is -1.
 */
#pragma once

#include "base/loop.h"
#include "sandbox/cgroup.h"

/* How long freeing waits for what is about to end, or was killed. */
#define IPB_LAUNCHED_END_TIMEOUT_MS 200

typedef struct {
    int pidfd; /* -1: none, or reaped */
    IpbWatch *watch;
    void (*on_end)(void *data);
    void *data;
} IpbLaunched;

/* Takes the pidfd. @on_end from the loop, when it has ended and was reaped. */
bool ipb_launched_watch(IpbLaunched *launched, IpbLoop *loop, int pidfd, void (*on_end)(void *data),
                        void *data, GError **error);
void ipb_launched_kill(const IpbLaunched *launched);
/* Kills and reaps it; what takes longer is reaped from the loop's context, and takes *@cgroup along, to be freed then. */
void ipb_launched_end(IpbLaunched *launched, IpbLoop *loop, IpbCgroup **cgroup);
