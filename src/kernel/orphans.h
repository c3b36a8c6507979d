/* SPDX-License-Identifier: Apache-2.0
 *
 * Kills the processes that kernels started, after their forkserver has died. While it lives, the
 * forkserver does that.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Sends SIGKILL to every process of this user whose environment has IPYBOX_KERNEL_ID=@id for one of
 * @ids. A process that has wiped its environment escapes; only a pid namespace could prevent
 * that. */
void ipb_orphans_kill(const int64_t *ids, size_t n_ids);
