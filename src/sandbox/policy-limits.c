/* SPDX-License-Identifier: Apache-2.0
 *
 * How a limit is written in a policy.
 */
#include <string.h>

#include "sandbox/limits.h"

/* What no limit may exceed: file systems and rlimits count in signed numbers. */
#define MAX_LIMIT ((UINT64_C(1) << 62) - 1)

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
ipb_sandbox_limit_read(const IpbJson *value, bool is_size, uint64_t min, uint64_t *ret_value)
{
    size_t size;
    int64_t number;
    const char *text = ipb_json_string(value, &size);
    bool is_fine = false;
    if (text != NULL && g_str_equal(text, "none")) {
        *ret_value = IPB_SANDBOX_NO_LIMIT;
        return NULL;
    }
    if (text != NULL) {
        is_fine = is_size && strlen(text) == size && parse_size(text, ret_value);
    } else if (ipb_json_int64(value, &number) && number >= 0 && (uint64_t) number <= MAX_LIMIT) {
        *ret_value = (uint64_t) number;
        is_fine = true;
    }
    if (is_fine && *ret_value >= min)
        return NULL;
    return is_size ? "a number of bytes such as 2000000000 or \"2G\" (K, M, G, T), or \"none\", is "
                     "expected"
                   : "a whole number or \"none\" is expected";
}
