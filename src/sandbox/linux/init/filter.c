/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a seccomp filter; what it says is decided in the core (src/sandbox/linux/seccomp-table.c).
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

/* Linux 5.19: a connect() that the core has taken up is only interrupted by death. Without it a signal would restart one that is done. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static long
load(const struct sock_fprog *program, unsigned long flags)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
}

bool
ipb_filter_load(const uint8_t *blob, IpbBlobTable filter, int *ret_notify, IpbStepError *error)
{
    struct sock_fprog program = {
        .len = (unsigned short) filter.count,
        .filter = (struct sock_filter *) (uintptr_t) ipb_blob_at(blob, filter),
    };
    long result;
    if (ret_notify == NULL) {
        result = load(&program, 0);
    } else {
        result = load(&program,
                      SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
        if (result < 0 && errno == EINVAL)
            result = load(&program, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    }
    if (result < 0)
        return ipb_step_fail(error, IPB_STEP_SECCOMP, 0);
    if (ret_notify != NULL)
        *ret_notify = (int) result;
    return true;
}
