/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpServer: the protocol of an MCP server for one client, over a message channel. It speaks the
 * revisions with a handshake, 2024-11-05 to 2025-11-25, and 2026-07-28, in which each request
 * carries what the server must know; a client may use both. Requests are handled while others run.
 * What is served, such as tools, is the owner's matter.
 *
 * Ownership: it owns the channel.
 */
#pragma once

#include "serve/mcp/request.h"
#include "serve/message-channel.h"

typedef struct IpbMcpServer IpbMcpServer;

typedef struct {
    IpbLoop *loop;
    /* Of the client's principal; lives longer than the server. */
    IpbMcpKeptRequests *kept;
    /* There is no handshake: requests of 2026-07-28 only. */
    bool is_stateless;
    /* JSON objects; live as long as the server. The icons are an array. */
    const char *capabilities;
    const char *icons;
    /* What a model should know; NULL: nothing. Caller frees. */
    char *(*instructions)(void *data);
    /* A client with a handshake says who it is; @name may be NULL. May be NULL. */
    void (*on_client)(const char *name, void *data);
    /* Answers the request now, or keeps it. False: there is no such method. */
    bool (*handle)(IpbMcpRequest *request, void *data);
    void (*on_congested)(bool is_congested, void *data);
    /* The client closed the channel (@why NULL), or the channel failed. Once, from the loop. */
    void (*on_end)(const GError *why, void *data);
    /* May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbMcpServerOptions;

/* Takes @channel. */
IpbMcpServer *ipb_mcp_server_new(IpbMessageChannel *channel, const IpbMcpServerOptions *options);
/* The revision that was negotiated; NULL: the client had no handshake. Static. */
const char *ipb_mcp_server_revision(const IpbMcpServer *server);
/* Borrowed. */
IpbConversation *ipb_mcp_server_conversation(const IpbMcpServer *server);
/* Asks the client's user a question that belongs to no request. 0: this client cannot be asked. See
 * ipb_mcp_questions_ask. */
uint64_t ipb_mcp_server_ask(IpbMcpServer *server, const char *method, const char *params,
                            IpbMcpAnswerFunc func, void *data);
void ipb_mcp_server_withdraw(IpbMcpServer *server, uint64_t question);
/* Writes responses that wait, for at most @flush_ms, which must be 0 within the loop. Requests that
 * are not answered reach no one. */
void ipb_mcp_server_free(IpbMcpServer *server, unsigned flush_ms);
