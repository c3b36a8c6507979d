/* SPDX-License-Identifier: Apache-2.0
 *
 * The sandbox of a principal: as configured, without what only the server may read. If there are
 * several principals, of the directory that has the workspaces of all of them only the principal's
 * own is visible.
 */
#pragma once

#include <glib.h>

/* Writes a configuration, ipybox-sandbox-config(5), for the workspace @name in @root into
 * @state_dir, and returns its path. It is @config (a path; NULL: the default of kernels, without
 * IPython's directories) with @root and @hidden in denyRead. @name NULL: the workspace is @root,
 * which is not denied, and the default has IPython's directories. @fixed are added to denyWrite.
 * @root, @state_dir, @hidden and @fixed (both NULL-terminated) are absolute. Caller frees. INVALID:
 * @config is no configuration, or a path has characters of patterns. */
char *ipb_private_sandbox_write(const char *state_dir, const char *root, const char *name,
                                const char *config, const char *const *hidden,
                                const char *const *fixed, GError **error);
