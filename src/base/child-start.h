/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a program as a plan says (base/child-exec.h), soundly in processes with threads. What base/child.h is made of, and for
 * those who look after the process by themselves.
 */
#pragma once

#include "base/child-exec.h"
#include "base/loop.h"

/* Returns when the program is executed. The pidfd, close-on-exec, is the child's even if it has ended since and somebody else has
 * reaped it. Errors: SYSTEM, with argv[0] in the message. */
bool ipb_child_start(IpbLoop *loop, IpbExecPlan *plan, pid_t *ret_pid, int *ret_pidfd,
                     GError **error);
