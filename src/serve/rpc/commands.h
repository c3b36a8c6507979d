/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands as parameters and answers of `session.run_command`.
 */
#pragma once

#include "json/writer.h"
#include "kernel/kernel.h"
#include "serve/rpc/params.h"

/* Owns what its options refer to. */
typedef struct {
    IpbCommandOptions options;
    char **argv, **env;
    GBytes *input;
} IpbRpcCommand;

/* Reads all parameters but "session". Errors are in @params. */
void ipb_rpc_command_read(IpbRpcCommand *command, IpbRpcParams *params);
void ipb_rpc_command_clear(IpbRpcCommand *command);
/* The answer. */
IpbJsonWriter *ipb_rpc_command_write(const IpbCommandResult *result);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbRpcCommand, ipb_rpc_command_clear)
