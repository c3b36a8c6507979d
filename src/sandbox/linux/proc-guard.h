/* SPDX-License-Identifier: Apache-2.0
 *
 * What code inside may open in /proc. The supervisor opens files with its own rights, and in procfs
 * they count for more than the rights of the caller: it could open the memory of any process.
 */
#pragma once

#include "sandbox/linux/caller-path.h"

/* Returns 0 or EACCES. Paths outside of procfs are not its business. */
int ipb_proc_guard_judge(const IpbCaller *caller, const IpbCallerPath *path, bool is_for_writing);
