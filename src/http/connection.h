/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpConnection: one connection to the server (http/server.h), with the request that is being
 * handled and its answer. What handlers call is declared in server.h.
 *
 * Ownership: the server holds one reference until ipb_http_connection_end. A running callback holds
 * another.
 */
#pragma once

#include "http/server.h"
#include "http/turns.h"

typedef struct IpbHttpConnection IpbHttpConnection;

/* Number of connections that were taken over. Reference-counted (g_rc_box): the server and each
 * place hold it, because a place may outlive the server. */
typedef struct {
    unsigned n;
} IpbHttpPlaces;

/* What the connections of one server share. The server owns it, and it outlives them. */
typedef struct {
    IpbLoop *loop;
    IpbHttpServerOptions options;
    IpbHttpGate *gate;
    /* Of new connections; NULL: they do not use TLS */
    IpbTlsKeys *keys;
    /* 0: the server does not listen */
    unsigned port;
    IpbHttpPlaces *places;
    /* Of large requests; NULL: they are handled at once */
    IpbHttpTurns *turns;
    /* Bytes of bodies and answers that all connections hold */
    size_t held_bodies, held_answers;
    /* The connection is over: its owner ends it. */
    void (*on_over)(IpbHttpConnection *connection, void *data);
    /* A request of it begins or is over: what is asked below may have changed. */
    void (*on_changed)(IpbHttpConnection *connection, void *data);
    void *data;
} IpbHttpShared;

/* Where the owner lists the connection, as it likes. */
typedef struct {
    GList link; /* its data is the connection */
    GQueue *queue;
} IpbHttpListing;

/* Takes @fd, which is non-blocking, even on failure. */
IpbHttpConnection *ipb_http_connection_new(IpbHttpShared *shared, int fd, GError **error);
/* Closes it and drops the reference. The handler of its request or stream is notified. */
void ipb_http_connection_end(IpbHttpConnection *connection);
/* Has the gate admitted one of its requests? */
bool ipb_http_connection_is_admitted(const IpbHttpConnection *connection);
/* Have bytes arrived that were not read yet? */
bool ipb_http_connection_has_unread(const IpbHttpConnection *connection);
/* Does it wait for a request, of which no byte was read? */
bool ipb_http_connection_is_idle(const IpbHttpConnection *connection);
/* Zero at first. */
IpbHttpListing *ipb_http_connection_listing(IpbHttpConnection *connection);

/* {"error": @message}, with the server's name for the member. Caller frees. */
GBytes *ipb_http_shared_describe_error(const IpbHttpShared *shared, unsigned status,
                                       const char *message);
