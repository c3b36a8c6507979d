/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a sandbox, in one table: what holds when nothing is said, and why.
 */
#include <stddef.h>

#include "sandbox/plan-private.h"

#define GIB (UINT64_C(1) << 30)

const IpbSandboxLimits IPB_SANDBOX_LIMITS_DEFAULT = {
    .memory_bytes = 8 * GIB,
    .processes = 512,
    .cpu_s = 0,
    .open_files = 4096,
    .file_bytes = 8 * GIB,
    .tmp_bytes = GIB,
};

static const struct {
    const char *name;
    size_t offset;
    const char *reason;
} LIMITS[] = {
    {"memory_bytes", offsetof(IpbSandboxLimits, memory_bytes),
     "of the whole sandbox where a cgroup can hold it, else of each process: large data fits, a "
     "runaway list does not take the machine with it"},
    {"processes", offsetof(IpbSandboxLimits, processes),
     "processes and threads together: a fork bomb ends, thread pools do not"},
    {"cpu_s", offsetof(IpbSandboxLimits, cpu_s),
     "seconds of each process: a cell has its own time limit, a service may run for days"},
    {"open_files", offsetof(IpbSandboxLimits, open_files),
     "of each process: servers and dataset readers fit, a leak is noticed"},
    {"file_bytes", offsetof(IpbSandboxLimits, file_bytes),
     "of each file that is written: a loop that writes does not fill the disk at once"},
    {"tmp_bytes", offsetof(IpbSandboxLimits, tmp_bytes),
     "of /tmp, /run and /dev/shm together, which are memory"},
};

bool
ipb_plan_limit_at(const IpbSandboxLimits *limits, size_t index, IpbPlanLimit *ret_limit)
{
    if (index >= G_N_ELEMENTS(LIMITS))
        return false;
    const char *field = (const char *) limits + LIMITS[index].offset;
    *ret_limit =
        (IpbPlanLimit){LIMITS[index].name, *(const uint64_t *) field, LIMITS[index].reason};
    return true;
}
