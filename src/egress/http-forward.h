/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpForward: an HTTP request of a sandbox that is to be forwarded. The functions find out
 * which host it is for, write the head for the server, relay the request, or answer it if it is not
 * forwarded. The head was parsed by http/request-head.h.
 *
 * Parsing and rewriting are pure.
 */
#pragma once

#include "egress/connection.h"
#include "http/request-head.h"

typedef struct {
    bool is_connect;
    bool is_upgrade;            /* to WebSocket */
    IpbDestination destination; /* from the request line */
    IpbDestination host;        /* from Host; equal to destination if there is no Host */
    IpbSpan path;               /* for the server, in origin form; may be empty, which means "/" */
} IpbHttpForward;

/* Both parsers return false with *ret_reason, a static text for status 400. */

/* A request to a proxy: "CONNECT host:port", "GET http://host/path". */
bool ipb_http_forward_parse_proxy(const IpbHttpHead *head, IpbHttpForward *ret_request,
                                  const char **ret_reason);
/* A request to the server at @destination, from a client that believes it talks to that server:
 * "GET /path". */
bool ipb_http_forward_parse_origin(const IpbHttpHead *head, const IpbDestination *destination,
                                   IpbHttpForward *ret_request, const char **ret_reason);

/* The head for the server; the caller frees it. It has no hop-by-hop headers, Host is canonical,
 * and it asks the server to close the connection after this request. With @is_for_proxy it names
 * the destination by the whole URL. @authorization (may be NULL) is for that proxy. A TRACE
 * request does not get it, because the answer would show it to the program that asked. */
GString *ipb_http_forward_rewrite(const IpbHttpHead *head, const IpbHttpForward *request,
                                  bool is_for_proxy, const char *authorization);

/* The following functions end the turn. */

/* Sends a checked request and its body to the connected server, and relays the answer. @head and
 * @request point into the connection's input. */
void ipb_http_forward_relay(IpbConnection *connection, const IpbHttpHead *head,
                            const IpbHttpForward *request);

/* The answers repeat the reason in the status line, because most clients show no other part of
 * them. A denial has the header and the text of the proxy of srt. Each answer closes the
 * connection. */

/* Status 400 and similar. */
void ipb_http_forward_reply_bad_request(IpbConnection *connection, unsigned status,
                                        const char *reason);
/* 403 for REFUSED, 504 for TIMEOUT, else 502. */
void ipb_http_forward_reply_failure(IpbConnection *connection, const IpbDestination *destination,
                                    const GError *error);

/* The whole answer 503, for a client for which no connection can be created; the caller frees
 * it. */
char *ipb_http_forward_busy_reply(const char *reason);
