/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbTransport: carries whole JSON-RPC messages to and from one MCP server. A struct of functions, so
 * that stdio, Streamable HTTP and SSE look alike to the client.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

typedef struct IpbTransport IpbTransport;

/* Both may close or free the transport. */
typedef struct {
    /* @text is borrowed, and stays even if the transport is freed meanwhile. */
    void (*on_message)(const char *text, size_t size, void *data);
    /* The connection is gone; told once, from the loop. The message says how (exit status, last lines of
     * stderr). */
    void (*on_closed)(const GError *why, void *data);
} IpbTransportFuncs;

typedef struct {
    /* What cannot be sent closes the connection (on_closed, later, from the loop). */
    void (*send)(IpbTransport *transport, const char *text, size_t size);
    /* Would a message of @size bytes go into the queue now? */
    bool (*has_room)(const IpbTransport *transport, size_t size);
    /* What the server last said on stderr, to be put below an error; NULL: nothing. Caller frees. */
    char *(*last_words)(const IpbTransport *transport);
    /* Shuts down in order; @done once when nothing is left. No on_closed comes any more. Once only. */
    void (*close)(IpbTransport *transport, void (*done)(void *data), void *data);
    void (*free)(IpbTransport *transport);
} IpbTransportOps;

struct IpbTransport {
    const IpbTransportOps *ops;
    IpbTransportFuncs funcs;
    void *data;
};
