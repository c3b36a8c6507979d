/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpRequest: a request of an MCP client, in any revision. Handlers answer it, report progress
 * and ask the client's user, and need not know how the revision does it.
 *
 * Revisions with a handshake have requests of the server: a question is one (questions.h). In
 * 2026-07-28 a question ends the client's request with an "input_required" result. The client asks
 * its user, and sends the request again with the answers and with "requestState", the name of this
 * object. Then it continues. With the tasks extension, a request that takes long ends with the name
 * of a task, whose state the client asks for. In between, no connection belongs to the request.
 *
 * IpbMcpKeptRequests has those that clients may continue: of one principal, so that names are
 * useless to others. A name is 128 random bits, so it cannot be made up. A request that has ended
 * is kept for ten minutes. A client that sends the same again then gets the same result, and
 * nothing runs twice.
 *
 * Ownership: handlers keep a request with _ref until they have answered it. It outlives its
 * connection; answers then reach no one.
 */
#pragma once

#include "json/rpc-peer.h"
#include "serve/conversation.h"
#include "serve/mcp/envelope.h"
#include "serve/mcp/questions.h"

typedef struct IpbMcpRequest IpbMcpRequest;
typedef struct IpbMcpKeptRequests IpbMcpKeptRequests;

/* The connection of a client, as far as its requests need it. The server owns it. */
typedef struct {
    IpbLoop *loop;
    IpbConversation *conversation;
    IpbRpcPeer *peer;
    IpbMcpQuestions *questions;
    IpbMcpKeptRequests *kept;
    /* Of a client with a handshake: its user can be asked. */
    bool offers_forms;
    /* What waits for an answer on this connection */
    GPtrArray *waiting;
} IpbMcpLink;

/* --- for handlers ----------------------------------------------------------------------------- */

IpbMcpRequest *ipb_mcp_request_ref(IpbMcpRequest *request);
/* The last unref of an unanswered request answers it with INTERNAL_ERROR. */
void ipb_mcp_request_unref(IpbMcpRequest *request);
const char *ipb_mcp_request_method(const IpbMcpRequest *request);
/* May be NULL. */
const IpbJson *ipb_mcp_request_params(const IpbMcpRequest *request);
/* NULL: the client has a handshake. */
const IpbMcpEnvelope *ipb_mcp_request_envelope(const IpbMcpRequest *request);

/* These end the request; only the first one has an effect. @result: the text of a JSON object
 * without "_meta". @meta: members of "_meta" (JSON text without braces), or NULL. */
void ipb_mcp_request_reply(IpbMcpRequest *request, const char *result, const char *meta);
/* @data: JSON text, or NULL. */
void ipb_mcp_request_fail(IpbMcpRequest *request, int code, const char *message, const char *data);

/* Calls @func when the client cancels the request, or closes the stream of a request of 2026-07-28.
 * There will be no answer. Once; NULL: no function is called any more. */
void ipb_mcp_request_set_cancel(IpbMcpRequest *request, void (*func)(void *data), void *data);

bool ipb_mcp_request_wants_progress(const IpbMcpRequest *request);
/* Reports progress, if the client asked for it and reads. @progress must rise. @total: negative:
 * unknown. @meta: as above. */
void ipb_mcp_request_progress(IpbMcpRequest *request, double progress, double total,
                              const char *message, const char *meta);
/* Sends a notification on the stream of the request. @params: text of a JSON object. */
void ipb_mcp_request_notify(IpbMcpRequest *request, const char *method, const char *params);

/* Can the client's user be asked? */
bool ipb_mcp_request_offers_forms(const IpbMcpRequest *request);
/* Asks the client. @key: of the question in 2026-07-28, unique for the request; NULL: one is made.
 * An answer that came with the request counts as well. @params: text of a JSON object. Returns the
 * number of the question, or 0 if the client is gone. @func is called once, never from within. */
uint64_t ipb_mcp_request_ask(IpbMcpRequest *request, const char *key, const char *method,
                             const char *params, IpbMcpAnswerFunc func, void *data);
/* The answer is not needed any more: its function is not called. */
void ipb_mcp_request_withdraw(IpbMcpRequest *request, uint64_t question);

/* The request becomes a task now, if the client knows the extension. Otherwise this happens by
 * itself after some seconds, for tools/call. */
void ipb_mcp_request_become_task(IpbMcpRequest *request);

/* --- for the server --------------------------------------------------------------------------- */

void ipb_mcp_link_init(IpbMcpLink *link, IpbLoop *loop, IpbConversation *conversation,
                       IpbMcpKeptRequests *kept);
/* The connection is gone. */
void ipb_mcp_link_clear(IpbMcpLink *link);
/* A new request, or one that continues: NULL with @fault if its "requestState" is not valid. A
 * request that continues is not handed to a handler again (*ret_continues). Caller unrefs. */
IpbMcpRequest *ipb_mcp_request_begin(IpbMcpLink *link, IpbRpcRequest *rpc,
                                     const IpbMcpEnvelope *envelope, bool *ret_continues,
                                     IpbMcpFault *fault);
/* The client cancels the request with this id (JSON text). */
void ipb_mcp_link_cancel(IpbMcpLink *link, const char *id);
/* Answers tasks/get, tasks/update and tasks/cancel. */
void ipb_mcp_link_handle_task(IpbMcpLink *link, IpbMcpRequest *request);

IpbMcpKeptRequests *ipb_mcp_kept_requests_new(IpbLoop *loop);
/* Questions that wait for an answer fail. */
void ipb_mcp_kept_requests_free(IpbMcpKeptRequests *kept);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpRequest, ipb_mcp_request_unref)
