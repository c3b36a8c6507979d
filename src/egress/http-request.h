/* SPDX-License-Identifier: Apache-2.0
 *
 * An HTTP request that is to be passed on: whom it is for, by all that it says about that, and how it reads when it is sent on.
 * The head was parsed by http/request-head.h.
 *
 * Pure; the rewritten head is the receiver's.
 */
#pragma once

#include "egress/rules.h"
#include "http/request-head.h"

typedef struct {
    bool is_connect;
    bool is_upgrade;            /* to WebSocket */
    IpbDestination destination; /* from the request line */
    IpbDestination host;        /* from Host; the same as destination where there is none */
    IpbSpan path;               /* for the server: origin form; may be empty, for "/" */
} IpbHttpRequest;

/* A request to a proxy: "CONNECT host:port", "GET http://host/path". False: *ret_reason, static, for a 400. */
bool ipb_http_request_parse(const IpbHttpHead *head, IpbHttpRequest *ret_request,
                            const char **ret_reason);
/* A request to a server at @destination, which believes to talk to it: "GET /path". */
bool ipb_http_request_parse_origin(const IpbHttpHead *head, const IpbDestination *destination,
                                   IpbHttpRequest *ret_request, const char **ret_reason);
/* The head for the server: nothing in it is for the proxy, Host is canonical, and it is the connection's only request. With
 * @is_for_proxy it names the destination by its whole URL, and @authorization (or NULL) is for that proxy; it is left out of TRACE, whose
 * answer would show it to who asked. */
GString *ipb_http_request_rewrite(const IpbHttpHead *head, const IpbHttpRequest *request,
                                  bool is_for_proxy, const char *authorization);
