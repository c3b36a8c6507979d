/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthCallback: the address to which the browser returns after a login,
 * http://127.0.0.1:PORT/callback. It exists as long as the object. Every process on this machine
 * can connect, so a request counts only if it has the state that the receiver knows.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbOAuthCallback IpbOAuthCallback;

/* @query: that of a request for /callback. False: it is not the expected answer; the browser shows
 * that. May free the callback. */
typedef bool (*IpbOAuthCallbackFunc)(const char *query, void *data);

/* @port: 0 for any. BUSY: another program listens on it. */
IpbOAuthCallback *ipb_oauth_callback_new(IpbLoop *loop, unsigned port, IpbOAuthCallbackFunc func,
                                         void *data, GError **error);
void ipb_oauth_callback_free(IpbOAuthCallback *callback);
const char *ipb_oauth_callback_uri(const IpbOAuthCallback *callback);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthCallback, ipb_oauth_callback_free)
