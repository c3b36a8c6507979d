/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpExchange: a POST with requests of an MCP client, and what answers it. If the response is
 * the first message and comes soon, the answer is this one JSON object. Otherwise it is a stream of
 * server-sent events: the messages that belong to the requests, then their responses. Each event
 * has an id. A client that lost the connection can resume the stream behind the last event that it
 * saw, so events are kept for a while after they were sent.
 *
 * Ownership: the channel owns its exchanges. Functions are called from the loop only, and never
 * from within a function of the exchange, but for `on_over`.
 */
#pragma once

#include "http/server.h"

typedef struct IpbMcpExchange IpbMcpExchange;

typedef struct {
    /* How many bytes wait for the client has changed. May add events. */
    void (*on_written)(IpbMcpExchange *exchange, void *data);
    /* All responses are there, and all of it was written or the client has left. The exchange may
     * be kept for a resumption, or freed. */
    void (*on_over)(IpbMcpExchange *exchange, void *data);
} IpbMcpExchangeFuncs;

/* Sums over the exchanges of a channel, which each exchange keeps up to date. */
typedef struct {
    /* Bytes of all events, and those that wait because the client reads slowly */
    size_t size, pending;
} IpbMcpExchangeSums;

typedef struct {
    IpbLoop *loop;
    IpbMcpExchangeSums *sums;
    /* Of the stream, in the ids of its events */
    unsigned number;
    /* Requests of the POST */
    size_t n_requests;
    /* The stream begins with an event without data, so that it can be resumed at once. Clients of
     * revisions before 2025-11-25 may not expect it. */
    bool is_primed;
    /* Of revision 2026-07-28: events have no ids, and errors have their own status. */
    bool is_stateless;
    /* Header lines of an answer that is no error; borrowed, or NULL */
    const char *headers;
} IpbMcpExchangeOptions;

/* Takes @request, and answers it from the loop. */
IpbMcpExchange *ipb_mcp_exchange_new(const IpbMcpExchangeOptions *options, IpbHttpRequest *request,
                                     const IpbMcpExchangeFuncs *funcs, void *data);
/* Adds a message, one JSON object without a newline. @is_response: it answers one of the requests;
 * @error_code: with this error of JSON-RPC; 0: with a result. */
void ipb_mcp_exchange_add(IpbMcpExchange *exchange, const char *text, size_t size, bool is_response,
                          int error_code);
/* One of the requests gets no response. */
void ipb_mcp_exchange_drop(IpbMcpExchange *exchange);
/* Answers @request, which is taken, with the events behind the one with the number @last. A
 * connection that the stream still has is ended. */
void ipb_mcp_exchange_resume(IpbMcpExchange *exchange, IpbHttpRequest *request, uint64_t last);

unsigned ipb_mcp_exchange_number(const IpbMcpExchange *exchange);
/* Is its client connected? */
bool ipb_mcp_exchange_is_attached(const IpbMcpExchange *exchange);
/* Will there be further responses? */
bool ipb_mcp_exchange_is_open(const IpbMcpExchange *exchange);
/* Does the client know an id of an event? */
bool ipb_mcp_exchange_can_resume(const IpbMcpExchange *exchange);
/* For the channel's queues; its data is the exchange. */
GList *ipb_mcp_exchange_link(IpbMcpExchange *exchange);
/* Bytes of all events. */
size_t ipb_mcp_exchange_size(const IpbMcpExchange *exchange);
/* Forgets the oldest event that does not wait for the client; false if there is none. */
bool ipb_mcp_exchange_forget(IpbMcpExchange *exchange);
/* Answers what is not answered yet. */
void ipb_mcp_exchange_free(IpbMcpExchange *exchange);
