/* SPDX-License-Identifier: Apache-2.0
 *
 * The two documents of discovery: protected resource metadata (RFC 9728), of the MCP server, and authorization server metadata
 * (RFC 8414, OpenID Connect Discovery). Both come from hostile peers; what is in these structs has been checked: URLs are safe,
 * the issuer is the one that was asked, S256 is there.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Of any document or answer of an authorization server. */
#define IPB_OAUTH_MAX_DOCUMENT (256 * 1024)

typedef struct {
    char *resource;
    char **authorization_servers; /* at least one */
    char *scopes_supported;       /* space-separated; NULL: not said */
} IpbOAuthResource;

typedef struct {
    char *issuer;
    char *authorization_endpoint; /* NULL: it has none, as for client_credentials */
    char *token_endpoint;
    char *registration_endpoint; /* or NULL */
    char *revocation_endpoint;   /* or NULL */
    char *scopes_supported;      /* or NULL */
    char *auth_methods;          /* of the token endpoint, space-separated; NULL: not said */
    bool has_s256;
    bool promises_iss;      /* in each authorization response */
    bool takes_client_urls; /* client id metadata documents */
} IpbOAuthServer;

/* PROTOCOL, LIMIT, REFUSED (not for @server_url, or not safe). @server_url: of the MCP server. */
IpbOAuthResource *ipb_oauth_resource_parse(const char *text, size_t size, const char *server_url,
                                           GError **error);
/* Is @resource the server at @server_url, or something that it is a part of (same origin, a path above it)? */
bool ipb_oauth_resource_covers(const char *resource, const char *server_url);
void ipb_oauth_resource_free(IpbOAuthResource *resource);

/* @issuer: the one that was asked; the document must name the same, character for character. @may_be_loopback: endpoints may be plain
 * http on this machine. */
IpbOAuthServer *ipb_oauth_server_parse(const char *text, size_t size, const char *issuer,
                                       bool may_be_loopback, GError **error);
/* What a server without metadata has (MCP 2025-03-26), at @origin. */
IpbOAuthServer *ipb_oauth_server_new_legacy(const char *origin);
void ipb_oauth_server_free(IpbOAuthServer *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthResource, ipb_oauth_resource_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthServer, ipb_oauth_server_free)
