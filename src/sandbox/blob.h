/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the blob: a plan, a command and the filters in one sealed memory file, for ipybox-sandbox-init (init/blob.h tells the format).
 */
#pragma once

#include "sandbox/launch.h"

/* @options: of the sandbox. Returns the fd; -1 with INVALID (a path that is not absolute), LIMIT, SYSTEM. */
int ipb_blob_new(const IpbSandboxOptions *options, bool is_weaker, GError **error);
