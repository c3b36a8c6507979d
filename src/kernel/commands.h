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
/* Adds a command that waits. @options are copied. Returns its number, or 0 with @error: LIMIT,
 * SYSTEM. */
uint64_t ipb_commands_add(IpbCommands *commands, const IpbCommandOptions *options,
                          IpbCommandFunc func, void *data, GError **error);
/* Starts those that wait, beside @process, which is ready. @env, @cwd: what they get from the
 * kernel. */
void ipb_commands_start(IpbCommands *commands, IpbProcess *process, const char *const *env,
                        const char *cwd);
/* None is left, running or waiting. */
bool ipb_commands_is_empty(const IpbCommands *commands);
/* Kills those that run, because their process ends. ipb_commands_fail() follows, and comes before
 * the next start. */
void ipb_commands_kill(IpbCommands *commands);
/* Reports the error to those that were killed, and to those that wait if @with_waiting. */
void ipb_commands_fail(IpbCommands *commands, bool with_waiting, IpyboxError code, const char *why);

/* --- one command; these do nothing, or fail with NOT_FOUND, if it has ended. @commands may be
 * NULL: there are none --- */

/* Kills the command and all its descendants; its end follows, with CANCELLED. */
void ipb_commands_cancel(IpbCommands *commands, uint64_t number);
/* Sends a signal to the process of the command, or SIGKILL to all its descendants, too. It gets the
 * last signal that came before its program was executed. */
bool ipb_commands_signal(IpbCommands *commands, uint64_t number, int signal, GError **error);
/* Back-pressure, of commands with on_output: while one of them is paused, or all are, its output is
 * not read, so a command that continues to print waits. What its pipes hold at its end is passed on
 * nevertheless. */
bool ipb_commands_pause(IpbCommands *commands, uint64_t number, bool paused, GError **error);
void ipb_commands_pause_all(IpbCommands *commands, bool paused);
/* Gives it more input. What its pipe does not take waits: if that is more than
 * IPB_COMMAND_MAX_INPUT, LIMIT, and nothing was taken. NOT_FOUND also if its standard input is
 * closed. */
bool ipb_commands_write(IpbCommands *commands, uint64_t number, const void *bytes, size_t size,
                        GError **error);
/* How many bytes of input wait for it. */
size_t ipb_commands_input_size(const IpbCommands *commands, uint64_t number);
/* Closes its standard input when no input waits any more. */
bool ipb_commands_close_input(IpbCommands *commands, uint64_t number, GError **error);
