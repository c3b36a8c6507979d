/* SPDX-License-Identifier: Apache-2.0
 *
 * No capability is left, and none can come back: not by exec (no_new_privs, empty bounding set), not by uid 0 (securebits).
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <sys/prctl.h>

#include <linux/capability.h>
#include <linux/securebits.h>

#include "sandbox/linux/init/syscalls.h"

/* Above every capability that a kernel may have. */
#define MAX_CAPABILITY 63

static bool
drop_bounding(void)
{
    for (unsigned long capability = 0; capability <= MAX_CAPABILITY; capability++) {
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0)
            continue;
        return errno == EINVAL; /* beyond the last one of this kernel */
    }
    return true;
}

/* Without a user namespace of our own only these can be given up. None had come back anyway: the caller is an ordinary user, and
 * no_new_privs holds. */
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

bool
ipb_caps_drop(const uint8_t *blob, IpbStepError *error)
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
