/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpHttpChannel: the message channel of one session of Streamable HTTP (revisions 2025-03-26 to
 * 2025-11-25), or of one request of revision 2026-07-28, whose stream cannot be resumed. Each POST
 * of the client is an exchange (serve/mcp-http/exchange.h). A message that belongs to a request
 * goes on the stream of its exchange; any other message goes on the newest one, or waits for the
 * next one.
 *
 * Streams can be resumed: the last 4 MiB of events of a session are kept, those of finished streams
 * included. What waits for a client that reads slowly is kept in addition, at most 64 MiB. Over
 * that, or if all channels of the budget keep too much, the channel ends.
 *
 * Ownership: the conversation owns the channel. The budget outlives it.
 */
#pragma once

#include "http/server.h"
#include "serve/message-channel.h"

typedef struct IpbMcpHttpChannel IpbMcpHttpChannel;

/* Bytes of all channels together. */
typedef struct {
    size_t held;
    size_t max_held;
} IpbMcpHttpBudget;

/* Bytes of the id of a request. */
#define IPB_MCP_HTTP_MAX_ID 1024

typedef struct {
    IpbLoop *loop;
    IpbMcpHttpBudget *budget;
    /* Header line of the answer to initialize; copied. NULL: the channel is of one request of
     * revision 2026-07-28, and ends when the client closes the connection */
    const char *session_header;
    /* A request has got its last answer. May be NULL. */
    void (*on_answered)(void *data);
    void *data;
} IpbMcpHttpChannelOptions;

IpbMcpHttpChannel *ipb_mcp_http_channel_new(const IpbMcpHttpChannelOptions *options);
/* For the conversation, which owns it. */
IpbMessageChannel *ipb_mcp_http_channel_get(IpbMcpHttpChannel *http);

/* Can it be the id of a message: a string or a number, of at most IPB_MCP_HTTP_MAX_ID bytes? @id:
 * NULL is none. */
bool ipb_mcp_http_channel_takes_id(const IpbJson *id);
/* Delivers the body of a POST, @text with the value @message, and answers @request, which is taken,
 * now or later. @revision: what was negotiated; NULL: the message is initialize. */
void ipb_mcp_http_channel_post(IpbMcpHttpChannel *http, IpbHttpRequest *request, IpbSpan text,
                               const IpbJson *message, const char *revision);
/* Resumes the stream that has the event @last_id, and answers @request, which is taken. */
void ipb_mcp_http_channel_resume(IpbMcpHttpChannel *http, IpbHttpRequest *request, IpbSpan last_id);
/* Does the client wait for an answer, or would it, had it not lost the connection? */
bool ipb_mcp_http_channel_is_busy(const IpbMcpHttpChannel *http);
