/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths of the installation (the kernels' Python, our own files, our state) that matter to
 * sandboxes: what a kernel in a sandbox needs to read, and what no kernel and no server in a
 * sandbox may write, because it decides about later ones.
 */
#pragma once

#include "session/session.h"

/* The interpreter's files, and ours. NULL-terminated; the caller frees them. */
char **ipb_installation_paths_needed(const char *python, const char *host_directory);
/* What sandboxes of a session protect, absolute. NULL-terminated; the caller frees them. */
char **ipb_installation_paths_protected(IpbRuntime *runtime, const IpbSessionOptions *options,
                                        const char *workspace);
/* The places of all generated packages, whichever session made them: their root directories, or, if
 * such a directory contains the workspace or the home directory, the packages in it. @registry may
 * be NULL. NULL with @error. NULL-terminated; the caller frees them. */
char **ipb_installation_paths_packages(IpbRegistry *registry, const char *workspace,
                                       GError **error);
/* The same for servers without a session: the environment of the kernels' Python, if it is found
 * (@python: the one that the user named, or NULL), our files, and three files or NULL. */
char **ipb_installation_paths_protected_from_servers(const char *python, const char *approval_rules,
                                                     const char *audit_log, const char *record);
