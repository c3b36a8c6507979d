/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbConnection: one connection out of a sandbox, from its first byte to its last:
 *
 *     INPUT → OPENING → INPUT → … → RELAY     the protocol has said what is wanted, and may look at what comes then
 *           → LINGER                          it was answered and is closed
 *
 * What is said on it is a protocol's matter, a struct of functions; there are several, one after the other on one connection (a
 * proxy's tunnel to port 443 becomes TLS). This file does what they have in common: reading with a bound and a deadline, dialling
 * what the rules allow, telling of denials, closing so that the last answer arrives.
 *
 * Ownership: the IpbEgress owns it. A function below that "ends the turn" may have freed the connection when it returns: the
 * caller returns at once.
 */
#pragma once

#include "base/buffer.h"
#include "egress/context.h"
#include "egress/relay.h"

typedef struct IpbConnection IpbConnection;

typedef struct {
    /* At the beginning, and whenever more has come in. */
    void (*on_input)(IpbConnection *connection);
    /* What was asked for with ipb_connection_open: the server is connected, or it is not. */
    void (*on_open)(IpbConnection *connection);
    void (*on_failure)(IpbConnection *connection, const GError *error);
    size_t max_input; /* at least that of the protocols that may follow on this connection */
} IpbProtocol;

typedef struct {
    const IpbEgressContext *context;
    const IpbProtocol *protocol;
    /* Once, from the loop: the connection is over; frees it. */
    void (*on_end)(IpbConnection *connection, void *data);
    void *data;
} IpbConnectionOptions;

/* @fd: the new object's, whatever becomes of the call. */
IpbConnection *ipb_connection_new(int fd, const IpbConnectionOptions *options, GError **error);
void ipb_connection_free(IpbConnection *connection);

const IpbEgressContext *ipb_connection_context(const IpbConnection *connection);
/* What has come in and is not used up. */
IpbBuffer *ipb_connection_input(IpbConnection *connection);
/* Where the client believes to be connected to: where it was before it landed on our listener. */
bool ipb_connection_local(const IpbConnection *connection, IpbDestination *ret_destination);
/* A number that protocols may keep, 0 at first: how far a head was scanned, which message comes next. */
size_t *ipb_connection_progress(IpbConnection *connection);
/* Set by ipb_connection_open. */
const IpbDestination *ipb_connection_destination(const IpbConnection *connection);
bool ipb_connection_is_open(const IpbConnection *connection);
/* Of a connection that was opened for a request: the proxy that it leads to, which passes the request on; or NULL. */
const IpbProxy *ipb_connection_proxy(const IpbConnection *connection);

/* The following end the turn. */

/* Another protocol goes on with what is in the input; its deadline begins anew. */
void ipb_connection_become(IpbConnection *connection, const IpbProtocol *protocol);
/* Dials a destination, if the rules allow it. A synthetic address means the name that it was made
 * for. @is_http: the connection is for one request, sent by ipb_inspect_relay_request(). */
void ipb_connection_open(IpbConnection *connection, const IpbDestination *destination,
                         bool is_http);
/* The same without asking the rules: the application's own proxy, on loopback. */
void ipb_connection_open_unchecked(IpbConnection *connection, const IpbDestination *destination);
/* Client and server talk to each other from now on: first @first, then what is in the input. */
void ipb_connection_relay(IpbConnection *connection, IpbRelayMode mode, const IpbHttpBody *body,
                          const void *first, size_t first_size);
/* Sends the last answer (or nothing) and closes. */
void ipb_connection_finish(IpbConnection *connection, const void *bytes, size_t size);
void ipb_connection_close(IpbConnection *connection);

/* The following do not. */

/* A short answer; false: it could not be sent, and the turn has ended. */
bool ipb_connection_send(IpbConnection *connection, const void *bytes, size_t size);
/* The deadline begins anew: for a protocol of several requests. */
void ipb_connection_extend(IpbConnection *connection);
/* Tells the owner of a denial that only the protocol can see. */
void ipb_connection_report(IpbConnection *connection, const IpbDestination *destination,
                           const char *reason);
/* May the client, which reaches @destination, name this host there (TLS's SNI, HTTP's Host)? It must be the same name; to an
 * address, it may be one that is allowed as well. False with *ret_reason. */
bool ipb_connection_agrees(IpbConnection *connection, const IpbDestination *destination,
                           const IpbDestination *named, char **ret_reason);
