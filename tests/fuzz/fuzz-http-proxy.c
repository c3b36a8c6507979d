/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to the HTTP proxy: what is forwarded is one request, to the host that was checked.
 * The end of its body does not depend on the pieces in which it comes.
 */
#include <string.h>

#include "egress/http-forward.h"
#include "http/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t
count_headers(const IpbHttpHead *head, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < head->n_headers; i++)
        n += ipb_span_equal_nocase(head->headers[i].name, name);
    return n;
}

/* What the server reads, with our own reader, which is stricter than others. */
static void
check_rewritten(const IpbHttpHead *head, const IpbHttpForward *request)
{
    g_autoptr(GString) text = ipb_http_forward_rewrite(head, request, false, NULL);
    IpbHttpHead again;
    IpbHttpForward received;
    const char *reason;
    size_t scanned = 0;
    if (text->len > IPB_HTTP_MAX_HEAD) /* a long path and a canonical Host may not fit any more */
        return;
    g_assert(ipb_http_head_parse_proxied(text->str, text->len, &scanned, &again) ==
             IPB_HTTP_HEAD_WHOLE);
    g_assert(again.size == text->len && count_headers(&again, "Host") == 1);
    g_assert(count_headers(&again, "Connection") == 1);
    g_assert(count_headers(&again, "Proxy-Authorization") == 0);
    g_assert(again.is_chunked == head->is_chunked && again.content_length == head->content_length);
    g_assert(ipb_http_forward_parse_origin(&again, &request->destination, &received, &reason));
    g_assert(ipb_destination_equal(&received.host, &request->host));
}

static void
check_body(const IpbHttpHead *head, const char *bytes, size_t size)
{
    IpbHttpBody whole, pieces;
    size_t taken = 0;
    ipb_http_body_init(&whole, head);
    ipb_http_body_init(&pieces, head);
    size_t n = ipb_http_body_take(&whole, bytes, size);
    g_assert(n <= size);
    for (size_t i = 0; i < size; i++)
        taken += ipb_http_body_take(&pieces, bytes + i, 1);
    g_assert(pieces.state == whole.state && (taken == n || whole.state == IPB_HTTP_BODY_BAD));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *) data, *reason = NULL;
    IpbHttpHead head;
    IpbHttpForward request;
    size_t scanned = 0;
    if (ipb_http_head_parse_proxied(bytes, size, &scanned, &head) != IPB_HTTP_HEAD_WHOLE)
        return 0;
    check_body(&head, bytes + head.size, size - head.size);
    if (!ipb_http_forward_parse_proxy(&head, &request, &reason)) {
        g_assert(reason != NULL);
        return 0;
    }
    g_assert(request.destination.port > 0 && request.destination.port <= 65535);
    g_assert(ipb_destination_equal(&request.destination, &request.host));
    if (!request.is_connect)
        check_rewritten(&head, &request);
    return 0;
}
