/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpBody: finds the end of a request's body: after Content-Length bytes, after the last chunk,
 * or at once. A proxy passes the body on unchanged, and a server takes its content. Chunks with
 * extensions and trailers are refused, because readers understand them differently.
 *
 * Plain struct, owned by value; no allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/request-head.h"

typedef enum {
    /* @left bytes follow */
    IPB_HTTP_BODY_LENGTH,
    /* In the size of a chunk, and before its LF */
    IPB_HTTP_BODY_SIZE,
    IPB_HTTP_BODY_SIZE_LF,
    /* @left bytes of this chunk follow, then CR and LF */
    IPB_HTTP_BODY_DATA,
    IPB_HTTP_BODY_DATA_CR,
    IPB_HTTP_BODY_DATA_LF,
    /* After the last chunk */
    IPB_HTTP_BODY_END_CR,
    IPB_HTTP_BODY_END_LF,
    IPB_HTTP_BODY_DONE,
    /* Malformed chunks: the end of the body is unknown */
    IPB_HTTP_BODY_BAD,
} IpbHttpBodyState;

typedef struct {
    IpbHttpBodyState state;
    uint64_t left;
    /* Of the chunk's size, as far as it was read */
    unsigned digits;
} IpbHttpBody;

void ipb_http_body_init(IpbHttpBody *body, const IpbHttpHead *head);
/* How many of the @size bytes belong to the body. */
size_t ipb_http_body_take(IpbHttpBody *body, const char *bytes, size_t size);
/* Takes bytes up to the end of the next piece of content, which *ret_content points to; it is empty
 * if all of @bytes are framing, or the body ends. Returns how many bytes were taken. */
size_t ipb_http_body_take_content(IpbHttpBody *body, const char *bytes, size_t size,
                                  IpbSpan *ret_content);
