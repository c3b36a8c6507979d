/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the head of an HTTP/1.x request from a hostile peer (request line and headers), and that
 * of an answer. Where RFC 9112 leaves a choice, this parser takes the strict one, because an
 * attacker can exploit two readers that choose differently. Lines end in CRLF, no line is folded,
 * no header name is repeated, there is exactly one Host, a body has a Content-Length (digits) or is
 * chunked, never both, and there is no control character. For a proxy, which receives requests of
 * other programs' clients, it is a little less strict.
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
    /* Without the white space around it */
    IpbSpan value;
} IpbHttpHeader;

typedef enum {
    /* More bytes are needed. */
    IPB_HTTP_HEAD_PARTIAL,
    IPB_HTTP_HEAD_WHOLE,
    /* Answer with status and reason, and close: the end of the request is unknown. */
    IPB_HTTP_HEAD_BAD,
} IpbHttpHeadState;

typedef struct {
    IpbSpan method;
    /* Visible ASCII; any form */
    IpbSpan target;
    bool is_http_1_0;
    IpbHttpHeader headers[IPB_HTTP_MAX_HEADERS];
    size_t n_headers;
    /* A proxied request may have none: size 0 */
    IpbSpan host;
    bool has_content_length;
    uint64_t content_length;
    bool is_chunked;
    /* Bytes of the head; the body begins there */
    size_t size;
    /* Of a bad head: 400, 411, 431, 505. Of an answer: its status */
    unsigned status;
    /* Of a bad head: one clause, static */
    const char *reason;
} IpbHttpHead;

/* @scanned: 0 at first; the caller keeps it while the head is partial, so that a head that arrives
 * byte by byte costs no more than one that arrives at once. @ret_head is filled if WHOLE; its
 * status and reason if BAD. */
IpbHttpHeadState ipb_http_head_parse(const char *bytes, size_t size, size_t *scanned,
                                     IpbHttpHead *ret_head);
/* The same for a request that is passed on: a body may be chunked (see http/body.h), and Host may
 * be missing, because Python's http.client sends none with CONNECT. Never both Content-Length and
 * Transfer-Encoding. */
IpbHttpHeadState ipb_http_head_parse_proxied(const char *bytes, size_t size, size_t *scanned,
                                             IpbHttpHead *ret_head);
/* Parses the head of an answer, in which header names may be repeated. @ret_head has its status,
 * and no method, target and host. */
IpbHttpHeadState ipb_http_head_parse_answer(const char *bytes, size_t size, size_t *scanned,
                                            IpbHttpHead *ret_head);
/* The value of the first header of this name (matched without case); false if there is none. */
bool ipb_http_head_get(const IpbHttpHead *head, const char *name, IpbSpan *ret_value);
