/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths that make a session what it is: what its kernel cannot do without, and what nobody in a sandbox may write, kernel and servers
 * alike, because it decides about later ones.
 */
#pragma once

#include "session/session.h"

/* The interpreter's own files, and ours. NULL-terminated; caller frees. */
char **ipb_sandbox_paths_kept(const char *python, const char *host_directory);
/* The @n_paths that are not NULL, absolute. NULL-terminated; caller frees. */
char **ipb_sandbox_paths_absolute(const char *const *paths, size_t n_paths);
/* Absolute. @options: NULL: what holds without a session. NULL-terminated; caller frees. */
char **ipb_sandbox_paths_kept_out(IpbRuntime *runtime, const IpbSessionOptions *options);
