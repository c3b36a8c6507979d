/* SPDX-License-Identifier: Apache-2.0
 *
 * The seccomp filters of a sandbox, made from the tables of seccomp-table.h with libseccomp. BPF as the kernel takes it. From any
 * thread; the caller unrefs.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* For everything that runs inside. @is_unix_restricted: AF_UNIX sockets of the types that need connect() only.
 * @has_network: there is a network namespace; else no other family is allowed. */
GBytes *ipb_seccomp_filter(bool is_unix_restricted, bool has_network, GError **error);
/* Allows everything but connect(), about which the core is asked. */
GBytes *ipb_seccomp_filter_notify(GError **error);
/* For pid 1. */
GBytes *ipb_seccomp_filter_init(GError **error);
