/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthSettings: "oauth" in server_params, which is what the user knows in advance about the
 * authorization of a server. A plain struct; immutable after parsing.
 *
 *     "oauth": false                                  no OAuth; static headers only
 *     "oauth": {"clientId": "…", "clientSecret": "${SECRET}", "scopes": ["a", "b"],
 *               "callbackPort": 8765, "clientMetadataUrl": "https://…/client.json",
 *               "grantType": "client_credentials", "tokenEndpointAuthMethod": "client_secret_post",
 *               "issuer": "https://…"}
 */
#pragma once

#include <stdbool.h>

#include "json/json.h"

typedef enum {
    IPB_OAUTH_GRANT_CODE,        /* a person logs in: `ipybox login` */
    IPB_OAUTH_GRANT_CREDENTIALS, /* the client logs in with its own credentials */
} IpbOAuthGrant;

typedef enum {
    IPB_OAUTH_AUTH_ANY, /* the one that the authorization server supports */
    IPB_OAUTH_AUTH_NONE,
    IPB_OAUTH_AUTH_SECRET_BASIC,
    IPB_OAUTH_AUTH_SECRET_POST,
} IpbOAuthAuthMethod;

typedef struct {
    bool is_off;     /* "oauth": false */
    char *client_id; /* registered in advance; NULL: none */
    char *client_secret;
    char *scope;               /* space-separated; NULL: what the server asks for */
    char *client_metadata_url; /* https URL of our client id metadata document */
    char *issuer;              /* the one of client_id; NULL: the one that the server names */
    unsigned callback_port;    /* port of the loopback redirect; 0: any free one */
    IpbOAuthGrant grant;
    IpbOAuthAuthMethod auth_method;
} IpbOAuthSettings;

/* @value: the member "oauth" (an object, or false). INVALID: the error begins with the member's
 * path, below @path. Unknown members are ignored, because configurations are shared with other
 * programs. */
IpbOAuthSettings *ipb_oauth_settings_parse(const IpbJson *value, const char *path, GError **error);
IpbOAuthSettings *ipb_oauth_settings_copy(const IpbOAuthSettings *settings);
void ipb_oauth_settings_free(IpbOAuthSettings *settings);

/* The names of the methods in OAuth; not for IPB_OAUTH_AUTH_ANY. */
bool ipb_oauth_auth_method_parse(const char *name, IpbOAuthAuthMethod *ret_method);
const char *ipb_oauth_auth_method_name(IpbOAuthAuthMethod method);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthSettings, ipb_oauth_settings_free)
