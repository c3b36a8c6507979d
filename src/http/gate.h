/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpGate: decides which peers may send requests to an HTTP server, and in which role. It
 * refuses what a browser could be made to send: a Host that is none of our names (a name that was
 * rebound to our address), an Origin that is not listed. A peer then needs a token, or is a process
 * of our own user on this machine, if the gate trusts that.
 *
 * Ownership: the owner frees it; a server owns its gate.
 */
#pragma once

#include "http/peer.h"
#include "http/request-head.h"

/* What a peer may do. These are bits, so that a route can name several. */
enum {
    /* Code in a kernel: may call what is registered */
    IPB_HTTP_ROLE_KERNEL = 1,
    /* The application that runs the server */
    IPB_HTTP_ROLE_APPLICATION = 2,
    /* A peer without a token, of a gate that admits such peers to some routes */
    IPB_HTTP_ROLE_STRANGER = 4,
};
#define IPB_HTTP_ROLE_ANY (IPB_HTTP_ROLE_KERNEL | IPB_HTTP_ROLE_APPLICATION)

typedef struct IpbHttpGate IpbHttpGate;

/* Allows "localhost", "127.0.0.1" and "[::1]" as the Host. Gives no peer a role until one of the
 * functions below says so. */
IpbHttpGate *ipb_http_gate_new(void);
void ipb_http_gate_free(IpbHttpGate *gate);

/* Every peer that can connect has this role, because the listener is reachable for no others.
 * 0: none. */
void ipb_http_gate_set_everybody(IpbHttpGate *gate, unsigned role);
/* Peers on loopback that are processes of our own effective user have this role without a token.
 * 0: none. Call it before the server listens: the server then keeps its port from the egress of
 * sandboxes (http/trusting-port.h). */
void ipb_http_gate_set_own_user(IpbHttpGate *gate, unsigned role);
bool ipb_http_gate_trusts_own_user(const IpbHttpGate *gate);
/* Peers on loopback that are processes of our own effective user have this role without a token if
 * @knows accepts their socket (its inode, as in the links of /proc/PID/fd). It is called for each
 * request. @data outlives the gate. */
void ipb_http_gate_set_known(IpbHttpGate *gate, unsigned role,
                             bool (*knows)(uint64_t inode, void *data), void *data);
/* A peer that sends `Authorization: Bearer TOKEN` or `Authorization: token TOKEN` has this role. At
 * most 16 tokens. */
void ipb_http_gate_add_token(IpbHttpGate *gate, const char *token, unsigned role);
/* A peer that sends a token for which @find returns a role has that role, 0: none. Instead of
 * ipb_http_gate_add_token(), if there are many tokens. @find must not take a time that depends on
 * how much of a token is right. @data outlives the gate. */
void ipb_http_gate_set_tokens(IpbHttpGate *gate, unsigned (*find)(IpbSpan token, void *data),
                              void *data);
/* Peers that send no token have the role IPB_HTTP_ROLE_STRANGER. Routes without it answer 401. */
void ipb_http_gate_admit_strangers(IpbHttpGate *gate);
/* The token in the header Authorization; false: there is none. */
bool ipb_http_gate_get_token(const IpbHttpHead *head, IpbSpan *ret_token);
/* The error of a 401. */
const char *ipb_http_gate_hint(const IpbHttpGate *gate);
/* Accepts `?token=TOKEN`, too, as Jupyter does. */
void ipb_http_gate_take_query_token(IpbHttpGate *gate);
/* A random token: 64 hex digits. Caller frees. */
char *ipb_http_gate_make_token(GError **error);
/* The error of a 401, instead of "the token is missing or wrong"; static. */
void ipb_http_gate_set_hint(IpbHttpGate *gate, const char *hint);
/* Allows another name as the Host, with any port. */
void ipb_http_gate_allow_host(IpbHttpGate *gate, const char *host);
/* The server can be reached from other machines: IP addresses and any port are allowed in the Host.
 * That is no risk, because only names can be rebound. */
void ipb_http_gate_set_public(IpbHttpGate *gate);
/* Allows requests of a web page's origin ("http://localhost:3000"). */
void ipb_http_gate_allow_origin(IpbHttpGate *gate, const char *origin);
/* Allows requests of every web page: only for a gate that asks each peer for a token. */
void ipb_http_gate_allow_all_origins(IpbHttpGate *gate);

/* Is this a preflight request of a page of an allowed origin? Browsers send no token with it. */
bool ipb_http_gate_is_preflight(const IpbHttpGate *gate, const IpbHttpHead *head, unsigned port);
/* The Origin of the page that sent this, if it is allowed. The answer must name it, so that the
 * browser shows the answer to the page. */
bool ipb_http_gate_get_origin(const IpbHttpGate *gate, const IpbHttpHead *head,
                              IpbSpan *ret_origin);

/* The role of the peer that sent this to @port. 0: refused; status and reason are set in @head.
 * @peer is looked up only if it is needed. The header `Ipybox-Role: kernel` lowers the role to the
 * kernel's: a relay sends it for kernels. */
unsigned ipb_http_gate_admit(const IpbHttpGate *gate, IpbHttpHead *head, unsigned port,
                             IpbHttpPeer *peer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpGate, ipb_http_gate_free)
