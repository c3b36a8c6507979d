/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths that make a session what it is: what its kernel cannot do without, and what nobody in a sandbox may write, kernel and servers
 * alike, because it decides about later ones.
 */
#pragma once

#include "session/session.h"

/* The interpreter's own files, and ours. NULL-terminated; caller frees. */
char **ipb_sandbox_paths_kept(const char *python, const char *host_directory);
/* Absolute. NULL-terminated; caller frees. */
char **ipb_sandbox_paths_kept_out(IpbRuntime *runtime, const IpbSessionOptions *options);
/* Without a session: the Python of kernels, as far as it is known (@python: the one that was asked for, or NULL), and two files, or
 * NULL. Likewise. */
char **ipb_sandbox_paths_kept_out_alone(const char *python, const char *approval_rules,
                                        const char *audit_log);
