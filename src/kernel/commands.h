/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCommands: the commands of a kernel: those that wait until a process is ready, and those that
 * run beside it.
 *
 * Ownership: the kernel owns it, and frees it before its process.
 */
#pragma once

#include "base/error.h"
#include "kernel/side-command.h"

typedef struct IpbCommands IpbCommands;

IpbCommands *ipb_commands_new(IpbLoop *loop);
/* Kills those that run. No function is called any more. */
void ipb_commands_free(IpbCommands *commands);
/* Adds a command that waits. @options are copied. Returns its number, or 0 with @error: LIMIT. */
uint64_t ipb_commands_add(IpbCommands *commands, const IpbCommandOptions *options,
                          IpbCommandFunc func, void *data, GError **error);
/* Starts those that wait, beside @process, which is ready. @env, @cwd: what they get from the
 * kernel. */
void ipb_commands_start(IpbCommands *commands, IpbProcess *process, const char *const *env,
                        const char *cwd);
/* Its function is called later, from the loop. Does nothing if there is no such command. */
void ipb_commands_cancel(IpbCommands *commands, uint64_t number);
/* None is left, running or waiting. */
bool ipb_commands_is_empty(const IpbCommands *commands);
/* Kills those that run, because their process ends. ipb_commands_fail() follows, and comes before
 * the next start. */
void ipb_commands_kill(IpbCommands *commands);
/* Reports the error to those that were killed, and to those that wait if @with_waiting. */
void ipb_commands_fail(IpbCommands *commands, bool with_waiting, IpyboxError code, const char *why);
