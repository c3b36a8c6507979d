/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving up rights, in the one order that works: ids while the capabilities are there, limits, capabilities, Landlock (wants no_new_privs),
 * and seccomp last, which forbids all of the former.
 */
#include "sandbox/linux/init/init.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

bool
ipb_lockdown_become(const uint8_t *blob, IpbStepError *error)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    if ((header->flags & IPB_BLOB_WEAKER) != 0)
        return true;
    uint32_t uid = header->inner_uid, gid = header->inner_gid;
    if (syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0)
        return ipb_step_fail(error, IPB_STEP_IDS, 0);
    /* Changing ids made our own /proc/self unreadable, and pid 1's namespaces are to be joined by a kernel of the same user. What runs
     * inside is kept from tracing pid 1 by Landlock, and would gain nothing: its filter allows less than theirs. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return ipb_step_fail(error, IPB_STEP_IDS, 0);
    return true;
}

static bool
load_filter(const uint8_t *blob, int channel, IpbStepError *error)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    if (!ipb_filter_load(blob, header->filter, NULL, error))
        return false;
    if ((header->flags & IPB_BLOB_NOTIFY) == 0)
        return true;
    int notify;
    if (!ipb_filter_load(blob, header->notify_filter, &notify, error))
        return false;
    IpbPacket packet = {.type = IPB_PACKET_NOTIFY};
    bool ok = ipb_report(channel, &packet, notify) || ipb_step_fail(error, IPB_STEP_CONTROL, 0);
    /* Who holds it keeps connect() waiting for an answer that does not come: only the core does. */
    close(notify);
    return ok;
}

bool
ipb_lockdown_command(const uint8_t *blob, int channel, IpbStepError *error)
{
    return ipb_limits_set(blob, error) && ipb_caps_drop(blob, error) &&
           ipb_landlock_restrict(blob, error) && load_filter(blob, channel, error);
}

bool
ipb_lockdown_init(const uint8_t *blob, IpbStepError *error)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    /* Without namespaces it has to find and kill what is left at the end (reap.c), and nobody is nearer to it than to others. */
    if ((header->flags & IPB_BLOB_WEAKER) != 0)
        return ipb_caps_drop(blob, error);
    return ipb_caps_drop(blob, error) && ipb_filter_load(blob, header->init_filter, NULL, error);
}
