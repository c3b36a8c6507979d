/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/sandbox-user.h"

#include <stdio.h>
#include <unistd.h>

#include <glib.h>

/* Root's id inside. It is not 0, which would suggest rights that it does not have. */
#define ROOT_INNER_ID 1000

/* Ids that own no files. The first is beyond what distributions, systemd and containers assign, but
 * below 2^31. The second is for a container with 65,536 ids: it is two below 65534, the overflow
 * id. */
static const uint32_t UNPRIVILEGED[] = {0x7ffe0000, 65532};

/* Is @id mapped in our own user namespace? */
static bool
is_mapped(const char *map_file, uint32_t id)
{
    FILE *file = fopen(map_file, "re");
    if (file == NULL)
        return false;
    unsigned long inner, outer, count;
    bool found = false;
    while (!found && fscanf(file, "%lu %lu %lu", &inner, &outer, &count) == 3)
        found = id >= inner && id - inner < count;
    fclose(file);
    return found;
}

IpbSandboxUser
ipb_sandbox_user_choose(void)
{
    uint32_t uid = geteuid(), gid = getegid();
    for (size_t i = 0; uid == 0 && i < G_N_ELEMENTS(UNPRIVILEGED); i++) {
        uint32_t outer = UNPRIVILEGED[i];
        if (is_mapped("/proc/self/uid_map", outer) && is_mapped("/proc/self/gid_map", outer))
            return (IpbSandboxUser){true, ROOT_INNER_ID, ROOT_INNER_ID, outer, outer};
    }
    /* An ordinary user. Or root of a user namespace that maps no other id: outside of it, that is
     * an ordinary user, too. */
    return (IpbSandboxUser){false, uid, gid, uid, gid};
}
