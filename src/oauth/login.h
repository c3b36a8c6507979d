/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthLogin: one login of a person at the authorization server of an MCP server: discovery, the client id, the URL for the
 * browser, the way back, the token into the store.
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
    const char *scope;   /* instead of what the server wants; NULL: that */
    unsigned port;       /* of the way back; 0: as the settings say, or any */
} IpbOAuthLoginOptions;

typedef struct {
    /* Open @url in a browser; the answer is waited for. */
    void (*on_url)(const char *url, void *data);
    /* The end, once: @token is in the store; or @error. May free the login. */
    void (*on_done)(const IpbOAuthToken *token, const GError *error, void *data);
} IpbOAuthLoginFuncs;

/* All calls come from the loop. INVALID: the URL can have no tokens. */
IpbOAuthLogin *ipb_oauth_login_new(IpbLoop *loop, const IpbOAuthLoginOptions *options,
                                   const IpbOAuthLoginFuncs *funcs, void *data, GError **error);
/* The address that a browser on another machine ended at, as a person pasted it. INVALID: it is none that was waited for. */
bool ipb_oauth_login_paste(IpbOAuthLogin *login, const char *text, GError **error);
void ipb_oauth_login_free(IpbOAuthLogin *login);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthLogin, ipb_oauth_login_free)
