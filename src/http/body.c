/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a body; see the header.
 */
#include "http/body.h"

#include <glib.h>

/* Hex digits of a chunk's size, so that it cannot overflow. */
#define MAX_SIZE_DIGITS 15

void
ipb_http_body_init(IpbHttpBody *body, const IpbHttpHead *head)
{
    *body = (IpbHttpBody){.state = IPB_HTTP_BODY_DONE};
    if (head->is_chunked)
        body->state = IPB_HTTP_BODY_SIZE;
    else if (head->content_length > 0)
        *body = (IpbHttpBody){.state = IPB_HTTP_BODY_LENGTH, .left = head->content_length};
}

static IpbHttpBodyState
expect(char c, char expected, IpbHttpBodyState next)
{
    return c == expected ? next : IPB_HTTP_BODY_BAD;
}

static IpbHttpBodyState
take_size(IpbHttpBody *body, char c)
{
    if (c == '\r' && body->digits > 0)
        return IPB_HTTP_BODY_SIZE_LF;
    if (!g_ascii_isxdigit(c) || body->digits == MAX_SIZE_DIGITS)
        return IPB_HTTP_BODY_BAD;
    body->digits++;
    body->left = body->left << 4 | (unsigned) g_ascii_xdigit_value(c);
    return IPB_HTTP_BODY_SIZE;
}

static IpbHttpBodyState
take_framing(IpbHttpBody *body, char c)
{
    switch (body->state) {
    case IPB_HTTP_BODY_SIZE:
        return take_size(body, c);
    case IPB_HTTP_BODY_SIZE_LF:
        return expect(c, '\n', body->left > 0 ? IPB_HTTP_BODY_DATA : IPB_HTTP_BODY_END_CR);
    case IPB_HTTP_BODY_DATA_CR:
        return expect(c, '\r', IPB_HTTP_BODY_DATA_LF);
    case IPB_HTTP_BODY_DATA_LF:
        body->digits = 0;
        return expect(c, '\n', IPB_HTTP_BODY_SIZE);
    case IPB_HTTP_BODY_END_CR:
        return expect(c, '\r', IPB_HTTP_BODY_END_LF);
    case IPB_HTTP_BODY_END_LF:
        return expect(c, '\n', IPB_HTTP_BODY_DONE);
    case IPB_HTTP_BODY_LENGTH:
    case IPB_HTTP_BODY_DATA:
    case IPB_HTTP_BODY_DONE:
    case IPB_HTTP_BODY_BAD:
    default:
        return IPB_HTTP_BODY_BAD;
    }
}

static bool
is_content(IpbHttpBodyState state)
{
    return state == IPB_HTTP_BODY_LENGTH || state == IPB_HTTP_BODY_DATA;
}

static void
pass_content(IpbHttpBody *body, size_t n)
{
    body->left -= n;
    if (body->left == 0)
        body->state =
            body->state == IPB_HTTP_BODY_DATA ? IPB_HTTP_BODY_DATA_CR : IPB_HTTP_BODY_DONE;
}

size_t
ipb_http_body_take_content(IpbHttpBody *body, const char *bytes, size_t size, IpbSpan *ret_content)
{
    size_t at = 0;
    *ret_content = (IpbSpan){bytes, 0};
    while (at < size && body->state != IPB_HTTP_BODY_DONE && body->state != IPB_HTTP_BODY_BAD) {
        if (is_content(body->state)) {
            size_t n = (size_t) MIN(body->left, size - at);
            *ret_content = (IpbSpan){bytes + at, n};
            pass_content(body, n);
            return at + n;
        }
        body->state = take_framing(body, bytes[at]);
        at += body->state != IPB_HTTP_BODY_BAD;
    }
    return at;
}

size_t
ipb_http_body_take(IpbHttpBody *body, const char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && body->state != IPB_HTTP_BODY_DONE && body->state != IPB_HTTP_BODY_BAD) {
        if (!is_content(body->state)) {
            body->state = take_framing(body, bytes[at]);
            at += body->state != IPB_HTTP_BODY_BAD;
            continue;
        }
        size_t n = (size_t) MIN(body->left, size - at);
        at += n;
        pass_content(body, n);
    }
    return at;
}
