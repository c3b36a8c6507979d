/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpOutput: a whole answer while it is written. The body is written from where it is; it may
 * be large, and is not copied. And the head of an answer whose body follows in pieces.
 *
 * Plain struct, owned by value. All zero is no answer.
 */
#pragma once

#include "http/server.h"

typedef struct {
    char *head;
    GBytes *body;
    /* The head, prefix, body, suffix */
    IpbSpan parts[4];
    /* Bytes written, and bytes of all parts */
    size_t at, size;
} IpbHttpOutput;

/* What the server adds to an answer. */
typedef struct {
    /* The header Allow of a 405, or NULL */
    const char *allow;
    /* The origin of the web page that may read the answer, or NULL */
    const char *origin;
    IpbHttpCors cors;
    /* The answer to a HEAD request: without its body */
    bool is_head_only;
} IpbHttpOutputExtras;

void ipb_http_output_set(IpbHttpOutput *output, const IpbHttpAnswer *answer,
                         const IpbHttpOutputExtras *extras);
/* Writes what @fd accepts now, through @tls if that is not NULL; false if the connection is broken.
 */
bool ipb_http_output_write(IpbHttpOutput *output, int fd, IpbTls *tls);
void ipb_http_output_clear(IpbHttpOutput *output);

/* The head of an answer whose body follows: it has the size that the answer says, is chunked, or
 * ends with the connection. Caller frees. */
char *ipb_http_output_stream_head(const IpbHttpAnswer *answer, const IpbHttpOutputExtras *extras,
                                  bool is_chunked);
