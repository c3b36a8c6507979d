/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbTransport: carries whole JSON-RPC messages to and from one MCP server. A struct of functions, so
 * that stdio, Streamable HTTP and SSE look alike to the client.
 */
#pragma once

#include <stddef.h>

#include <glib.h>

typedef struct IpbTransport IpbTransport;

typedef struct {
    void (*on_message)(const char *text, size_t size, void *data);
    /* The connection is gone; told once, from the loop. The message says how (exit status, last lines of
     * stderr). */
    void (*on_closed)(const GError *why, void *data);
} IpbTransportFuncs;

typedef struct {
    void (*send)(IpbTransport *transport, const char *text, size_t size);
    /* Shuts down in order; @done once when nothing is left. No on_closed comes any more. */
    void (*close)(IpbTransport *transport, void (*done)(void *data), void *data);
    void (*free)(IpbTransport *transport);
} IpbTransportOps;

struct IpbTransport {
    const IpbTransportOps *ops;
    IpbTransportFuncs funcs;
    void *data;
};
