/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthRegistration: who we are at an authorization server, in the specification's order: the client id of the settings, one
 * that we registered earlier, a client id metadata document, dynamic registration (RFC 7591).
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

/* @client: the receiver's. It has a redirect_uri if it is to be kept. */
typedef void (*IpbOAuthRegistrationFunc)(IpbOAuthClient *client, const GError *error, void *data);

/* Answers once, from the loop. What @options point to is needed for the call only. */
IpbOAuthRegistration *ipb_oauth_register(IpbLoop *loop, IpbHttpClient *http,
                                         const IpbOAuthRegistrationOptions *options,
                                         IpbOAuthRegistrationFunc func, void *data);
void ipb_oauth_registration_cancel(IpbOAuthRegistration *registration);
