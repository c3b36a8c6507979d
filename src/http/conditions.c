/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions and ranges; see the header.
 */
#include "http/conditions.h"

#include <string.h>

#include <glib.h>

/* Digits of a position, so that it cannot overflow. */
#define MAX_DIGITS 18

static void
skip(IpbSpan *rest, size_t n)
{
    rest->start += n;
    rest->size -= n;
}

static void
skip_space(IpbSpan *rest)
{
    while (rest->size > 0 && (*rest->start == ' ' || *rest->start == '\t'))
        skip(rest, 1);
}

static bool
begins_with(IpbSpan rest, const char *text)
{
    return rest.size >= strlen(text) && memcmp(rest.start, text, strlen(text)) == 0;
}

/* --- entity tags ------------------------------------------------------------------------------ */

/* Takes a tag from *@rest; false: it is none. */
static bool
take_tag(IpbSpan *rest, IpbSpan *ret_tag, bool *ret_is_weak)
{
    *ret_is_weak = begins_with(*rest, "W/");
    if (*ret_is_weak)
        skip(rest, 2);
    if (!begins_with(*rest, "\""))
        return false;
    skip(rest, 1);
    const char *end = memchr(rest->start, '"', rest->size);
    if (end == NULL)
        return false;
    *ret_tag = (IpbSpan){rest->start, (size_t) (end - rest->start)};
    skip(rest, ret_tag->size + 1);
    return true;
}

IpbHttpTags
ipb_http_tags_match(IpbSpan list, const char *tag, bool takes_weak)
{
    bool has_match = false, has_tag = false;
    if (ipb_span_equal(list, "*"))
        return tag != NULL ? IPB_HTTP_TAGS_MATCH : IPB_HTTP_TAGS_NO_MATCH;
    for (skip_space(&list); list.size > 0; skip_space(&list)) {
        IpbSpan found;
        bool is_weak;
        if (*list.start == ',') { /* items may be empty */
            skip(&list, 1);
            continue;
        }
        if (!take_tag(&list, &found, &is_weak))
            return IPB_HTTP_TAGS_BAD;
        has_tag = true;
        has_match =
            has_match || (tag != NULL && ipb_span_equal(found, tag) && (takes_weak || !is_weak));
        skip_space(&list);
        if (list.size > 0 && *list.start != ',')
            return IPB_HTTP_TAGS_BAD;
    }
    if (!has_tag)
        return IPB_HTTP_TAGS_BAD;
    return has_match ? IPB_HTTP_TAGS_MATCH : IPB_HTTP_TAGS_NO_MATCH;
}

/* --- ranges ----------------------------------------------------------------------------------- */

/* False: there is no number, or it is too long. */
static bool
take_number(IpbSpan *rest, uint64_t *ret_number)
{
    size_t n = 0;
    *ret_number = 0;
    for (; n < rest->size && g_ascii_isdigit(rest->start[n]); n++) {
        if (n == MAX_DIGITS)
            return false;
        *ret_number = *ret_number * 10 + (uint64_t) (rest->start[n] - '0');
    }
    skip(rest, n);
    return n > 0;
}

/* "-500": the last bytes. */
static IpbHttpRange
parse_suffix(IpbSpan rest, uint64_t size, uint64_t *ret_start, uint64_t *ret_size)
{
    uint64_t n;
    if (!take_number(&rest, &n) || rest.size > 0)
        return IPB_HTTP_RANGE_NONE;
    if (n == 0 || size == 0)
        return IPB_HTTP_RANGE_OUTSIDE;
    *ret_size = MIN(n, size);
    *ret_start = size - *ret_size;
    return IPB_HTTP_RANGE_PART;
}

IpbHttpRange
ipb_http_range_parse(IpbSpan value, uint64_t size, uint64_t *ret_start, uint64_t *ret_size)
{
    uint64_t first, last = UINT64_MAX;
    if (!begins_with(value, "bytes="))
        return IPB_HTTP_RANGE_NONE;
    skip(&value, strlen("bytes="));
    if (begins_with(value, "-")) {
        skip(&value, 1);
        return parse_suffix(value, size, ret_start, ret_size);
    }
    if (!take_number(&value, &first) || !begins_with(value, "-"))
        return IPB_HTTP_RANGE_NONE;
    skip(&value, 1);
    bool is_open = value.size == 0;
    if (!is_open && (!take_number(&value, &last) || value.size > 0 || last < first))
        return IPB_HTTP_RANGE_NONE;
    if (first >= size)
        return IPB_HTTP_RANGE_OUTSIDE;
    *ret_start = first;
    *ret_size = MIN(last, size - 1) - first + 1;
    return IPB_HTTP_RANGE_PART;
}
