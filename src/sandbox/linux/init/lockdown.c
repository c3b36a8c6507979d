/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives up rights, in the only order that works: ids while the capabilities are there, limits,
 * capabilities, Landlock (which needs no_new_privs), and seccomp last, because it forbids all of
 * these.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>

#include "sandbox/linux/init/syscalls.h"
#include "sandbox/linux/init/text.h"

/* Above every capability that a kernel may have. */
#define MAX_CAPABILITY 63

/* Linux 5.19: only death interrupts a call that the core has received. Without it, a signal would
 * repeat a call that was performed. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* --- ids -------------------------------------------------------------------------------------- */

bool
ipb_lockdown_become(const uint8_t *blob, IpbStepError *error)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    if ((header->flags & IPB_BLOB_WEAKER) != 0)
        return true;
    uint32_t uid = header->inner_uid, gid = header->inner_gid;
    if (syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0)
        return ipb_step_fail(error, IPB_STEP_IDS, 0);
    /* Changing ids made our own /proc/self unreadable, but a kernel of the same user has to join
     * pid 1's namespaces. Landlock keeps code inside from tracing pid 1. It would gain nothing: the
     * filter of pid 1 allows less than its own. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return ipb_step_fail(error, IPB_STEP_IDS, 0);
    return true;
}

/* --- limits ----------------------------------------------------------------------------------- */

static bool
set_limit(const IpbBlobLimit *limit)
{
    struct rlimit old, wanted = {.rlim_cur = limit->soft, .rlim_max = limit->hard};
    if (getrlimit((int) limit->resource, &old) < 0)
        return false;
    /* Raising a limit above the caller's would need a right that we do not have. */
    if (wanted.rlim_max > old.rlim_max)
        wanted.rlim_max = old.rlim_max;
    if (wanted.rlim_cur > wanted.rlim_max)
        wanted.rlim_cur = wanted.rlim_max;
    return setrlimit((int) limit->resource, &wanted) == 0;
}

static bool
set_oom_score(int32_t score)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT; /* a plan without /proc */
    IpbText text = {0};
    ipb_text_add_number(&text, (uint64_t) score);
    ssize_t n = write(fd, text.bytes, text.size);
    int saved = errno;
    close(fd);
    errno = saved;
    return n == (ssize_t) text.size;
}

/* Open files are limited last, after the listener of notifications is sent. */
static bool
set_limits(const uint8_t *blob, bool is_last, IpbStepError *error)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    const IpbBlobLimit *limits = ipb_blob_at(blob, header->limits);
    for (uint32_t i = 0; i < header->limits.count; i++)
        if ((limits[i].resource == RLIMIT_NOFILE) == is_last && !set_limit(&limits[i]))
            return ipb_step_fail(error, IPB_STEP_LIMIT, i);
    return true;
}

static bool
set_score(const uint8_t *blob, IpbStepError *error)
{
    int32_t score = ((const IpbBlobHeader *) blob)->oom_score_adj;
    return score <= 0 || set_oom_score(score) || ipb_step_fail(error, IPB_STEP_OOM, 0);
}

void
ipb_lockdown_allow_many_fds(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* --- capabilities ----------------------------------------------------------------------------- */

static bool
drop_bounding(void)
{
    for (unsigned long capability = 0; capability <= MAX_CAPABILITY; capability++) {
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0)
            continue;
        return errno == EINVAL; /* after the last one of this kernel */
    }
    return true;
}

/* Without a user namespace of our own only these can be given up. The others could not come back:
 * the caller is an ordinary user, and no_new_privs is set. */
static bool
drop_own(IpbStepError *error)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, none) < 0)
        return ipb_step_fail(error, IPB_STEP_CAPABILITIES, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return ipb_step_fail(error, IPB_STEP_NO_NEW_PRIVILEGES, 0);
    return true;
}

/* No capability remains, and none can come back: not by exec (no_new_privs, empty bounding set),
 * not by uid 0 (securebits). */
static bool
drop_capabilities(const uint8_t *blob, IpbStepError *error)
{
    if ((((const IpbBlobHeader *) blob)->flags & IPB_BLOB_WEAKER) != 0)
        return drop_own(error);
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                               SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 || !drop_bounding())
        return ipb_step_fail(error, IPB_STEP_CAPABILITIES, 0);
    return drop_own(error);
}

/* --- filters ---------------------------------------------------------------------------------- */

static long
load(const struct sock_fprog *program, unsigned long flags)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
}

static long
load_table(const uint8_t *blob, IpbBlobTable filter, unsigned long flags)
{
    struct sock_fprog program = {
        .len = (unsigned short) filter.count,
        .filter = (struct sock_filter *) (uintptr_t) ipb_blob_at(blob, filter),
    };
    return load(&program, flags);
}

static bool
load_filter(const uint8_t *blob, IpbBlobTable filter, IpbStepError *error)
{
    return load_table(blob, filter, 0) >= 0 || ipb_step_fail(error, IPB_STEP_SECCOMP, 0);
}

/* Loads a filter that asks the core. An older kernel cannot keep signals from repeating a call.
 * connect() bears that, a call that makes a name does not: then names are not judged, and the core
 * says so. *ret_notify is -1 if nothing is asked. */
static bool
load_listener(const uint8_t *blob, int *ret_notify, bool *ret_has_names)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    bool wants_names = (header->flags & IPB_BLOB_NAMES) != 0;
    *ret_has_names = wants_names;
    long result =
        load_table(blob, wants_names ? header->names_filter : header->connect_filter,
                   SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if (result < 0 && errno == EINVAL) {
        *ret_has_names = false;
        *ret_notify = -1;
        if ((header->flags & IPB_BLOB_CONNECT) == 0)
            return true;
        result = load_table(blob, header->connect_filter, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    }
    *ret_notify = (int) result;
    return result >= 0;
}

static bool
load_filters(const uint8_t *blob, int channel, IpbStepError *error)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    if (!load_filter(blob, header->filter, error))
        return false;
    if ((header->flags & (IPB_BLOB_CONNECT | IPB_BLOB_NAMES)) == 0)
        return true;
    int notify = -1;
    bool has_names = false;
    if (!load_listener(blob, &notify, &has_names))
        return ipb_step_fail(error, IPB_STEP_LISTEN, 0);
    IpbPacket packet = {.type = notify >= 0 ? IPB_PACKET_NOTIFY : IPB_PACKET_UNNAMED,
                        .value = has_names};
    bool ok = ipb_report(channel, &packet, notify) || ipb_step_fail(error, IPB_STEP_CONTROL, 0);
    /* Only the core holds it. Another holder would keep calls waiting for an answer that never
     * comes. */
    if (notify >= 0)
        close(notify);
    return ok;
}

bool
ipb_lockdown_command(const uint8_t *blob, int channel, IpbStepError *error)
{
    ipb_lockdown_allow_many_fds();
    return set_score(blob, error) && set_limits(blob, false, error) &&
           drop_capabilities(blob, error) && ipb_landlock_restrict(blob, error) &&
           load_filters(blob, channel, error) && set_limits(blob, true, error);
}

bool
ipb_lockdown_init(const uint8_t *blob, IpbStepError *error)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    /* Without namespaces it has to find and kill the remaining processes at the end (reap.c). It is
     * no more exposed than other processes of the user. */
    if ((header->flags & IPB_BLOB_WEAKER) != 0)
        return drop_capabilities(blob, error);
    return drop_capabilities(blob, error) && load_filter(blob, header->init_filter, error);
}
