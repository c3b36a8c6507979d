/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcPeer: one end of a JSON-RPC 2.0 conversation, for both roles at once: matches responses to
 * calls, times calls out, hands requests and notifications to its owner. It knows no transport: the
 * owner gives it messages and a function that sends text. No batch: an array is an invalid message.
 *
 * Ownership: the peer belongs to its owner; requests to be answered are IpbRpcRequest objects that
 * the owner keeps until it answers (they outlive the peer harmlessly; answering then does nothing).
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

/* The answer to a call: exactly one of @result, @rpc_error, @failure is set. */
typedef struct {
    const IpbJson *result;
    const IpbJson *rpc_error; /* the "error" object of the answer */
    const GError *failure; /* TIMEOUT, CANCELLED, PROTOCOL, BUSY, or why the connection is gone */
    /* Owns the answer, which is borrowed for the callback; set *document = NULL to keep (and later
     * free) it. */
    IpbJsonDoc **document;
} IpbRpcAnswer;

typedef void (*IpbRpcAnswerFunc)(const IpbRpcAnswer *answer, void *data);

typedef struct {
    /* Sends one message: @text has no newline and is borrowed. */
    void (*send)(const char *text, size_t size, void *data);
    /* A request; take it with _ref or answer it before returning. NULL: all get METHOD_NOT_FOUND. */
    void (*on_request)(IpbRpcRequest *request, void *data);
    /* NULL: dropped. @params may be NULL. */
    void (*on_notification)(const char *method, const IpbJson *params, void *data);
    /* A message that is none: not JSON, not an object, an answer to no call … For logs. NULL: dropped. */
    void (*on_invalid)(const GError *why, const char *text, size_t size, void *data);
} IpbRpcPeerFuncs;

typedef struct {
    IpbJsonLimits limits;
    /* Answer what is no request with a parse/invalid-request error, as a server does (id null omitted). And a call ends whose
     * answer is no JSON: there, calls may wait for people, without a timeout. */
    bool answer_invalid;
} IpbRpcPeerOptions;

IpbRpcPeer *ipb_rpc_peer_new(IpbLoop *loop, const IpbRpcPeerOptions *options,
                             const IpbRpcPeerFuncs *funcs, void *data);
/* Ends every pending call with CANCELLED first. Any callback may do this. */
void ipb_rpc_peer_free(IpbRpcPeer *peer);
/* One whole message from the other side. */
void ipb_rpc_peer_receive(IpbRpcPeer *peer, const char *text, size_t size);
/* A message that is longer than the @max_size bytes that its owner keeps, in pieces, of which
 * nothing is kept. After the last piece (@is_last), a request gets an INVALID_REQUEST error with
 * its id, if that is known. If the message was the answer to a call, the call ends with LIMIT. */
void ipb_rpc_peer_skip(IpbRpcPeer *peer, const char *bytes, size_t size, bool is_last,
                       size_t max_size);
/* An error as the answer to the request with that id, which never was an IpbRpcRequest. */
void ipb_rpc_peer_refuse(IpbRpcPeer *peer, const char *id_json, int code, const char *message,
                         const char *data_json);

/* @params_json: text of a JSON value (NULL: no params member). @timeout_ms 0: none. Returns the id, by
 * which the call can be cancelled; @func is called exactly once, never from within this function. */
int64_t ipb_rpc_call(IpbRpcPeer *peer, const char *method, const char *params_json,
                     unsigned timeout_ms, IpbRpcAnswerFunc func, void *data);
/* Forgets the call: @func gets CANCELLED from the loop; a late answer is dropped. Says nothing to the
 * other side: protocols differ in how. False if there is no such call. */
bool ipb_rpc_cancel(IpbRpcPeer *peer, int64_t id);
/* The call ends with @why: it will not be answered. False if there is no such call. */
bool ipb_rpc_fail(IpbRpcPeer *peer, int64_t id, const GError *why);
/* The id that the next call gets. */
int64_t ipb_rpc_next_id(const IpbRpcPeer *peer);
/* Restarts the call's timeout (progress came). */
void ipb_rpc_call_touch(IpbRpcPeer *peer, int64_t id);
void ipb_rpc_notify(IpbRpcPeer *peer, const char *method, const char *params_json);

const char *ipb_rpc_request_method(const IpbRpcRequest *request);
const IpbJson *ipb_rpc_request_params(const IpbRpcRequest *request); /* may be NULL */
/* The id as JSON text (1 is not "1"). */
const char *ipb_rpc_request_id(const IpbRpcRequest *request);
IpbRpcRequest *ipb_rpc_request_ref(IpbRpcRequest *request);
/* The last reference of an unanswered request answers it with INTERNAL_ERROR. */
void ipb_rpc_request_unref(IpbRpcRequest *request);
/* Answers; only the first answer counts. @result_json is text of one JSON value. */
void ipb_rpc_request_reply(IpbRpcRequest *request, const char *result_json, size_t size);
void ipb_rpc_request_fail(IpbRpcRequest *request, int code, const char *message,
                          const char *data_json);
/* The owner decided that no answer is sent (a cancelled MCP request). */
void ipb_rpc_request_drop(IpbRpcRequest *request);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRpcPeer, ipb_rpc_peer_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRpcRequest, ipb_rpc_request_unref)
