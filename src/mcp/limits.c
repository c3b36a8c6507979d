/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits that "limits" in server_params can set, one row each; see the header.
 */
#include "mcp/limits.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

#define DAY_MS (24 * 60 * 60 * 1000)
#define MIB ((size_t) 1024 * 1024)

typedef enum { SECONDS, COUNT, BYTES } Unit;

static const struct {
    const char *name;
    Unit unit;
    size_t offset;             /* of the member: a size_t for BYTES, else an unsigned */
    size_t least, value, most; /* milliseconds for SECONDS; @value is the default */
} LIMITS[] = {
    {"connect_timeout", SECONDS, offsetof(IpbMcpLimits, connect_timeout_ms), 1, 30 * 1000, DAY_MS},
    /* negotiation.c says why it can be so short. */
    {"probe_timeout", SECONDS, offsetof(IpbMcpLimits, probe_timeout_ms), 1, 3000, DAY_MS},
    {"call_timeout", SECONDS, offsetof(IpbMcpLimits, call_timeout_ms), 1, 10 * 60 * 1000, DAY_MS},
    {"call_duration", SECONDS, offsetof(IpbMcpLimits, call_duration_ms), 1, DAY_MS,
     7 * (size_t) DAY_MS},
    {"list_duration", SECONDS, offsetof(IpbMcpLimits, list_duration_ms), 1, 10 * 60 * 1000, DAY_MS},
    {"rounds", COUNT, offsetof(IpbMcpLimits, rounds), 1, 10, 1000},
    {"depth", COUNT, offsetof(IpbMcpLimits, depth), 8, 512, 512},
    {"pages", COUNT, offsetof(IpbMcpLimits, pages), 1, 1000, 100000},
    {"tools", COUNT, offsetof(IpbMcpLimits, tools), 1, 10000, 100000},
    {"requests", COUNT, offsetof(IpbMcpLimits, requests), 1, 32, 1000},
    {"redirects", COUNT, offsetof(IpbMcpLimits, redirects), 1, 5, 50},
    {"resumptions", COUNT, offsetof(IpbMcpLimits, resumptions), 1, 5, 1000},
    {"head_size", BYTES, offsetof(IpbMcpLimits, head_size), 1024, 64 * 1024, MIB},
    {"message_size", BYTES, offsetof(IpbMcpLimits, message_size), 1024, 256 * MIB, 1024 * MIB},
};

static size_t
get(const IpbMcpLimits *limits, size_t index)
{
    const char *member = (const char *) limits + LIMITS[index].offset;
    return LIMITS[index].unit == BYTES ? *(const size_t *) (const void *) member
                                       : *(const unsigned *) (const void *) member;
}

static void
set(IpbMcpLimits *limits, size_t index, size_t value)
{
    char *member = (char *) limits + LIMITS[index].offset;
    if (LIMITS[index].unit == BYTES)
        *(size_t *) (void *) member = value;
    else
        *(unsigned *) (void *) member = (unsigned) value;
}

static bool
set_invalid(size_t index, GError **error)
{
    bool is_time = LIMITS[index].unit == SECONDS;
    double scale = is_time ? 1000 : 1;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "server_params.limits.%s must be a number%s from %.10g to %.10g",
                LIMITS[index].name,
                is_time                       ? " of seconds"
                : LIMITS[index].unit == BYTES ? " of bytes"
                                              : "",
                (double) LIMITS[index].least / scale, (double) LIMITS[index].most / scale);
    return false;
}

static bool
read_limit(const IpbJson *value, size_t index, IpbMcpLimits *limits, GError **error)
{
    double number;
    if (!ipb_json_double(value, &number))
        return set_invalid(index, error);
    if (LIMITS[index].unit == SECONDS)
        number = floor(number * 1000);
    if (!(number >= (double) LIMITS[index].least && number <= (double) LIMITS[index].most))
        return set_invalid(index, error);
    set(limits, index, (size_t) number);
    return true;
}

static bool
refuse_name(GError **error)
{
    g_autoptr(GString) names = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(LIMITS); i++)
        g_string_append_printf(names, "%s%s", i > 0 ? ", " : "", LIMITS[i].name);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "server_params.limits has an unknown member; the limits are %s", names->str);
    return false;
}

bool
ipb_mcp_limits_parse(const IpbJson *object, IpbMcpLimits *limits, GError **error)
{
    if (!ipb_json_is(object, IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "server_params.limits must be an object of numbers");
        return false;
    }
    IPB_JSON_FOREACH (item, object) {
        size_t index = 0, size;
        const char *name = ipb_json_name(item, &size);
        while (index < G_N_ELEMENTS(LIMITS) && strcmp(LIMITS[index].name, name) != 0)
            index++;
        if (index == G_N_ELEMENTS(LIMITS) || strlen(name) != size)
            return refuse_name(error);
        if (!read_limit(item, index, limits, error))
            return false;
    }
    return true;
}

void
ipb_mcp_limits_fill(IpbMcpLimits *limits)
{
    for (size_t i = 0; i < G_N_ELEMENTS(LIMITS); i++)
        if (get(limits, i) == 0)
            set(limits, i, LIMITS[i].value);
}
