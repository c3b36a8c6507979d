/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthLogout: removes the login at one MCP server. The record is deleted, and the authorization
 * server is asked to revoke the tokens if it has an endpoint for that (RFC 7009).
 */
#pragma once

#include "http/client.h"
#include "oauth/settings.h"

typedef struct IpbOAuthLogout IpbOAuthLogout;

typedef struct {
    const char *server_url;
    const IpbOAuthSettings *settings; /* or NULL */
    const char *state_dir;
    IpbHttpClient *http; /* borrowed; NULL: the tokens cannot be revoked */
} IpbOAuthLogoutOptions;

/* @had_token: there was a login. @error: the login was not removed; or, with @is_forgotten, it was,
 * but the tokens could not be revoked. */
typedef void (*IpbOAuthLogoutFunc)(bool had_token, bool is_forgotten, const GError *error,
                                   void *data);

/* Calls @func once, from the loop; it may free the logout. NULL with INVALID: the URL cannot get
 * tokens. */
IpbOAuthLogout *ipb_oauth_logout_new(IpbLoop *loop, const IpbOAuthLogoutOptions *options,
                                     IpbOAuthLogoutFunc func, void *data, GError **error);
void ipb_oauth_logout_free(IpbOAuthLogout *logout);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthLogout, ipb_oauth_logout_free)
