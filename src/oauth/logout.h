/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthLogout: forgets the login at one MCP server: the record is removed, and the authorization server is told where it has an
 * endpoint for that (RFC 7009).
 */
#pragma once

#include "http/client.h"
#include "oauth/settings.h"

typedef struct IpbOAuthLogout IpbOAuthLogout;

typedef struct {
    const char *server_url;
    const IpbOAuthSettings *settings; /* or NULL */
    const char *state_dir;
    IpbHttpClient *http; /* borrowed; NULL: the server cannot be told */
} IpbOAuthLogoutOptions;

/* @had_token: there was a login. @error: it is not forgotten; with @is_forgotten it is, but the server could not be told. */
typedef void (*IpbOAuthLogoutFunc)(bool had_token, bool is_forgotten, const GError *error,
                                   void *data);

/* Answers once, from the loop; may free the logout. NULL with INVALID: the URL can have no tokens. */
IpbOAuthLogout *ipb_oauth_logout_new(IpbLoop *loop, const IpbOAuthLogoutOptions *options,
                                     IpbOAuthLogoutFunc func, void *data, GError **error);
void ipb_oauth_logout_free(IpbOAuthLogout *logout);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthLogout, ipb_oauth_logout_free)
