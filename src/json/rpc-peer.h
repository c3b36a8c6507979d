/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcPeer: one end of a JSON-RPC 2.0 connection, in both roles at once. It matches responses to
 * calls, times calls out, and hands requests and notifications to its owner. It knows no transport:
 * the owner passes received messages in, and a function of the owner sends. There are no batches:
 * an array is an invalid message.
 *
 * Ownership: the peer belongs to its owner. The owner keeps an IpbRpcRequest until it has answered
 * it. Requests may outlive the peer; answering one then does nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "json/json.h"
#include "json/writer.h"

#define IPB_RPC_PARSE_ERROR (-32700)
#define IPB_RPC_INVALID_REQUEST (-32600)
#define IPB_RPC_METHOD_NOT_FOUND (-32601)
#define IPB_RPC_INVALID_PARAMS (-32602)
#define IPB_RPC_INTERNAL_ERROR (-32603)

typedef struct IpbRpcPeer IpbRpcPeer;
typedef struct IpbRpcRequest IpbRpcRequest;

typedef enum {
    IPB_RPC_RESPONSE,
    IPB_RPC_REQUEST,
    IPB_RPC_NOTIFICATION,
} IpbRpcMessageKind;

/* A message to be sent. Everything is borrowed. */
typedef struct {
    IpbRpcMessageKind kind;
    /* One JSON object without a newline. */
    const char *text;
    size_t size;
    /* The other side's request (its id, JSON text) that this message answers, or that it belongs
     * to. A transport with several streams selects the stream by it. NULL: none. */
    const char *request_id;
    /* Of a response that is an error; 0: it is a result. */
    int error_code;
} IpbRpcMessage;

/* The answer to a call: exactly one of @result, @rpc_error, @failure is set. */
typedef struct {
    const IpbJson *result;
    /* The "error" object of the response. */
    const IpbJson *rpc_error;
    /* TIMEOUT, CANCELLED, PROTOCOL, BUSY, or why the connection was lost. */
    const GError *failure;
    /* The response itself, which owns the above; borrowed for the callback. To keep it, copy the
     * pointer and set *document = NULL; the callback's owner frees it then. */
    IpbJsonDoc **document;
} IpbRpcAnswer;

typedef void (*IpbRpcAnswerFunc)(const IpbRpcAnswer *answer, void *data);

typedef struct {
    void (*send)(const IpbRpcMessage *message, void *data);
    /* A request. Answer it before returning, or keep it with _ref. NULL: every request is answered
     * with METHOD_NOT_FOUND. */
    void (*on_request)(IpbRpcRequest *request, void *data);
    /* @params may be NULL. A NULL function drops notifications. */
    void (*on_notification)(const char *method, const IpbJson *params, void *data);
    /* A malformed message: not JSON, not an object, a response to no call … For logs. May be NULL.
     */
    void (*on_invalid)(const GError *why, const char *text, size_t size, void *data);
    /* The owner dropped a request: no response to it will be sent. May be NULL. */
    void (*on_dropped)(const char *request_id, void *data);
} IpbRpcPeerFuncs;

typedef struct {
    IpbJsonLimits limits;
    /* Reply to malformed messages with a parse or invalid-request error, as a server does; the id
     * is left out if it is unknown. A malformed response ends its call, because calls to people
     * have no timeout. */
    bool answer_invalid;
} IpbRpcPeerOptions;

IpbRpcPeer *ipb_rpc_peer_new(IpbLoop *loop, const IpbRpcPeerOptions *options,
                             const IpbRpcPeerFuncs *funcs, void *data);
/* First ends every pending call with CANCELLED. May be called in any callback. */
void ipb_rpc_peer_free(IpbRpcPeer *peer);
/* Processes one whole message of the other side. */
void ipb_rpc_peer_receive(IpbRpcPeer *peer, const char *text, size_t size);
/* Processes one piece of a message that is longer than @max_size, the maximum that the owner keeps.
 * Nothing of it is kept. After the last piece (@is_last), a request is answered with
 * INVALID_REQUEST and its id, if that is known, and a response ends its call with LIMIT. */
void ipb_rpc_peer_skip(IpbRpcPeer *peer, const char *bytes, size_t size, bool is_last,
                       size_t max_size);
/* Answers the request with that id with an error. For requests that never became an IpbRpcRequest.
 */
void ipb_rpc_peer_refuse(IpbRpcPeer *peer, const char *id_json, int code, const char *message,
                         const char *data_json);

/* Sends a request. @params_json: text of a JSON value (NULL: no params member). @timeout_ms 0: no
 * timeout. Returns the call's id, by which it can be cancelled. @func is called exactly once, never
 * from within this function. */
int64_t ipb_rpc_peer_call(IpbRpcPeer *peer, const char *method, const char *params_json,
                          unsigned timeout_ms, IpbRpcAnswerFunc func, void *data);
/* The same, as part of the handling of the other side's request @request_id (NULL: of none). */
int64_t ipb_rpc_peer_call_within(IpbRpcPeer *peer, const char *request_id, const char *method,
                                 const char *params_json, unsigned timeout_ms,
                                 IpbRpcAnswerFunc func, void *data);
/* Forgets the call: @func gets CANCELLED from the loop, and a late response is dropped. Sends
 * nothing to the other side, because protocols differ in how to. False if there is no such call. */
bool ipb_rpc_peer_cancel_call(IpbRpcPeer *peer, int64_t id);
/* Ends the call with @why: it will not be answered. False if there is no such call. */
bool ipb_rpc_peer_fail_call(IpbRpcPeer *peer, int64_t id, const GError *why);
/* The id that the next call gets. */
int64_t ipb_rpc_peer_next_id(const IpbRpcPeer *peer);
/* Restarts the call's timeout, because progress arrived. */
void ipb_rpc_peer_touch_call(IpbRpcPeer *peer, int64_t id);
void ipb_rpc_peer_notify(IpbRpcPeer *peer, const char *method, const char *params_json);
/* The same, as part of the handling of the other side's request @request_id (NULL: of none). */
void ipb_rpc_peer_notify_within(IpbRpcPeer *peer, const char *request_id, const char *method,
                                const char *params_json);

const char *ipb_rpc_request_method(const IpbRpcRequest *request);
/* May be NULL. */
const IpbJson *ipb_rpc_request_params(const IpbRpcRequest *request);
/* The id as JSON text (1 is not "1"). */
const char *ipb_rpc_request_id(const IpbRpcRequest *request);
IpbRpcRequest *ipb_rpc_request_ref(IpbRpcRequest *request);
/* The last unref of an unanswered request answers it with INTERNAL_ERROR. */
void ipb_rpc_request_unref(IpbRpcRequest *request);
/* These three end the request; only the first one has an effect. @result_json is the text of one
 * JSON value. */
void ipb_rpc_request_reply(IpbRpcRequest *request, const char *result_json, size_t size);
void ipb_rpc_request_fail(IpbRpcRequest *request, int code, const char *message,
                          const char *data_json);
/* No response is sent, as MCP requires for a cancelled request. */
void ipb_rpc_request_drop(IpbRpcRequest *request);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRpcPeer, ipb_rpc_peer_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRpcRequest, ipb_rpc_request_unref)
