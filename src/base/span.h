/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSpan: a range of bytes in a text that something else owns. Plain struct, passed by value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <glib.h>

typedef struct {
    const char *start;
    size_t size;
} IpbSpan;

static inline bool
ipb_span_equal(IpbSpan span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.start, text, span.size) == 0;
}

/* Ignores the case of ASCII letters. */
static inline bool
ipb_span_equal_nocase(IpbSpan span, const char *text)
{
    return span.size == strlen(text) && g_ascii_strncasecmp(span.start, text, span.size) == 0;
}
