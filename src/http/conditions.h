/* SPDX-License-Identifier: Apache-2.0
 *
 * The headers by which a hostile peer asks for a part of a resource, or makes a request
 * conditional: Range, and the lists of entity tags in If-Match and If-None-Match (RFC 9110, 13 and
 * 14). Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

typedef enum {
    IPB_HTTP_TAGS_NO_MATCH,
    IPB_HTTP_TAGS_MATCH,
    IPB_HTTP_TAGS_BAD, /* it is neither "*" nor a list of entity tags */
} IpbHttpTags;

/* Does @list contain the strong tag @tag (without quotes)? NULL: there is no resource, so nothing
 * matches. "*" matches any resource. @takes_weak: a weak tag counts as the strong one. */
IpbHttpTags ipb_http_tags_match(IpbSpan list, const char *tag, bool takes_weak);

typedef enum {
    IPB_HTTP_RANGE_NONE, /* it is to be ignored: another unit, several ranges, malformed */
    IPB_HTTP_RANGE_PART,
    IPB_HTTP_RANGE_OUTSIDE, /* 416 */
} IpbHttpRange;

/* Of a resource with @size bytes. PART: *ret_start and *ret_size are within it, and not empty. */
IpbHttpRange ipb_http_range_parse(IpbSpan value, uint64_t size, uint64_t *ret_start,
                                  uint64_t *ret_size);
