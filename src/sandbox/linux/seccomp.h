/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the seccomp filters of a sandbox from the tables of seccomp-table.h, with libseccomp. A
 * filter is BPF as the kernel loads it. All functions may be called from any thread; the caller
 * unrefs the result.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* For all processes inside. @is_unix_restricted: AF_UNIX sockets only of types that need connect().
 * @has_network: there is a network namespace; otherwise no other family is allowed. */
GBytes *ipb_seccomp_filter(bool is_unix_restricted, bool has_network, GError **error);
/* Asks the core about connect(), and allows everything else. */
GBytes *ipb_seccomp_filter_notify(GError **error);
/* For pid 1. */
GBytes *ipb_seccomp_filter_init(GError **error);
