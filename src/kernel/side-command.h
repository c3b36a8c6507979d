/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSideCommand: a command that runs beside a kernel: a process that the forkserver forks into the
 * walls of the kernel, and that then executes a program. The kernel takes no part in it, so a busy
 * or hostile kernel does not matter.
 *
 * Ownership: the owner may free it at any time, also in its callback.
 */
#pragma once

#include "kernel/kernel.h"
#include "kernel/process.h"

typedef struct IpbSideCommand IpbSideCommand;

/* Starts the command beside @process, which is ready and outlives it. @env, the whole environment
 * of the command, is copied, and so is all of @options. @func is called once, from the loop, unless
 * it is freed before. */
IpbSideCommand *ipb_side_command_new(IpbLoop *loop, IpbProcess *process, const char *const *env,
                                     const IpbCommandOptions *options, IpbCommandFunc func,
                                     void *data);
/* Kills the command and what it has started; @func follows with the error CANCELLED. */
void ipb_side_command_cancel(IpbSideCommand *command);
/* Kills the command and what it has started, if it runs. */
void ipb_side_command_free(IpbSideCommand *command);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSideCommand, ipb_side_command_free)
