/* SPDX-License-Identifier: Apache-2.0
 *
 * Landlock is the second wall. If a mount is missing, or a process escapes from the mount
 * namespace, it still can only write what the plan makes writable. Landlock also keeps code inside
 * from tracing and (scoped, ABI 6) signalling pid 1, which is outside of its domain.
 *
 * It is used from ABI 2 (Linux 5.19) on, because ABI 1 denies every rename between directories. An
 * older kernel, or one without Landlock, has the first wall only.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

#define MIN_ABI 2

/* By number: the C library's headers may be older than the kernel. */
#define ACCESS_EXECUTE (UINT64_C(1) << 0)
#define ACCESS_WRITE_FILE (UINT64_C(1) << 1)
#define ACCESS_READ_FILE (UINT64_C(1) << 2)
#define ACCESS_READ_DIR (UINT64_C(1) << 3)
#define ACCESS_REMOVE_DIR (UINT64_C(1) << 4)
#define ACCESS_REMOVE_FILE (UINT64_C(1) << 5)
#define ACCESS_MAKE_CHAR (UINT64_C(1) << 6)
#define ACCESS_MAKE_DIR (UINT64_C(1) << 7)
#define ACCESS_MAKE_REG (UINT64_C(1) << 8)
#define ACCESS_MAKE_SOCK (UINT64_C(1) << 9)
#define ACCESS_MAKE_FIFO (UINT64_C(1) << 10)
#define ACCESS_MAKE_BLOCK (UINT64_C(1) << 11)
#define ACCESS_MAKE_SYM (UINT64_C(1) << 12)
#define ACCESS_REFER (UINT64_C(1) << 13)
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)
#define ACCESS_IOCTL_DEV (UINT64_C(1) << 15)
#define SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0)
#define SCOPE_SIGNAL (UINT64_C(1) << 1)

#define READ (ACCESS_EXECUTE | ACCESS_READ_FILE | ACCESS_READ_DIR)
#define DEVICE (ACCESS_WRITE_FILE | ACCESS_TRUNCATE | ACCESS_IOCTL_DEV)
/* The rights that a rule for a file may have. The others are for directories. */
#define FILE_ACCESS (ACCESS_EXECUTE | ACCESS_READ_FILE | DEVICE)
/* Device files cannot be created anywhere. */
#define WRITE                                                                                      \
    (ACCESS_WRITE_FILE | ACCESS_REMOVE_DIR | ACCESS_REMOVE_FILE | ACCESS_MAKE_DIR |                \
     ACCESS_MAKE_REG | ACCESS_MAKE_SOCK | ACCESS_MAKE_FIFO | ACCESS_MAKE_SYM | ACCESS_REFER |      \
     ACCESS_TRUNCATE)

typedef struct {
    uint64_t handled_access_fs, handled_access_net, scoped;
} RulesetAttr;

static uint64_t
handled_by(int abi)
{
    uint64_t handled = READ | WRITE | ACCESS_MAKE_CHAR | ACCESS_MAKE_BLOCK | ACCESS_IOCTL_DEV;
    if (abi < 3)
        handled &= ~ACCESS_TRUNCATE;
    if (abi < 5)
        handled &= ~ACCESS_IOCTL_DEV;
    return handled;
}

static bool
allow(int ruleset, const char *path, uint64_t access)
{
    struct stat info;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        /* A later mount of the plan may hide an earlier one. */
        return errno == ENOENT || errno == EACCES;
    if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode))
        access &= FILE_ACCESS;
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    bool ok = sys_landlock_add_path(ruleset, &rule) == 0;
    int saved = errno;
    close(fd);
    errno = saved;
    return ok;
}

static uint64_t
access_of(uint32_t kind, bool has_names)
{
    switch ((IpbMountKind) kind) {
    case IPB_MOUNT_WRITABLE:
    case IPB_MOUNT_STAGED:
        /* The kernel itself may perform a bind() that the supervisor has judged, and reads its path
         * again. There it must not make a socket where names are judged. */
        return has_names ? READ | (WRITE & ~ACCESS_MAKE_SOCK) : READ | WRITE;
    case IPB_MOUNT_TMPFS:
        return READ | WRITE;
    case IPB_MOUNT_DEV:
    case IPB_MOUNT_DEVPTS:
        return READ | DEVICE;
    case IPB_MOUNT_PROC: /* names of threads; where names are judged, the supervisor opens them */
        return has_names ? 0 : READ | ACCESS_WRITE_FILE | ACCESS_TRUNCATE;
    case IPB_MOUNT_READ_ONLY:
    case IPB_MOUNT_HIDE_DIR:
    case IPB_MOUNT_HIDE_FILE:
    case IPB_MOUNT_FILE:
    case IPB_MOUNT_LAYER:
        break;
    }
    return 0; /* "/" has a rule for reading */
}

/* Harmless devices. The other devices of the host's /dev are not for the sandbox. */
static bool
add_harmless_devices(int ruleset, uint64_t handled)
{
    static const char *const DEVICES[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                          "/dev/random", "/dev/urandom", "/dev/tty"};
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++)
        if (!allow(ruleset, DEVICES[i], (READ | DEVICE) & handled))
            return false;
    return true;
}

/* Without namespaces, what the plan would mount is the host's. So only what the plan makes writable
 * can be written. */
static bool
add_weaker_rules(int ruleset, const uint8_t *blob, uint64_t handled)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    const IpbBlobMount *mounts = ipb_blob_at(blob, header->mounts);
    if (!allow(ruleset, "/", READ & handled) || !add_harmless_devices(ruleset, handled))
        return false;
    for (uint32_t i = 0; i < header->mounts.count; i++)
        if (mounts[i].kind == IPB_MOUNT_WRITABLE &&
            !allow(ruleset, ipb_blob_string(blob, mounts[i].target), (READ | WRITE) & handled))
            return false;
    return true;
}

static bool
add_rules(int ruleset, const uint8_t *blob, uint64_t handled)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    const IpbBlobMount *mounts = ipb_blob_at(blob, header->mounts);
    bool has_names = (header->flags & IPB_BLOB_NAMES) != 0;
    if (!allow(ruleset, "/", READ & handled))
        return false;
    for (uint32_t i = 0; i < header->mounts.count; i++) {
        uint64_t access = access_of(mounts[i].kind, has_names) & handled;
        if (access != 0 && !allow(ruleset, ipb_blob_string(blob, mounts[i].target), access))
            return false;
    }
    return true;
}

bool
ipb_landlock_restrict(const uint8_t *blob, IpbStepError *error)
{
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    bool is_weaker = (((const IpbBlobHeader *) blob)->flags & IPB_BLOB_WEAKER) != 0;
    if (abi < MIN_ABI) {
        errno = EOPNOTSUPP;
        return !is_weaker || ipb_step_fail(error, IPB_STEP_LANDLOCK, 0);
    }
    RulesetAttr attr = {
        .handled_access_fs = handled_by(abi),
        .scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
    };
    /* An older kernel accepts a longer struct if the members that it does not know are 0. */
    int ruleset = sys_landlock_create_ruleset(&attr, sizeof attr, 0);
    if (ruleset < 0)
        return ipb_step_fail(error, IPB_STEP_LANDLOCK, 0);
    bool ok = (is_weaker ? add_weaker_rules(ruleset, blob, attr.handled_access_fs)
                         : add_rules(ruleset, blob, attr.handled_access_fs));
    ok = (ok && sys_landlock_restrict_self(ruleset) == 0) ||
         ipb_step_fail(error, IPB_STEP_LANDLOCK, 0);
    close(ruleset);
    return ok;
}
