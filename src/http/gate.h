/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpGate: who may ask an HTTP server, and in which role. Everything that a browser could be lured to do is refused: a Host that is
 * no name of ours (a name that was rebound to our address), an Origin that is not listed. Then a peer needs a token, or is a process of
 * our own user on this machine, where the gate trusts that.
 *
 * Ownership: the owner frees it; a server owns its gate.
 */
#pragma once

#include "http/peer.h"
#include "http/request-head.h"

/* What a peer may do; bits, so that a route can name several. */
enum {
    IPB_HTTP_ROLE_KERNEL = 1,      /* code in a kernel: may call what is registered */
    IPB_HTTP_ROLE_APPLICATION = 2, /* who runs the server */
};
#define IPB_HTTP_ROLE_ANY (IPB_HTTP_ROLE_KERNEL | IPB_HTTP_ROLE_APPLICATION)

typedef struct IpbHttpGate IpbHttpGate;

/* Takes "localhost", "127.0.0.1" and "[::1]" for the Host, and nobody until it is told who. */
IpbHttpGate *ipb_http_gate_new(void);
void ipb_http_gate_free(IpbHttpGate *gate);

/* Everybody who can connect has this role: the listener is where only they are. 0: nobody. */
void ipb_http_gate_set_everybody(IpbHttpGate *gate, unsigned role);
/* Peers on loopback that are processes of our own effective user have this role without a token. 0: no.
 * Before its server listens, which keeps its port from the egress of sandboxes then (http/trusting-port.h). */
void ipb_http_gate_set_own_user(IpbHttpGate *gate, unsigned role);
bool ipb_http_gate_trusts_own_user(const IpbHttpGate *gate);
/* Peers on loopback that are processes of our own effective user have this role without a token if
 * @knows accepts their socket (its inode, as in the links of /proc/PID/fd). It is called for each
 * request. @data outlives the gate. */
void ipb_http_gate_set_known(IpbHttpGate *gate, unsigned role,
                             bool (*knows)(uint64_t inode, void *data), void *data);
/* Who sends `Authorization: Bearer TOKEN` or `Authorization: token TOKEN` has this role, whoever it is. At most 16. */
void ipb_http_gate_add_token(IpbHttpGate *gate, const char *token, unsigned role);
/* `?token=TOKEN` counts as well, as in Jupyter. */
void ipb_http_gate_take_query_token(IpbHttpGate *gate);
/* A random token: 64 hex digits. */
char *ipb_http_gate_make_token(GError **error);
/* What a 401 says beside "the token is missing or wrong"; static. */
void ipb_http_gate_set_hint(IpbHttpGate *gate, const char *hint);
/* Another name for the Host, with any port. */
void ipb_http_gate_allow_host(IpbHttpGate *gate, const char *host);
/* The server can be reached from other machines: addresses in figures and any port are taken for the Host, which is no risk, since it is
 * names that are rebound. */
void ipb_http_gate_set_public(IpbHttpGate *gate);
/* A web page's origin ("http://localhost:3000") whose requests are taken. */
void ipb_http_gate_allow_origin(IpbHttpGate *gate, const char *origin);

/* Is this a preflight request of a page of an allowed origin? Browsers send no token with it. */
bool ipb_http_gate_is_preflight(const IpbHttpGate *gate, const IpbHttpHead *head, unsigned port);
/* The Origin of the page that sent this, if it is allowed. The answer must name it, so that the
 * browser shows the answer to the page. */
bool ipb_http_gate_get_origin(const IpbHttpGate *gate, const IpbHttpHead *head,
                              IpbSpan *ret_origin);

/* The role of who sent this to @port, or 0; then status and reason are set in @head. @peer is looked up when it is needed.
 * The header `Ipybox-Role: kernel` lowers the role to the kernel's: a relay sends it for kernels. */
unsigned ipb_http_gate_admit(const IpbHttpGate *gate, IpbHttpHead *head, unsigned port,
                             IpbHttpPeer *peer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpGate, ipb_http_gate_free)
