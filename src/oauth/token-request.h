/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to a token endpoint: a form, the client's authentication with it, and the token that comes back.
 */
#pragma once

#include "oauth/fetch.h"
#include "oauth/token.h"

typedef struct IpbOAuthTokenRequest IpbOAuthTokenRequest;

typedef struct {
    GString *form; /* without the client's authentication; becomes the exchange's */
    /* Where it goes, for whom, and what goes into the token: endpoints, issuer, resource, client_id, auth_method; scope if the
     * answer says none; refresh_token if there is no new one. */
    const IpbOAuthToken *pattern;
    const char *client_secret;
} IpbOAuthTokenRequestOptions;

/* @token: the receiver's. @error: SERVER and *@is_final: the server has said that this grant is worth nothing (any more). */
typedef void (*IpbOAuthTokenRequestFunc)(IpbOAuthToken *token, bool is_final, const GError *error,
                                         void *data);

IpbOAuthTokenRequest *ipb_oauth_token_request_new(IpbHttpClient *http,
                                                  const IpbOAuthTokenRequestOptions *request,
                                                  IpbOAuthTokenRequestFunc func, void *data);
void ipb_oauth_token_request_cancel(IpbOAuthTokenRequest *exchange);
/* Adds the client's authentication to @form; the Authorization header, or NULL. Caller frees. */
char *ipb_oauth_token_request_authenticate(GString *form, IpbOAuthAuthMethod method,
                                           const char *client_id, const char *client_secret);
