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
enum {
    IPB_NOTIFY_CONNECT = 1 << 0,
    IPB_NOTIFY_NAMES = 1 << 1, /* what makes or changes names, and opens for writing */
    IPB_NOTIFY_READS = 1 << 2, /* with NAMES: also opens for reading */
    IPB_NOTIFY_ALL = (1 << 3) - 1,
};

/* Asks the supervisor about @what, and allows everything else. With NAMES, it denies what cannot be
 * judged. */
GBytes *ipb_seccomp_filter_notify(unsigned what, GError **error);
/* For pid 1. */
GBytes *ipb_seccomp_filter_init(GError **error);
