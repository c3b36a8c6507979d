/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthRenewal: gets one new token: by the refresh token, or by the client's own credentials. The record's lock is held from
 * before the record is read until the new token is saved, so that no two processes renew at once; where another one was first, its
 * token is taken.
 *
 * Ownership: of the caller until it is done; it borrows the account, whose record it changes.
 */
#pragma once

#include "base/loop.h"
#include "oauth/account.h"

typedef struct IpbOAuthRenewal IpbOAuthRenewal;

/* Once, from the loop; frees the renewal. @error: borrowed. Without one there may still be no token: nothing renews it. */
typedef void (*IpbOAuthRenewalFunc)(const GError *error, void *data);

/* @wanted_scope, @resource_metadata: from the challenge, or NULL. NULL with @error: the store cannot be written. */
IpbOAuthRenewal *ipb_oauth_renew(IpbLoop *loop, IpbOAuthAccount *account, const char *wanted_scope,
                                 const char *resource_metadata, IpbOAuthRenewalFunc done,
                                 void *data, GError **error);
void ipb_oauth_renewal_cancel(IpbOAuthRenewal *renewal);
