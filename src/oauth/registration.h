/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthRegistration: determines our client id at an authorization server, in the order of the
 * specification: the client id of the settings, one that we registered earlier, a client id
 * metadata document, dynamic registration (RFC 7591).
 */
#pragma once

#include "oauth/fetch.h"
#include "oauth/token.h"

typedef struct IpbOAuthRegistration IpbOAuthRegistration;

typedef struct {
    const IpbOAuthServer *server;
    const IpbOAuthSettings *settings; /* or NULL */
    const IpbOAuthClient *known;      /* registered earlier; or NULL */
    const char *redirect_uri;
    const char *scope;
} IpbOAuthRegistrationOptions;

/* The receiver owns @client. It has a redirect_uri if it is to be saved. */
typedef void (*IpbOAuthRegistrationFunc)(IpbOAuthClient *client, const GError *error, void *data);

/* Calls @func once, from the loop. The values in @options are needed only during the call. */
IpbOAuthRegistration *ipb_oauth_register(IpbLoop *loop, IpbHttpClient *http,
                                         const IpbOAuthRegistrationOptions *options,
                                         IpbOAuthRegistrationFunc func, void *data);
void ipb_oauth_registration_cancel(IpbOAuthRegistration *registration);
