/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions and ranges. The first line of the input is the tag of the resource, the rest the value
 * of a header. A range is within the resource, "*" matches, and a tag alone matches itself.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <glib.h>

#include "http/conditions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_range(IpbSpan value, uint64_t size)
{
    uint64_t start = UINT64_MAX, n = UINT64_MAX;
    if (ipb_http_range_parse(value, size, &start, &n) == IPB_HTTP_RANGE_PART)
        g_assert(n > 0 && start < size && n <= size - start);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t tag_size = newline != NULL ? (size_t) (newline - data) : 0;
    g_autofree char *tag = g_strndup((const char *) data, tag_size);
    size_t skipped = newline != NULL ? tag_size + 1 : 0;
    /* In a buffer of its own, so that a read beyond its end is noticed. */
    g_autofree char *text = g_memdup2(data + skipped, size - skipped);
    IpbSpan value = {text != NULL ? text : "", size - skipped};
    IpbHttpTags strong = ipb_http_tags_match(value, tag, false);
    IpbHttpTags weak = ipb_http_tags_match(value, tag, true);
    g_assert((strong == IPB_HTTP_TAGS_BAD) == (weak == IPB_HTTP_TAGS_BAD));
    g_assert(strong != IPB_HTTP_TAGS_MATCH || weak == IPB_HTTP_TAGS_MATCH);
    g_assert(ipb_http_tags_match(value, NULL, true) != IPB_HTTP_TAGS_MATCH);
    if (strchr(tag, '"') == NULL) {
        g_autofree char *quoted = g_strdup_printf("\"%s\"", tag);
        g_assert(ipb_http_tags_match((IpbSpan){quoted, strlen(quoted)}, tag, false) ==
                 IPB_HTTP_TAGS_MATCH);
    }
    check_range(value, 0);
    check_range(value, 1);
    check_range(value, 1000);
    check_range(value, UINT64_MAX);
    return 0;
}
