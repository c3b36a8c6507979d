/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbTransport: carries whole JSON-RPC messages to and from one MCP server. A struct of functions, so
 * that stdio, Streamable HTTP and SSE look alike to the client.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

typedef struct IpbTransport IpbTransport;

/* What goes to the server. Everything is borrowed; all but @text may be missing. */
typedef struct {
    const char *text; /* one JSON-RPC message without newlines */
    size_t size;
    int64_t id;                       /* of a request; 0: it is none */
    const char *method;               /* NULL: an answer */
    const char *name;                 /* of the tool that is called */
    const char *revision;             /* that it is written in; NULL: not known yet */
    bool is_modern;                   /* that revision has no handshake */
    const char *const *param_headers; /* "Mcp-Param-…: value", NULL-terminated */
} IpbTransportMessage;

/* All may close or free the transport. */
typedef struct {
    /* @text is borrowed, and stays even if the transport is freed meanwhile. */
    void (*on_message)(const char *text, size_t size, void *data);
    /* The connection is gone; told once, from the loop. The message says how (exit status, last lines of
     * stderr). */
    void (*on_closed)(const GError *why, void *data);
    /* This request alone has failed: no answer comes. @status: of HTTP, 0 if there was none. From the loop. */
    void (*on_failed)(int64_t id, unsigned status, const GError *why, void *data);
} IpbTransportFuncs;

typedef struct {
    /* What cannot be sent closes the connection (on_closed, later, from the loop). */
    void (*send)(IpbTransport *transport, const IpbTransportMessage *message);
    /* No answer to the request is wanted any more. True: the server knows by that, and needs no message. NULL: false. */
    bool (*cancel)(IpbTransport *transport, int64_t id);
    /* The server may tell something unasked from now on: it is to be listened to. NULL: it always is. */
    void (*listen)(IpbTransport *transport);
    /* Would a message of @size bytes go into the queue now? */
    bool (*has_room)(const IpbTransport *transport, size_t size);
    /* What the server last said on stderr, to be put below an error; NULL: nothing. Caller frees. */
    char *(*last_stderr)(const IpbTransport *transport);
    /* Shuts down in order; @done once when nothing is left. No on_closed comes any more. Once only. */
    void (*close)(IpbTransport *transport, void (*done)(void *data), void *data);
    void (*free)(IpbTransport *transport);
} IpbTransportOps;

struct IpbTransport {
    const IpbTransportOps *ops;
    IpbTransportFuncs funcs;
    void *data;
};
