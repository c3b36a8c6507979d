/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthLogin: one login of a person at the authorization server of an MCP server: discovery, the
 * client id, the URL for the browser, its answer, and the token in the store.
 */
#pragma once

#include "http/client.h"
#include "oauth/settings.h"
#include "oauth/store.h"

typedef struct IpbOAuthLogin IpbOAuthLogin;

typedef struct {
    const char *server_url;
    const IpbOAuthSettings *settings; /* or NULL */
    const char *state_dir;
    IpbHttpClient *http; /* borrowed */
    const char *scope;   /* overrides what the server asks for; NULL: use that */
    unsigned port;       /* of the callback; 0: that of the settings, or any */
} IpbOAuthLoginOptions;

typedef struct {
    /* @url must be opened in a browser. The login waits for its answer. */
    void (*on_url)(const char *url, void *data);
    /* Called once at the end: @token is in the store, or @error is set. May free the login. */
    void (*on_done)(const IpbOAuthToken *token, const GError *error, void *data);
} IpbOAuthLoginFuncs;

/* All functions are called from the loop. INVALID: the URL cannot get tokens. */
IpbOAuthLogin *ipb_oauth_login_new(IpbLoop *loop, const IpbOAuthLoginOptions *options,
                                   const IpbOAuthLoginFuncs *funcs, void *data, GError **error);
/* Takes the address at which a browser on another machine ended, as a person pasted it. INVALID: it
 * is not the expected one. */
bool ipb_oauth_login_paste(IpbOAuthLogin *login, const char *text, GError **error);
void ipb_oauth_login_free(IpbOAuthLogin *login);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthLogin, ipb_oauth_login_free)
