/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthDiscovery: from the URL of an MCP server to its authorization server: protected resource metadata where the challenge
 * or the well-known places say, then the metadata of the authorization server, in the specification's order. A server without
 * the first is taken to be its own authorization server (MCP 2025-03-26).
 */
#pragma once

#include "http/client.h"
#include "oauth/metadata.h"

typedef struct IpbOAuthDiscovery IpbOAuthDiscovery;

typedef struct {
    const char *server_url;        /* canonical */
    const char *resource_metadata; /* from a challenge; NULL: the well-known places */
    const char *issuer;            /* one of several that is wanted; NULL: the first */
} IpbOAuthDiscoveryOptions;

/* @resource: NULL: there is none (MCP 2025-03-26). Both become the receiver's. */
typedef void (*IpbOAuthDiscoveryFunc)(IpbOAuthResource *resource, IpbOAuthServer *server,
                                      const GError *error, void *data);

/* Answers once, from the loop. */
IpbOAuthDiscovery *ipb_oauth_discover(IpbLoop *loop, IpbHttpClient *http,
                                      const IpbOAuthDiscoveryOptions *options,
                                      IpbOAuthDiscoveryFunc func, void *data);
void ipb_oauth_discovery_cancel(IpbOAuthDiscovery *discovery);
