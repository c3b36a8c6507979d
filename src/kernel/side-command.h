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

/* A command that waits for its start. @options are copied. @func is called once, from the loop,
 * unless the command is freed before. Returns NULL with @error: SYSTEM. */
IpbSideCommand *ipb_side_command_new(IpbLoop *loop, const IpbCommandOptions *options,
                                     IpbCommandFunc func, void *data, GError **error);
/* Starts it beside @process, which is ready and outlives it, unless it was cancelled or killed.
 * @env: the environment of the kernel; @cwd: where the kernel starts. */
void ipb_side_command_start(IpbSideCommand *command, IpbProcess *process, const char *const *env,
                            const char *cwd);
/* These are of a command in any state; see kernel/commands.h. */
void ipb_side_command_cancel(IpbSideCommand *command);
void ipb_side_command_signal(IpbSideCommand *command, int number);
void ipb_side_command_set_paused(IpbSideCommand *command, bool paused);
bool ipb_side_command_write(IpbSideCommand *command, const void *bytes, size_t size,
                            GError **error);
size_t ipb_side_command_input_size(const IpbSideCommand *command);
void ipb_side_command_close_input(IpbSideCommand *command);
/* Kills the command and what it has started, if it runs. */
void ipb_side_command_free(IpbSideCommand *command);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSideCommand, ipb_side_command_free)
