/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthCallback: where the browser comes back to after a login: http://127.0.0.1:PORT/callback, for as long as the object lives.
 * Anybody on this machine can connect: only what the receiver knows by its state counts.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbOAuthCallback IpbOAuthCallback;

/* @query: of a request for /callback. False: it is nothing that was waited for, which the browser is told. May free the callback. */
typedef bool (*IpbOAuthCallbackFunc)(const char *query, void *data);

/* @port: 0: any. BUSY: it is taken. */
IpbOAuthCallback *ipb_oauth_callback_new(IpbLoop *loop, unsigned port, IpbOAuthCallbackFunc func,
                                         void *data, GError **error);
void ipb_oauth_callback_free(IpbOAuthCallback *callback);
const char *ipb_oauth_callback_uri(const IpbOAuthCallback *callback);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthCallback, ipb_oauth_callback_free)
