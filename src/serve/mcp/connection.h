/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpConnection: a client of ipybox as an MCP server, over a message channel: the tools, the
 * resources and the instructions that it gets, and its default session.
 *
 * Ownership: it owns the channel. Sessions belong to their table.
 */
#pragma once

#include "serve/mcp/named-sessions.h"
#include "serve/mcp/resources.h"
#include "serve/mcp/tool-options.h"

typedef struct IpbMcpConnection IpbMcpConnection;

/* Methods beside those of ipybox, or instead of them. */
typedef struct {
    /* JSON object: the server's capabilities */
    const char *capabilities;
    /* Answers the request, or keeps it. False: ipybox handles it. */
    bool (*handle)(IpbMcpRequest *request, void *data);
    void *data;
} IpbMcpExtension;

/* What the connections of a service share; lives longer than they. */
typedef struct {
    IpbLoop *loop;
    IpbMcpToolOptions tools;
    bool offers_register;
    bool keeps_results;
    /* Object with the names of servers that are registered before the first cell runs, or NULL */
    const IpbJson *servers;
    IpbNamedSessions *sessions;
    IpbMcpKeptRequests *kept;
    /* A session without a kernel */
    IpbSession *common;
    IpbMcpResources *resources;
    /* NULL: none */
    const IpbMcpExtension *extension;
    /* May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbMcpShared;

/* Takes @channel, even on failure. @is_stateless: each request is of revision 2026-07-28 and names
 * its session; otherwise the client has a default session, whose kernel starts now. @on_end: the
 * client closed the channel (@why NULL), or the channel failed; once, from the loop. Errors: those
 * of ipb_named_sessions_add. */
IpbMcpConnection *ipb_mcp_connection_new(const IpbMcpShared *shared, IpbMessageChannel *channel,
                                         bool is_stateless,
                                         void (*on_end)(const GError *why, void *data), void *data,
                                         GError **error);
/* The revision that was negotiated; NULL: the client had no handshake. Static. */
const char *ipb_mcp_connection_revision(const IpbMcpConnection *connection);
/* The session is about to be freed. */
void ipb_mcp_connection_forget(IpbMcpConnection *connection, const IpbNamedSession *session);
/* The client leaves its default session. */
void ipb_mcp_connection_detach(IpbMcpConnection *connection);
/* Writes responses that wait, for at most @flush_ms, which must be 0 within the loop. Calls
 * continue. */
void ipb_mcp_connection_free(IpbMcpConnection *connection, unsigned flush_ms);
