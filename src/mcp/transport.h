/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbTransport: carries whole JSON-RPC messages to and from one MCP server. It is a struct of
 * functions, so that stdio, Streamable HTTP and HTTP+SSE look the same to the client.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

typedef struct IpbTransport IpbTransport;

/* A message to the server. Everything is borrowed; all but @text may be missing. */
typedef struct {
    const char *text; /* one JSON-RPC message without newlines */
    size_t size;
    int64_t id;                       /* of a request; 0: not a request */
    const char *method;               /* NULL: a response */
    const char *name;                 /* of the tool that tools/call calls */
    const char *revision;             /* of the message; NULL: not known yet */
    bool is_modern;                   /* that revision has no handshake */
    const char *const *param_headers; /* "Mcp-Param-…: value", NULL-terminated */
} IpbTransportMessage;

/* Each of these may close or free the transport. */
typedef struct {
    /* @text is borrowed. It stays valid until the function returns, even if that frees the
     * transport. */
    void (*on_message)(const char *text, size_t size, void *data);
    /* The connection is lost. Called once, from the loop. The error says how (exit status, last
     * lines of stderr). */
    void (*on_closed)(const GError *why, void *data);
    /* Only this request has failed: no answer will come. Called from the loop. @status: the HTTP
     * status; 0 if there was none. */
    void (*on_failed)(int64_t id, unsigned status, const GError *why, void *data);
} IpbTransportFuncs;

typedef struct {
    /* If the message cannot be sent, on_closed is called later, from the loop. */
    void (*send)(IpbTransport *transport, const IpbTransportMessage *message);
    /* Stops waiting for the answer to a request. True: the server notices that by itself and needs
     * no notification. A NULL function: false. */
    bool (*cancel)(IpbTransport *transport, int64_t id);
    /* Opens the stream for messages that the server sends on its own. NULL: there is always one. */
    void (*listen)(IpbTransport *transport);
    /* Whether a message of @size bytes fits into the queue now. */
    bool (*has_room)(const IpbTransport *transport, size_t size);
    /* The last lines of the server's stderr, to be shown below an error; NULL: none. Caller
     * frees. */
    char *(*last_stderr)(const IpbTransport *transport);
    /* Shuts the server down. @done is called once, when nothing is left; on_closed is not called
     * any more. Call close once. */
    void (*close)(IpbTransport *transport, void (*done)(void *data), void *data);
    void (*free)(IpbTransport *transport);
} IpbTransportOps;

struct IpbTransport {
    const IpbTransportOps *ops;
    IpbTransportFuncs funcs;
    void *data;
};
