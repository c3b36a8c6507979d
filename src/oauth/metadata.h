/* SPDX-License-Identifier: Apache-2.0
 *
 * The two documents of discovery: protected resource metadata of the MCP server (RFC 9728) and
 * authorization server metadata (RFC 8414, OpenID Connect Discovery). Both come from hostile peers.
 * The structs have only checked values: URLs are safe, the issuer is the one that was asked, S256
 * is supported.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* The size of any document or answer of an authorization server. */
#define IPB_OAUTH_MAX_DOCUMENT (256 * 1024)

typedef struct {
    char *resource;
    char **authorization_servers; /* at least one */
    char *scopes_supported;       /* space-separated; NULL: not given */
} IpbOAuthResource;

typedef struct {
    char *issuer;
    char *authorization_endpoint; /* NULL: none, as for client_credentials */
    char *token_endpoint;
    char *registration_endpoint; /* or NULL */
    char *revocation_endpoint;   /* or NULL */
    char *scopes_supported;      /* or NULL */
    char *auth_methods;          /* of the token endpoint, space-separated; NULL: not given */
    bool has_s256;
    bool promises_iss;      /* each authorization response has "iss" */
    bool takes_client_urls; /* it accepts client id metadata documents */
} IpbOAuthServer;

/* Errors: PROTOCOL, LIMIT, REFUSED (not for @server_url, or not safe). @server_url: that of the MCP
 * server. */
IpbOAuthResource *ipb_oauth_resource_parse(const char *text, size_t size, const char *server_url,
                                           GError **error);
/* Whether @resource is the server at @server_url, or includes it (same origin, and a path above
 * it). */
bool ipb_oauth_resource_covers(const char *resource, const char *server_url);
void ipb_oauth_resource_free(IpbOAuthResource *resource);

/* @issuer: the one that was asked; the document must name the same one exactly. @may_be_loopback:
 * endpoints may be plain http on this machine. */
IpbOAuthServer *ipb_oauth_server_parse(const char *text, size_t size, const char *issuer,
                                       bool may_be_loopback, GError **error);
/* The endpoints of a server without metadata (MCP 2025-03-26), at @origin. */
IpbOAuthServer *ipb_oauth_server_new_legacy(const char *origin);
void ipb_oauth_server_free(IpbOAuthServer *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthResource, ipb_oauth_resource_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthServer, ipb_oauth_server_free)
