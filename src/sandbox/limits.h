/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a sandbox. In a policy 0 means that nothing is said, and IPB_SANDBOX_NO_LIMIT "none"; in a plan 0 is no limit of ours.
 */
#pragma once

#include <stdint.h>

#include "json/json.h"

#define IPB_SANDBOX_NO_LIMIT UINT64_MAX

typedef struct {
    uint64_t memory_bytes; /* of the sandbox where a cgroup can hold it, else of each process */
    uint64_t processes;
    uint64_t cpu_s; /* of each process */
    uint64_t open_files;
    uint64_t file_bytes; /* of each file */
    uint64_t tmp_bytes;  /* of /tmp, /run and /dev/shm together */
} IpbSandboxLimits;

extern const IpbSandboxLimits IPB_SANDBOX_LIMITS_DEFAULT;

/* What @wanted says, and @fallback where it says nothing; no limit becomes 0. */
IpbSandboxLimits ipb_sandbox_limits_merge(const IpbSandboxLimits *wanted,
                                          const IpbSandboxLimits *fallback);
/* Which limit ended a process with this status (as of waitpid): words that name its key, or NULL. Caller frees. */
char *ipb_sandbox_limits_describe_end(const IpbSandboxLimits *limits, int wait_status);

/* --- for policy-keys.c --- */

/* A number, or a text with a unit such as "512M"; "none". On failure NULL is not returned, but what would be expected. */
const char *ipb_sandbox_limit_read(const IpbJson *value, bool is_size, uint64_t min,
                                   uint64_t *ret_value);
