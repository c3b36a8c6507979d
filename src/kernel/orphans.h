/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels leave behind when their forkserver is gone, too: nobody else looks for it then.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* SIGKILL to every process of this user whose environment holds IPYBOX_KERNEL_ID=@id for one of @ids. A process
 * that wiped its environment escapes; only a pid namespace could hold it. */
void ipb_orphans_kill(const int64_t *ids, size_t n_ids);
