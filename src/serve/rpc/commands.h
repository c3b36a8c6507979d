/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcCommand: a command that runs beside a session's kernel: `session.run_command`, and the
 * methods `command.*`, which name it by the id of that request (docs/internals/rpc.md).
 *
 * Ownership: its pending request owns it.
 */
#pragma once

#include "serve/rpc/client.h"
#include "session/session.h"

typedef struct IpbRpcCommand IpbRpcCommand;

/* Reads all parameters but "session", and runs the command. @session may be NULL if @params have an
 * error. @owner: of its pending requests; @session lives as long as they do. */
void ipb_rpc_command_run(IpbRpcClient *client, void *owner, IpbSession *session,
                         IpbRpcRequest *request, IpbRpcParams *params);

/* Methods of commands that run. Their object is the IpbRpcClient. */
extern const IpbRpcMethod IPB_RPC_COMMAND_METHODS[];
extern const size_t IPB_RPC_N_COMMAND_METHODS;
