/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport to an MCP server that is a child process: one message a line on its stdin and
 * stdout. What it writes to stderr goes to the log. docs/internals/mcp-client.md describes how it
 * ends.
 */
#pragma once

#include "base/loop.h"
#include "mcp/server-params.h"
#include "mcp/server-log.h"
#include "mcp/transport.h"

typedef struct {
    const char *name;              /* of the server, for messages */
    const IpbServerParams *params; /* expanded */
    const char *cwd;               /* if the parameters have none; NULL: ours */
    const char *const *base_env;   /* the server's environment is taken from it */
    const char *state_dir; /* our state, which sandboxed servers cannot see; NULL: the user's */
    const char *const *keep_out; /* see client.h */
    IpbServerLog *log;           /* referenced */
    size_t max_message;          /* size of one message of the server */
} IpbStdioTransportOptions;

/* Starts the process. Errors: NOT_FOUND (the command), SYSTEM; INVALID and UNAVAILABLE of its
 * sandbox. Errors that a sandbox finds later are reported by on_closed. */
IpbTransport *ipb_transport_new_stdio(IpbLoop *loop, const IpbStdioTransportOptions *options,
                                      const IpbTransportFuncs *funcs, void *data, GError **error);
