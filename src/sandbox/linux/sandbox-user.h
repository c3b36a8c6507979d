/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxUser: the user ids of code in a sandbox. It is the same user as ours, or, if we are
 * root, an unprivileged outer user.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    /* We are root: the outer user is another one, and writable mounts get an id map. */
    bool is_root_mapped;
    uint32_t inner_uid, inner_gid;
    uint32_t outer_uid, outer_gid;
} IpbSandboxUser;

/* For one sandbox: if we are root, another outer user each time. So what Linux counts for each user
 * is counted for each sandbox. */
IpbSandboxUser ipb_sandbox_user_choose(void);
