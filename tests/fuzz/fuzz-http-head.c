/* SPDX-License-Identifier: Apache-2.0
 *
 * The head parser: its spans lie inside the input, and a head that comes in pieces is parsed as the
 * same head at once.
 */
#include <string.h>

#include "http/request-head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_inside(IpbSpan span, const char *bytes, size_t size)
{
    g_assert(span.start >= bytes && span.start + span.size <= bytes + size);
}

static IpbHttpHeadState
parse_in_pieces(const char *bytes, size_t size, IpbHttpHead *ret_head)
{
    size_t scanned = 0;
    for (size_t end = 0; end < size; end += 7) {
        IpbHttpHeadState state = ipb_http_head_parse(bytes, end, &scanned, ret_head);
        if (state != IPB_HTTP_HEAD_PARTIAL)
            return state;
    }
    return ipb_http_head_parse(bytes, size, &scanned, ret_head);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *) data;
    IpbHttpHead head, other;
    size_t scanned = 0;
    IpbHttpHeadState state = ipb_http_head_parse(bytes, size, &scanned, &head);
    g_assert(parse_in_pieces(bytes, size, &other) == state);
    if (state == IPB_HTTP_HEAD_BAD)
        g_assert(head.reason != NULL && head.status == other.status);
    if (state != IPB_HTTP_HEAD_WHOLE)
        return 0;
    g_assert(head.size <= MIN(size, IPB_HTTP_MAX_HEAD) && head.size == other.size);
    g_assert(head.n_headers <= IPB_HTTP_MAX_HEADERS);
    g_assert(!head.is_chunked || (!head.has_content_length && head.content_length == 0));
    check_inside(head.method, bytes, head.size);
    check_inside(head.target, bytes, head.size);
    check_inside(head.host, bytes, head.size);
    for (size_t i = 0; i < head.n_headers; i++) {
        check_inside(head.headers[i].name, bytes, head.size);
        check_inside(head.headers[i].value, bytes, head.size);
        g_assert(memchr(head.headers[i].value.start, '\n', head.headers[i].value.size) == NULL);
    }
    return 0;
}
