/* SPDX-License-Identifier: Apache-2.0
 *
 * What an authorization server gives: tokens and clients, from its answers (hostile) and back from the token store. Secret, all of
 * it: never in a message or a log.
 */
#pragma once

#include "json/writer.h"
#include "oauth/metadata.h"
#include "oauth/settings.h"

/* Seconds before its end that a token counts as expired already: the request takes its time. */
#define IPB_OAUTH_TOKEN_MARGIN_S 30

/* Our client at one authorization server, registered by us. */
typedef struct {
    char *issuer;
    char *client_id;
    char *client_secret;    /* or NULL */
    int64_t secret_expires; /* Unix time; 0: never */
    IpbOAuthAuthMethod auth_method;
    char *redirect_uri; /* that it was registered with */
} IpbOAuthClient;

typedef struct {
    char *access_token;
    char *refresh_token; /* or NULL */
    int64_t expires;     /* Unix time; 0: not said */
    char *scope;         /* granted, or asked for if nothing was said; NULL: no words */
    /* Where it is from, and what it is for: */
    char *issuer;
    char *resource;
    char *token_endpoint;
    char *revocation_endpoint; /* or NULL */
    char *client_id;
    IpbOAuthAuthMethod auth_method;
} IpbOAuthToken;

/* A successful answer of a token endpoint: access_token, refresh_token, expires, scope; the rest stays empty. PROTOCOL. */
IpbOAuthToken *ipb_oauth_token_parse(const char *text, size_t size, int64_t now, GError **error);
/* What a failed answer says ("invalid_grant: …"), printable, for an error; *ret_code: its code, or NULL. */
char *ipb_oauth_error_parse(const char *text, size_t size, char **ret_code);
bool ipb_oauth_token_is_expired(const IpbOAuthToken *token, int64_t now);
/* "Bearer …" Caller frees. */
char *ipb_oauth_token_header(const IpbOAuthToken *token);
void ipb_oauth_token_free(IpbOAuthToken *token);
IpbOAuthToken *ipb_oauth_token_copy(const IpbOAuthToken *token);

/* The answer of a registration endpoint; @asked: the method that was asked for, and its redirect URI is the client's. */
IpbOAuthClient *ipb_oauth_client_parse(const char *text, size_t size, const IpbOAuthServer *server,
                                       IpbOAuthAuthMethod asked, GError **error);
IpbOAuthClient *ipb_oauth_client_copy(const IpbOAuthClient *client);
void ipb_oauth_client_free(IpbOAuthClient *client);
/* How a client authenticates at @server: none without a secret, else what the server supports, Basic first. */
IpbOAuthAuthMethod ipb_oauth_choose_auth(const IpbOAuthServer *server, bool has_secret);

/* Both as JSON objects of the token store. NULL: not to be read. */
IpbOAuthToken *ipb_oauth_token_from_json(const IpbJson *object);
void ipb_oauth_token_write(IpbJsonWriter *writer, const IpbOAuthToken *token);
IpbOAuthClient *ipb_oauth_client_from_json(const IpbJson *object);
void ipb_oauth_client_write(IpbJsonWriter *writer, const IpbOAuthClient *client);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthToken, ipb_oauth_token_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthClient, ipb_oauth_client_free)
