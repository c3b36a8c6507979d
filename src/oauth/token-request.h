/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthTokenRequest: a request to a token endpoint. It sends a form with the client's
 * authentication and gets a token.
 */
#pragma once

#include "oauth/fetch.h"
#include "oauth/token.h"

typedef struct IpbOAuthTokenRequest IpbOAuthTokenRequest;

typedef struct {
    GString *form; /* without the client's authentication; taken over */
    /* Where the request goes, and members of the new token: endpoints, issuer, resource, client_id,
     * auth_method; scope, if the answer has none; refresh_token, if there is no new one. */
    const IpbOAuthToken *pattern;
    const char *client_secret;
} IpbOAuthTokenRequestOptions;

/* The receiver owns @token. @error: SERVER; @is_final: the server said that this grant is not valid
 * any more. */
typedef void (*IpbOAuthTokenRequestFunc)(IpbOAuthToken *token, bool is_final, const GError *error,
                                         void *data);

IpbOAuthTokenRequest *ipb_oauth_token_request_new(IpbHttpClient *http,
                                                  const IpbOAuthTokenRequestOptions *request,
                                                  IpbOAuthTokenRequestFunc func, void *data);
void ipb_oauth_token_request_cancel(IpbOAuthTokenRequest *exchange);
/* Adds the client's authentication to @form. Returns the Authorization header, or NULL. Caller
 * frees. */
char *ipb_oauth_token_request_authenticate(GString *form, IpbOAuthAuthMethod method,
                                           const char *client_id, const char *client_secret);
