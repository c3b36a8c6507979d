/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbKernelCommand: the options of `ipybox kernel`. Kernelspecs hold such a command line, too.
 *
 * Ownership: a plain struct, which its owner clears.
 */
#pragma once

#include "cli/serve-options.h"
#include "session/session.h"

typedef struct {
    char *connection_file;
    IpbKernelArguments kernel;
    IpbApprovalArguments approval;
    char *log_level;
    char *history_file; /* only `:memory:` */
} IpbKernelCommand;

/* The last one ends the table. */
#define IPB_KERNEL_COMMAND_N_OPTIONS 14

/* Sets the defaults, and makes the table of options for @command. */
void ipb_kernel_command_init(IpbKernelCommand *command,
                             GOptionEntry ret_options[IPB_KERNEL_COMMAND_N_OPTIONS]);
void ipb_kernel_command_clear(IpbKernelCommand *command);
/* What is wrong with parsed options. @arguments: those that are no options; NULL-terminated. */
bool ipb_kernel_command_check(const IpbKernelCommand *command, char **arguments, GError **error);
/* Parses the command line of a kernelspec, without the program and the verb. Prints nothing. The
 * caller clears *ret_command, also after an error: INVALID. */
bool ipb_kernel_command_parse(char **arguments, IpbKernelCommand *ret_command, GError **error);
/* Fills in what they say of a session. The texts are borrowed from @command. */
bool ipb_kernel_command_set_up(const IpbKernelCommand *command, IpbSessionOptions *session,
                               GError **error);
