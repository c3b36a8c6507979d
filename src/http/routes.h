/* SPDX-License-Identifier: Apache-2.0
 *
 * Which route of a server a request belongs to, and whether it has what the route demands. Pure.
 */
#pragma once

#include "http/server.h"

/* Number of "@"s in a route. */
#define IPB_HTTP_ROUTE_MAX_PARAMETERS 4

/* Why a request is refused that the gate admitted. */
typedef struct {
    unsigned status;
    char *reason;
    /* The header Allow of a 405, or NULL */
    char *allow;
} IpbHttpRefusal;

/* Finds the route of @head among those of @options. NULL: @ret_refusal is filled; the caller frees
 * its texts. */
const IpbHttpRoute *ipb_http_route_find(const IpbHttpServerOptions *options,
                                        const IpbHttpHead *head, unsigned role,
                                        IpbHttpRefusal *ret_refusal);
/* The methods of the routes with @head's path: "GET, POST"; NULL: there is none. Caller frees. */
char *ipb_http_route_list_methods(const IpbHttpServerOptions *options, const IpbHttpHead *head);
/* The decoded segments of @head's path that are "@" in @route; the caller frees them. */
void ipb_http_route_get_parameters(const IpbHttpServerOptions *options, const IpbHttpRoute *route,
                                   const IpbHttpHead *head,
                                   char *ret_parameters[IPB_HTTP_ROUTE_MAX_PARAMETERS]);
