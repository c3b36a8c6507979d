/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbWalls: one sandbox and the kernel processes in it. The first process makes it, its branches
 * join it, and fresh processes may enter it. The sandbox, and what can be reached from it, end with
 * the last of them.
 *
 * Ownership: each member leaves it. The functions of a member may leave it, too.
 */
#pragma once

#include "kernel/kernel.h"

typedef struct {
    /* To members that are about to enter: they can enter now. */
    void (*on_ready)(void *data);
    /* The sandbox ended, or could not be made; @cause is for people. */
    void (*on_end)(const char *cause, void *data);
    /* After ipb_walls_adopt(): the branch, whose pidfd the receiver owns; or @error. */
    void (*on_adopted)(pid_t pid, int pidfd, const GError *error, void *data);
    /* An adopted process has ended. */
    void (*on_reaped)(int wait_status, void *data);
} IpbWallsFuncs;

/* Makes a sandbox for @plan, with a first member, @data. @sandboxing is copied. */
IpbWalls *ipb_walls_new(IpbLoop *loop, const IpbSandboxPlan *plan,
                        const IpbKernelSandboxFuncs *sandboxing, const IpbWallsFuncs *funcs,
                        void *data, GError **error);
/* Adds a member, @data, which is about to enter the sandbox from outside. Returns whether it can
 * enter now; else on_ready or on_end follows. */
bool ipb_walls_enter(IpbWalls *walls, const IpbWallsFuncs *funcs, void *data);
/* Adds a member, @data, which is in the sandbox already. */
void ipb_walls_join(IpbWalls *walls, const IpbWallsFuncs *funcs, void *data);
/* @owner: of the sandboxes of a member's later processes; it can reach from now on what the first
 * member can reach. */
void ipb_walls_reach(IpbWalls *walls, void *owner);
/* @pid: of the member's process, as it is known inside. It must be a child of pid 1. on_adopted
 * follows, or on_end. */
bool ipb_walls_adopt(IpbWalls *walls, void *data, pid_t pid, GError **error);
/* If the only member is left, kills what is inside, so that it can wait: on_end follows, and it
 * leaves then. Returns false if it has to leave now: there are others, or the sandbox is not ready
 * or has ended. */
bool ipb_walls_end(IpbWalls *walls);
/* Removes a member. The last one kills what is inside, without waiting. If there are others, kills
 * what has the kernel @id in its environment (0: none has). */
void ipb_walls_leave(IpbWalls *walls, void *data, int64_t id);
/* Borrowed. */
const IpbSandboxPlan *ipb_walls_plan(const IpbWalls *walls);
/* Borrowed. */
IpbSandbox *ipb_walls_sandbox(const IpbWalls *walls);
