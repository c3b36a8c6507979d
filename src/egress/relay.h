/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRelay: bytes both ways between a client inside a sandbox and a server outside. A side that is slow slows the other; an end
 * of one direction is passed on while the other goes on; an error on one side is an error on the other.
 *
 * For an HTTP request, only the request's own bytes pass: what the client sends after its body is never sent on, so nobody puts a
 * second, unchecked request behind a checked one.
 *
 * Ownership: the owner frees it, which closes both sockets.
 */
#pragma once

#include "base/loop.h"
#include "http/body.h"

typedef struct IpbRelay IpbRelay;

typedef enum {
    IPB_RELAY_ALL,  /* whatever comes */
    IPB_RELAY_BODY, /* of the client's bytes those of one HTTP body */
    IPB_RELAY_UPGRADE, /* of the client's bytes none until the server has answered "101", then all; no @second */
} IpbRelayMode;

typedef struct {
    int client_fd, server_fd; /* non-blocking; the relay's, whatever becomes of the call */
    IpbRelayMode mode;
    IpbHttpBody body;           /* of IPB_RELAY_BODY */
    const void *first;          /* for the server, before anything else: checked already */
    size_t first_size;          /* at most IPB_RELAY_MAX_FIRST */
    const void *second;         /* what the client has sent after that: subject to the mode */
    size_t second_size;         /* likewise */
    unsigned idle_ms;           /* 0: the default */
    void (*on_end)(void *data); /* once, from the loop; frees the relay */
    void *data;
} IpbRelayOptions;

#define IPB_RELAY_MAX_FIRST (64 * 1024)

IpbRelay *ipb_relay_new(IpbLoop *loop, const IpbRelayOptions *options, GError **error);
void ipb_relay_free(IpbRelay *relay);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRelay, ipb_relay_free)
