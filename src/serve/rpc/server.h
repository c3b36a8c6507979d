/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcServer: `ipybox rpc`, the core that SDKs drive: JSON-RPC with one client, and any number of
 * sessions. The contract is docs/internals/rpc.md.
 *
 * Ownership: the server owns everything that its client creates.
 */
#pragma once

#include "serve/message-channel.h"

typedef struct IpbRpcServer IpbRpcServer;

typedef struct {
    /* The server owns it. */
    IpbMessageChannel *channel;
    /* Called once: the client has gone (@why is NULL), or the conversation failed. */
    void (*on_end)(const GError *why, void *data);
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbRpcServerOptions;

IpbRpcServer *ipb_rpc_server_new(IpbLoop *loop, const IpbRpcServerOptions *options);
/* Ends sessions, servers and Pythons in order; @done from the loop when nothing is left. Call this
 * once. */
void ipb_rpc_server_close(IpbRpcServer *server, void (*done)(void *data), void *data);
/* Kills what is left. */
void ipb_rpc_server_free(IpbRpcServer *server);
