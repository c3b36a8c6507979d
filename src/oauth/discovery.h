/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthDiscovery: finds the authorization server of an MCP server by its URL. It fetches the
 * protected resource metadata from the URL in the challenge or from the well-known URLs, then the
 * metadata of the authorization server, in the order of the specification. A server without the
 * first is its own authorization server (MCP 2025-03-26).
 */
#pragma once

#include "http/client.h"
#include "oauth/metadata.h"

typedef struct IpbOAuthDiscovery IpbOAuthDiscovery;

typedef struct {
    const char *server_url;        /* canonical */
    const char *resource_metadata; /* from a challenge; NULL: use the well-known URLs */
    const char *issuer;            /* the wanted one, if there are several; NULL: the first */
} IpbOAuthDiscoveryOptions;

/* @resource is NULL if there is none (MCP 2025-03-26). The receiver owns both. */
typedef void (*IpbOAuthDiscoveryFunc)(IpbOAuthResource *resource, IpbOAuthServer *server,
                                      const GError *error, void *data);

/* Calls @func once, from the loop. */
IpbOAuthDiscovery *ipb_oauth_discover(IpbLoop *loop, IpbHttpClient *http,
                                      const IpbOAuthDiscoveryOptions *options,
                                      IpbOAuthDiscoveryFunc func, void *data);
void ipb_oauth_discovery_cancel(IpbOAuthDiscovery *discovery);
