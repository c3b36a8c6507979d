/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the blob: mounts, a command and the filters in one sealed memory file, for
 * ipybox-sandbox-init. init/protocol.h describes the format.
 */
#pragma once

#include "sandbox/linux/sandbox-user.h"
#include "sandbox/sandbox.h"

/* @mounts: IpbMount. Returns the fd; -1 with INVALID (a path that is not absolute), LIMIT,
 * SYSTEM. */
int ipb_blob_new(const IpbSandboxOptions *options, const GPtrArray *mounts,
                 const IpbSandboxUser *user, bool is_weaker, GError **error);
