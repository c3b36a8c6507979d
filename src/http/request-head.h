/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of an HTTP/1.x request from a hostile peer: request line and headers, nothing else. And that of an answer.
 * Stricter than RFC 9112 wherever it leaves a choice, because two readers who choose differently
 * can be played off against each other: lines end in CRLF, no line is folded, no header name comes
 * twice, exactly one Host, a body only by Content-Length (digits), no Transfer-Encoding, no control
 * characters. A proxy, which takes what other programs' clients send, is a little less strict.
 *
 * Pure: no input, no output, no allocation. The spans of a head point into the caller's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* Request line, headers and the empty line. */
#define IPB_HTTP_MAX_HEAD (16 * 1024)
#define IPB_HTTP_MAX_HEADERS 64

typedef struct {
    IpbSpan name;
    IpbSpan value; /* without the white space around it */
} IpbHttpHeader;

typedef enum {
    IPB_HTTP_HEAD_PARTIAL, /* more bytes are needed */
    IPB_HTTP_HEAD_WHOLE,
    IPB_HTTP_HEAD_BAD, /* answer with status and reason, and close: where it ends is not known */
} IpbHttpHeadState;

typedef struct {
    IpbSpan method;
    IpbSpan target; /* visible ASCII; any form */
    bool is_http_1_0;
    IpbHttpHeader headers[IPB_HTTP_MAX_HEADERS];
    size_t n_headers;
    IpbSpan host; /* of a proxied request it may be missing: size 0 */
    bool has_content_length;
    uint64_t content_length;
    bool is_chunked; /* only of a proxied request */
    size_t size;     /* of the whole head; the body begins there */
    /* Of a bad head: */
    unsigned status;    /* 400, 411, 431, 505; of an answer, its own */
    const char *reason; /* one clause, static */
} IpbHttpHead;

/* @scanned: 0 at first, kept by the caller while the head is partial, so that a head that comes
 * byte by byte costs no more than one that comes at once. @ret_head is filled if WHOLE, its status
 * and reason if BAD. */
IpbHttpHeadState ipb_http_head_parse(const char *bytes, size_t size, size_t *scanned,
                                     IpbHttpHead *ret_head);
/* The same for a request that is passed on: a body may be chunked (see http/body.h), and Host may be missing,
 * which Python's http.client leaves out of CONNECT. Never both Content-Length and Transfer-Encoding. */
IpbHttpHeadState ipb_http_head_parse_proxied(const char *bytes, size_t size, size_t *scanned,
                                             IpbHttpHead *ret_head);
/* The head of an answer, of a server that may do as it likes with headers: names may come twice. @ret_head: status is what it
 * says; there is neither method nor target nor host. */
IpbHttpHeadState ipb_http_head_parse_answer(const char *bytes, size_t size, size_t *scanned,
                                            IpbHttpHead *ret_head);
/* The value of a header (the first one; the name is matched without case); false if there is none. */
bool ipb_http_head_get(const IpbHttpHead *head, const char *name, IpbSpan *ret_value);
