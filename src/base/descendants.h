/* SPDX-License-Identifier: Apache-2.0
 *
 * Descendants of a process, found from outside through /proc.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/loop.h"

/* Whether the process @root, which @pidfd refers to, or one of its descendants holds a socket with
 * this @inode. Never true for a process that is not a descendant at that time, even if process ids
 * are used again. Also false if @root has ended, if /proc cannot be read, and for anything beyond
 * these limits: 512 processes, 2,048 threads, 32 generations, 16,384 open files. A process whose
 * parent has ended is not a descendant any more. */
bool ipb_descendants_have_socket(pid_t root, int pidfd, uint64_t inode);

/* IpbDescendantsKill: kills a process and its descendants, in turns of the loop, since there may be
 * thousands. Ownership: the owner frees it. */
typedef struct IpbDescendantsKill IpbDescendantsKill;

/* How many threads and processes are looked at in one turn. */
#define IPB_DESCENDANTS_TURN 64

/* Stops the process @root, which @pidfd (borrowed, until it is freed) refers to, kills its
 * descendants and then @root itself. If it is a subreaper (PR_SET_CHILD_SUBREAPER), no process that
 * it has started escapes by forking or by the end of its parent. Does nothing if @root has ended.
 * @done: called once, from the loop, when all have the signal; not after the end of this object. */
IpbDescendantsKill *ipb_descendants_kill_new(IpbLoop *loop, pid_t root, int pidfd,
                                             void (*done)(void *data), void *data);
/* Kills those that have no signal yet, before it returns. */
void ipb_descendants_kill_free(IpbDescendantsKill *kill);
