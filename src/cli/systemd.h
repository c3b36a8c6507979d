/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service manager gives a service by its environment: sockets that listen already
 * (sd_listen_fds(3)), and a socket for reports (sd_notify(3)). The variables are removed, so that
 * no other program takes them for its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

#define IPB_ACTIVATION_MAX 4

/* The sockets, close-on-exec and non-blocking, which the caller closes; *ret_n is 0 if the program
 * was started without. INVALID: the variables are wrong, or there are too many sockets. */
bool ipb_activation_take(int ret_fds[IPB_ACTIVATION_MAX], size_t *ret_n, GError **error);

/* Reports the state of the program. Ownership: the owner frees it. */
typedef struct IpbNotifier IpbNotifier;

/* NULL: there is no one to report to. INVALID: the variable names no socket. */
bool ipb_notifier_new(IpbNotifier **ret_notifier, GError **error);
/* "READY=1": lines of the protocol. Does nothing if @notifier is NULL. The manager may be gone:
 * that is no error. */
void ipb_notifier_send(const IpbNotifier *notifier, const char *state);
/* "RELOADING=1", with the time that the protocol wants. */
void ipb_notifier_send_reloading(const IpbNotifier *notifier);
void ipb_notifier_free(IpbNotifier *notifier);
