/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcSessions: the sessions of a client, with the methods "session.*" except session.cancel,
 * which the server has.
 *
 * Ownership: the server owns this object, which owns the sessions. A session owns its IpbSession,
 * its cells, its questions and its ports.
 */
#pragma once

#include "serve/rpc/client.h"
#include "session/runtimes.h"
#include "tools/registry.h"

typedef struct IpbRpcSessions IpbRpcSessions;

extern const IpbRpcMethod IPB_RPC_SESSION_METHODS[];
extern const size_t IPB_RPC_N_SESSION_METHODS;

/* @client and @runtimes are borrowed. */
IpbRpcSessions *ipb_rpc_sessions_new(IpbRpcClient *client, IpbRuntimes *runtimes);
/* Lets all sessions call a registration, also those that are opened later. */
void ipb_rpc_sessions_allow(IpbRpcSessions *sessions, const IpbRegistration *registration);
/* While the client reads too slowly, all sessions are paused. */
void ipb_rpc_sessions_set_congested(IpbRpcSessions *sessions, bool is_congested);
/* Closes all in order; @done when none is left, at once if none is open. */
void ipb_rpc_sessions_close(IpbRpcSessions *sessions, void (*done)(void *data), void *data);
/* Kills what is left. */
void ipb_rpc_sessions_free(IpbRpcSessions *sessions);
