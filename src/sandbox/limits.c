/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/limits.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#define GIB (UINT64_C(1) << 30)
/* What no limit may exceed: file systems and rlimits count in signed numbers. */
#define MAX_LIMIT ((UINT64_C(1) << 62) - 1)

const IpbSandboxLimits IPB_SANDBOX_LIMITS_DEFAULT = {
    .memory_bytes = 8 * GIB,
    .processes = 512,
    .cpu_s = 0,
    .open_files = 768,
    .file_bytes = 8 * GIB,
    .tmp_bytes = GIB,
};

static const struct {
    const char *name;
    bool is_size;
    size_t offset;
    const char *reason;
} LIMITS[] = {
    {"memory", true, offsetof(IpbSandboxLimits, memory_bytes),
     "large data fits; a list that grows without end does not use up the machine"},
    {"processes", false, offsetof(IpbSandboxLimits, processes),
     "processes and threads together: enough for thread pools, and a fork bomb ends"},
    {"cpuSeconds", false, offsetof(IpbSandboxLimits, cpu_s),
     "seconds of each process: a cell has its own time limit, a service may run for days"},
    {"openFiles", false, offsetof(IpbSandboxLimits, open_files),
     "of each process: near the usual 1024, and less, so that code inside cannot keep others from "
     "passing descriptors"},
    {"fileSize", true, offsetof(IpbSandboxLimits, file_bytes),
     "of each file that is written: an endless loop does not fill the disk at once"},
    {"temporaryFiles", true, offsetof(IpbSandboxLimits, tmp_bytes),
     "of /tmp, /run and /dev/shm together, which are memory"},
};

bool
ipb_sandbox_limits_at(const IpbSandboxLimits *limits, size_t index, IpbSandboxLimit *ret_limit)
{
    if (index >= G_N_ELEMENTS(LIMITS))
        return false;
    const char *field = (const char *) limits + LIMITS[index].offset;
    *ret_limit = (IpbSandboxLimit){LIMITS[index].name, LIMITS[index].is_size,
                                   *(const uint64_t *) field, LIMITS[index].reason};
    return true;
}

IpbSandboxLimits
ipb_sandbox_limits_merge(const IpbSandboxLimits *wanted, const IpbSandboxLimits *fallback)
{
    IpbSandboxLimits merged = *fallback;
    for (size_t i = 0; i < G_N_ELEMENTS(LIMITS); i++) {
        uint64_t value = *(const uint64_t *) ((const char *) wanted + LIMITS[i].offset);
        uint64_t *field = (uint64_t *) ((char *) &merged + LIMITS[i].offset);
        if (value != 0)
            *field = value;
        if (*field == IPB_SANDBOX_NO_LIMIT)
            *field = 0;
    }
    return merged;
}

char *
ipb_sandbox_limits_describe_end(const IpbSandboxLimits *limits, int wait_status)
{
    /* A shell reports the end of its last command like this. */
    int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status)
                 : WIFEXITED(wait_status) && WEXITSTATUS(wait_status) > 128
                     ? WEXITSTATUS(wait_status) - 128
                     : 0;
    if (number == SIGXCPU && limits->cpu_s > 0)
        return g_strdup_printf(
            "it used all of its CPU time: limits.cpuSeconds is %" G_GUINT64_FORMAT, limits->cpu_s);
    if (number == SIGXFSZ && limits->file_bytes > 0)
        return g_strdup_printf(
            "it wrote a file that grew too large: limits.fileSize is %" G_GUINT64_FORMAT " bytes",
            limits->file_bytes);
    return NULL;
}

/* --- as written in a policy ------------------------------------------------------------------- */

/* "512M" as a number of bytes. */
static bool
parse_size(const char *text, uint64_t *ret_value)
{
    static const char UNITS[] = "KMGT";
    char *end;
    if (!g_ascii_isdigit(*text))
        return false;
    uint64_t value = g_ascii_strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(UNITS, *end) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned) (unit - UNITS + 1) : 0;
    if (unit != NULL)
        end++;
    *ret_value = value << shift;
    return *end == '\0' && value <= MAX_LIMIT >> shift;
}

const char *
ipb_sandbox_limits_read(const IpbJson *value, bool is_size, uint64_t min, uint64_t *ret_value)
{
    size_t size;
    int64_t number;
    const char *text = ipb_json_string(value, &size);
    bool is_valid = false;
    if (text != NULL && g_str_equal(text, "none")) {
        *ret_value = IPB_SANDBOX_NO_LIMIT;
        return NULL;
    }
    if (text != NULL) {
        is_valid = is_size && strlen(text) == size && parse_size(text, ret_value);
    } else if (ipb_json_int64(value, &number) && number >= 0 && (uint64_t) number <= MAX_LIMIT) {
        *ret_value = (uint64_t) number;
        is_valid = true;
    }
    if (is_valid && *ret_value >= min)
        return NULL;
    return is_size ? "a number of bytes such as 2000000000 or \"2G\" (K, M, G, T), or \"none\", is "
                     "expected"
                   : "a whole number or \"none\" is expected";
}
