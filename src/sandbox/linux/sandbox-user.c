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

/* Ids that own no files. Neither distributions, subuid(5), SSSD and FreeIPA (up to 2,000,200,000)
 * nor systemd assign them. (Its containers have ids up to 0x6fffffff, and its foreign images have
 * ids from 0x7ffe0000 on.) The second range is for a container with 65,536 ids. It begins above
 * systemd's dynamic users and ends below 65534, the overflow id.
 *
 * Each sandbox takes one at random, without asking anyone: another ipybox may run in another
 * container, where no lock would be seen. That two live sandboxes get the same id is unlikely (1 in
 * 67,000 for one sandbox beside 1,000 others, but 1 in 14 for two in such a container). Then they
 * share what Linux counts for each user. Nothing else: their namespaces keep them apart. */
static const struct {
    uint32_t first, count;
} UNPRIVILEGED[] = {{0x78000000, UINT32_C(1) << 26}, {65520, 14}};

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
        uint32_t outer = UNPRIVILEGED[i].first + g_random_int() % UNPRIVILEGED[i].count;
        if (is_mapped("/proc/self/uid_map", outer) && is_mapped("/proc/self/gid_map", outer))
            return (IpbSandboxUser){true, ROOT_INNER_ID, ROOT_INNER_ID, outer, outer};
    }
    /* An ordinary user. Or root of a user namespace that maps no other id: outside of it, that is
     * an ordinary user, too. */
    return (IpbSandboxUser){false, uid, gid, uid, gid};
}
