/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpBody: where the body of a request ends that is passed on as it is: after Content-Length bytes, after
 * the last chunk, or at once. Chunks carry neither extensions nor trailers, which readers
 * understand differently.
 *
 * Plain struct, owned by value; no allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/request-head.h"

typedef enum {
    IPB_HTTP_BODY_LENGTH, /* @left bytes more */
    IPB_HTTP_BODY_SIZE,   /* in a chunk's size */
    IPB_HTTP_BODY_SIZE_LF,
    IPB_HTTP_BODY_DATA, /* @left bytes more of this chunk */
    IPB_HTTP_BODY_DATA_CR,
    IPB_HTTP_BODY_DATA_LF,
    IPB_HTTP_BODY_END_CR, /* after the last chunk */
    IPB_HTTP_BODY_END_LF,
    IPB_HTTP_BODY_DONE,
    IPB_HTTP_BODY_BAD, /* no chunks as they should be: where the body ends is not known */
} IpbHttpBodyState;

typedef struct {
    IpbHttpBodyState state;
    uint64_t left;
    unsigned digits; /* of the chunk's size, so far */
} IpbHttpBody;

void ipb_http_body_init(IpbHttpBody *body, const IpbHttpHead *head);
/* How many of the @size bytes belong to the body; what is after them does not. */
size_t ipb_http_body_take(IpbHttpBody *body, const char *bytes, size_t size);
