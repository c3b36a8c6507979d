/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthRenewal: gets one new token, with the refresh token or with client credentials. The
 * record's lock is held from before the record is read until the new token is saved, so that two
 * processes never renew it at the same time. If another process was first, its token is used.
 *
 * Ownership: the caller owns it until it is done. It borrows the account and changes its record.
 */
#pragma once

#include "base/loop.h"
#include "oauth/account.h"

typedef struct IpbOAuthRenewal IpbOAuthRenewal;

/* Called once, from the loop; then the renewal is freed. @error is borrowed. Without an error there
 * may still be no token, because nothing can renew it. */
typedef void (*IpbOAuthRenewalFunc)(const GError *error, void *data);

/* @wanted_scope, @resource_metadata: from the challenge, or NULL. NULL with @error: the store
 * cannot be written. */
IpbOAuthRenewal *ipb_oauth_renew(IpbLoop *loop, IpbOAuthAccount *account, const char *wanted_scope,
                                 const char *resource_metadata, IpbOAuthRenewalFunc done,
                                 void *data, GError **error);
void ipb_oauth_renewal_cancel(IpbOAuthRenewal *renewal);
