/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRelay: copies bytes both ways between a client inside a sandbox and a server outside. A slow
 * side slows down the other. If one direction ends, the end is passed on and the other direction
 * continues. An error on one side becomes an error on the other.
 *
 * Of an HTTP request, only the bytes of the request pass. What the client sends after the body is
 * never forwarded, so a client cannot append a second, unchecked request to a checked one.
 *
 * Ownership: the owner frees it, which closes both sockets.
 */
#pragma once

#include "base/loop.h"
#include "http/body.h"

typedef struct IpbRelay IpbRelay;

typedef enum {
    /* Everything passes. */
    IPB_RELAY_ALL,
    /* Of the client's bytes only those of one HTTP body pass. */
    IPB_RELAY_BODY,
    /* None of the client's bytes pass until the server has answered "101", then all. No @second. */
    IPB_RELAY_UPGRADE,
} IpbRelayMode;

#define IPB_RELAY_MAX_FIRST (64 * 1024)

typedef struct {
    int client_fd, server_fd; /* non-blocking; the call takes them over, even if it fails */
    IpbRelayMode mode;
    IpbHttpBody body;           /* for IPB_RELAY_BODY */
    const void *first;          /* sent to the server before anything else; checked by the caller */
    size_t first_size;          /* at most IPB_RELAY_MAX_FIRST */
    const void *second;         /* what the client has sent after that: subject to the mode */
    size_t second_size;         /* at most IPB_RELAY_MAX_FIRST */
    unsigned idle_ms;           /* 0: the default */
    void (*on_end)(void *data); /* called once, from the loop; it frees the relay */
    void *data;
} IpbRelayOptions;

IpbRelay *ipb_relay_new(IpbLoop *loop, const IpbRelayOptions *options, GError **error);
void ipb_relay_free(IpbRelay *relay);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRelay, ipb_relay_free)
