/* SPDX-License-Identifier: Apache-2.0
 *
 * What tool-channel.c (listening, who may connect) and tool-connection.c (one connection) share.
 */
#pragma once

#include "http/request-head.h"
#include "tools/tool-channel.h"

/* A connection that is closed calls ipb_tool_channel_forget and is gone; the channel frees those
 * that are left. */
typedef struct IpbToolConnection IpbToolConnection;

/* How long a peer may take. */
typedef struct {
    unsigned
        head_ms; /* from the first byte of a head, or the start of the connection, to its end */
    unsigned body_ms;  /* for the whole body */
    unsigned write_ms; /* to take another MiB of an answer, or its rest */
    unsigned idle_ms;  /* between an answer and the next request */
    unsigned drain_ms; /* to go after an answer that ends the connection */
} IpbToolTimeouts;

const IpbToolTimeouts *ipb_tool_channel_timeouts(const IpbToolChannel *channel);
/* For tests. */
void ipb_tool_channel_set_timeouts(IpbToolChannel *channel, const IpbToolTimeouts *timeouts);

/* Takes @fd, which is non-blocking. */
IpbToolConnection *ipb_tool_connection_new(IpbToolChannel *channel, int fd, GError **error);
/* Closes; a running call is cancelled. */
void ipb_tool_connection_free(IpbToolConnection *connection);
/* Has it sent a request with the right token? */
bool ipb_tool_connection_is_authenticated(const IpbToolConnection *connection);
/* Have bytes come that were not read yet? */
bool ipb_tool_connection_has_unread(const IpbToolConnection *connection);
/* Is it waiting for a request of which no byte was read? */
bool ipb_tool_connection_is_idle(const IpbToolConnection *connection);
/* Monotonic time, in µs, since which it waits for a request. */
int64_t ipb_tool_connection_idle_since(const IpbToolConnection *connection);

IpbLoop *ipb_tool_channel_loop(IpbToolChannel *channel);
IpbToolHost *ipb_tool_channel_host(IpbToolChannel *channel);
/* May this peer ask anything? If not, status and reason are set in @head. */
bool ipb_tool_channel_admits(const IpbToolChannel *channel, IpbHttpHead *head);
/* Memory that all connections together may hold for bodies of requests and for results that wait to
 * be read; false if there is none left. What was claimed is given back by _release. */
bool ipb_tool_channel_claim_request(IpbToolChannel *channel, size_t size);
bool ipb_tool_channel_claim_result(IpbToolChannel *channel, size_t size);
void ipb_tool_channel_release_request(IpbToolChannel *channel, size_t size);
void ipb_tool_channel_release_result(IpbToolChannel *channel, size_t size);
/* The connection is over: the channel frees it. */
void ipb_tool_channel_forget(IpbToolChannel *channel, IpbToolConnection *connection);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolConnection, ipb_tool_connection_free)
