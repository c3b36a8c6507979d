/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a sandbox. In a policy 0 means that the key is not there, and IPB_SANDBOX_NO_LIMIT
 * means "none". In a plan 0 means that there is no limit of ours.
 */
#pragma once

#include <stdint.h>

#include "json/json.h"

#define IPB_SANDBOX_NO_LIMIT UINT64_MAX

typedef struct {
    uint64_t
        memory_bytes; /* of the whole sandbox where the system can limit it, else of each process */
    uint64_t processes;
    uint64_t cpu_s; /* of each process */
    uint64_t open_files;
    uint64_t file_bytes; /* of each file */
    uint64_t tmp_bytes;  /* of /tmp, /run and /dev/shm together */
} IpbSandboxLimits;

extern const IpbSandboxLimits IPB_SANDBOX_LIMITS_DEFAULT;

/* Takes each limit from @wanted, and from @fallback where @wanted has none. "No limit" becomes
 * 0. */
IpbSandboxLimits ipb_sandbox_limits_merge(const IpbSandboxLimits *wanted,
                                          const IpbSandboxLimits *fallback);
/* If a limit is the reason for an end with this status (as of waitpid): a phrase that names its
 * key. Otherwise NULL. Caller frees. */
char *ipb_sandbox_limits_describe_end(const IpbSandboxLimits *limits, int wait_status);

/* One limit, for people. */
typedef struct {
    const char *name; /* the key in the policy's "limits" */
    bool is_size;
    uint64_t value;
    const char *reason;
} IpbSandboxLimit;

/* The limits in a fixed order, from @index 0; false at the end. */
bool ipb_sandbox_limits_at(const IpbSandboxLimits *limits, size_t index,
                           IpbSandboxLimit *ret_limit);
/* Reads one limit of a policy: a number, a text with a unit such as "512M", or "none". Returns NULL
 * on success, else what is expected. */
const char *ipb_sandbox_limits_read(const IpbJson *value, bool is_size, uint64_t min,
                                    uint64_t *ret_value);
