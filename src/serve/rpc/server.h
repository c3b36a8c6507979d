/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcServer: `ipybox rpc`, the core that SDKs drive: JSON-RPC on a pair of fds, any number of sessions. The contract is
 * docs/internals/rpc.md.
 *
 * Ownership: the server owns everything that its client makes.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbRpcServer IpbRpcServer;

typedef struct {
    int in, out; /* become the server's */
    /* The client has gone (@why NULL) or the conversation cannot go on; told once. */
    void (*on_end)(const GError *why, void *data);
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbRpcServerOptions;

IpbRpcServer *ipb_rpc_server_new(IpbLoop *loop, const IpbRpcServerOptions *options, GError **error);
/* Ends sessions, servers and Pythons in order; @done from the loop when nothing is left. Once. */
void ipb_rpc_server_close(IpbRpcServer *server, void (*done)(void *data), void *data);
/* Kills what is left. */
void ipb_rpc_server_free(IpbRpcServer *server);
