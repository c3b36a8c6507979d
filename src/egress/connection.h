/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbConnection: one connection out of a sandbox, from its first byte to its last:
 *
 *     INPUT → OPENING → INPUT → … → RELAY     the protocol reads what the client wants, opens the
 *                                             destination, may read more, then relays
 *           → LINGER                          the connection was answered and is being closed
 *
 * A protocol is a struct of functions that interprets the client's bytes. One connection may have
 * several protocols, one after the other: the tunnel of a proxy to port 443 becomes TLS. This file
 * has what the protocols share: reading with a bound and a deadline, dialling what the rules allow,
 * reporting denials, and closing so that the last answer arrives.
 *
 * Ownership: the IpbEgress owns the connection. A function below that "ends the turn" may free the
 * connection: its caller returns at once.
 */
#pragma once

#include "base/buffer.h"
#include "base/loop.h"
#include "egress/domain-rules.h"
#include "egress/relay.h"
#include "egress/resolver.h"
#include "egress/synthetic-addresses.h"
#include "egress/upstream.h"
#include "egress/violations.h"

/* What the connections of one sandbox share. The IpbEgress owns all of it. */
typedef struct {
    IpbLoop *loop;
    IpbDomainRules *rules; /* may be replaced between two turns of the loop */
    IpbResolver *resolver;
    IpbSyntheticAddresses *addresses;
    IpbViolations *violations;
    const IpbUpstream *upstream; /* borrowed; NULL: destinations are reached directly */
} IpbEgressContext;

typedef struct IpbConnection IpbConnection;

typedef struct {
    /* Called at the beginning, and whenever more input has arrived. */
    void (*on_input)(IpbConnection *connection);
    /* The result of ipb_connection_open: the server is connected, or it is not. */
    void (*on_open)(IpbConnection *connection);
    void (*on_failure)(IpbConnection *connection, const GError *error);
    /* At least the max_input of each protocol that may follow on the same connection. */
    size_t max_input;
} IpbProtocol;

typedef struct {
    const IpbEgressContext *context;
    const IpbProtocol *protocol;
    /* Called once, from the loop, when the connection has ended. It frees the connection. */
    void (*on_end)(IpbConnection *connection, void *data);
    void *data;
} IpbConnectionOptions;

/* Takes over @fd, even if the call fails. */
IpbConnection *ipb_connection_new(int fd, const IpbConnectionOptions *options, GError **error);
void ipb_connection_free(IpbConnection *connection);

const IpbEgressContext *ipb_connection_context(const IpbConnection *connection);
/* What was received and is not consumed yet. */
IpbBuffer *ipb_connection_input(IpbConnection *connection);
/* The address that the client connected to: the one it had before our listener received it. */
bool ipb_connection_local(const IpbConnection *connection, IpbDestination *ret_destination);
/* A number for the protocol's own use, 0 at first: how far a head was scanned, or which message
 * comes next. */
size_t *ipb_connection_progress(IpbConnection *connection);
/* Set by ipb_connection_open. */
const IpbDestination *ipb_connection_destination(const IpbConnection *connection);
bool ipb_connection_is_open(const IpbConnection *connection);
/* For a connection that was opened for a request: the proxy that it leads to and that forwards the
 * request; NULL if it leads to the destination. */
const IpbUpstreamProxy *ipb_connection_proxy(const IpbConnection *connection);

/* The following functions end the turn. */

/* Another protocol takes over, with the input that is there. Its deadline starts from the
 * beginning. */
void ipb_connection_become(IpbConnection *connection, const IpbProtocol *protocol);
/* Dials a destination if the rules allow it. A synthetic address means the name that it was
 * assigned to. @is_http: the connection is for one request, sent by ipb_http_forward_relay(). */
void ipb_connection_open(IpbConnection *connection, const IpbDestination *destination,
                         bool is_http);
/* The same without the rules, for the application's own proxy on loopback. */
void ipb_connection_open_unchecked(IpbConnection *connection, const IpbDestination *destination);
/* Connects client and server to each other. The server receives @first, then what is in the
 * input. */
void ipb_connection_relay(IpbConnection *connection, IpbRelayMode mode, const IpbHttpBody *body,
                          const void *first, size_t first_size);
/* Sends the last answer, which may be empty, and closes. */
void ipb_connection_finish(IpbConnection *connection, const void *bytes, size_t size);
void ipb_connection_close(IpbConnection *connection);

/* The following functions do not end the turn, with the exception that is named. */

/* Sends a short answer. False: it could not be sent, and the turn has ended. */
bool ipb_connection_send(IpbConnection *connection, const void *bytes, size_t size);
/* Restarts the deadline, for a protocol of several requests. */
void ipb_connection_extend(IpbConnection *connection);
/* Reports a denial that only the protocol can detect. */
void ipb_connection_report(IpbConnection *connection, const IpbDestination *destination,
                           const char *reason);
/* May a client whose connection leads to @destination name this host on it (SNI in TLS, Host in
 * HTTP)? It must be the same name. If the destination is an address, it may also be a name that
 * the rules allow. If false, *ret_reason says why. */
bool ipb_connection_agrees(IpbConnection *connection, const IpbDestination *destination,
                           const IpbDestination *named, char **ret_reason);
