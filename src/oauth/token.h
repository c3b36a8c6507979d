/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthToken and IpbOAuthClient: what an authorization server issues. They are read from its
 * answers, which are hostile, and from the token store. All of it is secret: it must never be in a
 * message or a log.
 */
#pragma once

#include "json/writer.h"
#include "oauth/metadata.h"
#include "oauth/settings.h"

/* A token counts as expired this many seconds before its end, because a request takes time. */
#define IPB_OAUTH_TOKEN_MARGIN_S 30

/* Our client at one authorization server, which we registered. */
typedef struct {
    char *issuer;
    char *client_id;
    char *client_secret;    /* or NULL */
    int64_t secret_expires; /* Unix time; 0: never */
    IpbOAuthAuthMethod auth_method;
    char *redirect_uri; /* the one that it was registered with */
} IpbOAuthClient;

typedef struct {
    char *access_token;
    char *refresh_token; /* or NULL */
    int64_t expires;     /* Unix time; 0: not given */
    char *scope; /* the granted scope, or the requested one if none was given; NULL: no words */
    /* Who issued it, and for what: */
    char *issuer;
    char *resource;
    char *token_endpoint;
    char *revocation_endpoint; /* or NULL */
    char *client_id;
    IpbOAuthAuthMethod auth_method;
} IpbOAuthToken;

/* Reads a successful answer of a token endpoint: access_token, refresh_token, expires, scope. The
 * other members stay empty. PROTOCOL. */
IpbOAuthToken *ipb_oauth_token_parse(const char *text, size_t size, int64_t now, GError **error);
/* Describes a failed answer for an error ("invalid_grant: …"), printable. *ret_code: its code, or
 * NULL. */
char *ipb_oauth_error_parse(const char *text, size_t size, char **ret_code);
bool ipb_oauth_token_is_expired(const IpbOAuthToken *token, int64_t now);
/* "Bearer …". Caller frees. */
char *ipb_oauth_token_header(const IpbOAuthToken *token);
void ipb_oauth_token_free(IpbOAuthToken *token);
IpbOAuthToken *ipb_oauth_token_copy(const IpbOAuthToken *token);

/* Reads the answer of a registration endpoint. @asked: the method that was requested. The caller
 * sets redirect_uri. */
IpbOAuthClient *ipb_oauth_client_parse(const char *text, size_t size, const IpbOAuthServer *server,
                                       IpbOAuthAuthMethod asked, GError **error);
IpbOAuthClient *ipb_oauth_client_copy(const IpbOAuthClient *client);
void ipb_oauth_client_free(IpbOAuthClient *client);
/* How a client authenticates at @server: not at all without a secret, else with a method that the
 * server supports, preferably Basic. */
IpbOAuthAuthMethod ipb_oauth_choose_auth(const IpbOAuthServer *server, bool has_secret);

/* Both as JSON objects of the token store. NULL: malformed. */
IpbOAuthToken *ipb_oauth_token_from_json(const IpbJson *object);
void ipb_oauth_token_write(IpbJsonWriter *writer, const IpbOAuthToken *token);
IpbOAuthClient *ipb_oauth_client_from_json(const IpbJson *object);
void ipb_oauth_client_write(IpbJsonWriter *writer, const IpbOAuthClient *client);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthToken, ipb_oauth_token_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthClient, ipb_oauth_client_free)
