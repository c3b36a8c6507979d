/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpClient: asynchronous HTTP and HTTPS requests to hostile servers, on libcurl, which is loaded
 * when the first client is made (http/curl.h). Connections are kept for a few seconds and shared by the
 * calls of one client. HTTP/1.1; bodies may come as gzip or deflate. TLS is always verified. There are
 * no redirects (the owner decides), no cookies, no netrc, no authentication but the owner's headers.
 *
 * A request is never sent twice: where a kept connection ends before there was an answer, the call
 * fails and says that the request may have been executed.
 *
 * Ownership: the owner frees its calls, or the client: that frees all calls that are left, without
 * telling. Both may be freed at any time, also in the functions of calls; a call that has not ended is
 * cut off then.
 * Thread: the one that runs the loop. The functions are called from the loop, never from within
 * ipb_http_client_send().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

typedef struct IpbHttpClient IpbHttpClient;
typedef struct IpbHttpCall IpbHttpCall;

typedef struct {
    /* PEM file of certificate authorities, instead of the system's; NULL: SSL_CERT_FILE, then the system's. */
    const char *ca_file;
    /* "NAME=value" list: http_proxy, https_proxy, all_proxy, no_proxy (https_ and all_ also in capitals),
     * SSL_CERT_FILE, SSL_CERT_DIR. NULL: the environment of the process. */
    const char *const *env;
} IpbHttpClientOptions;

/* UNAVAILABLE: libcurl is not installed; the message names the package. INVALID: ca_file is no file. */
IpbHttpClient *ipb_http_client_new(IpbLoop *loop, const IpbHttpClientOptions *options,
                                   GError **error);
void ipb_http_client_free(IpbHttpClient *client);

/* 0 is the default of each. Beyond one the call fails with LIMIT, and the message has its name and size. */
typedef struct {
    size_t head_size;   /* bytes of all headers of the answer; 64 KiB */
    unsigned n_headers; /* 128 */
    size_t body_size;   /* bytes, as they are after decompression; 16 MiB. SIZE_MAX: none */
} IpbHttpLimits;

/* 0: none (connect: 30 s). Beyond one the call fails with TIMEOUT. */
typedef struct {
    unsigned connect_ms; /* name, connection, TLS */
    unsigned head_ms;    /* until the answer's headers */
    unsigned idle_ms;    /* between two pieces of the body */
    unsigned total_ms;
} IpbHttpDeadlines;

/* The status and the headers are there: ipb_http_call_header(). Not told of interim answers (1xx). */
typedef void (*IpbHttpHeadFunc)(IpbHttpCall *call, unsigned status, void *data);
typedef void (*IpbHttpBodyFunc)(IpbHttpCall *call, const char *bytes, size_t size, void *data);
/* The end, once: @error NULL if the whole answer came. Errors:
 *   INVALID      the URL or a header is wrong
 *   NOT_FOUND    the host's name is not known
 *   UNAVAILABLE  no connection: refused, unreachable, no TLS, a proxy that does not answer or refuses
 *   REFUSED      the server's certificate is not to be trusted; the message says what to do
 *   TIMEOUT, LIMIT
 *   PROTOCOL     it does not speak HTTP as it should
 *   SERVER       the connection broke; SYSTEM: anything else
 * Messages begin with the origin ("https://example.com: "), hold no path, query or header. */
typedef void (*IpbHttpEndFunc)(IpbHttpCall *call, const GError *error, void *data);

typedef struct {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *url;    /* http or https, without a user and a password */
    const char *const
        *headers;     /* "Name: value", NULL-terminated; NULL: none. Neither CR, LF nor NUL */
    const char *body; /* copied; NULL: none */
    size_t body_size;
    IpbHttpLimits limits;
    IpbHttpDeadlines deadlines;
    IpbHttpHeadFunc on_head; /* may be NULL, and so may on_body */
    IpbHttpBodyFunc on_body;
    IpbHttpEndFunc on_end;
    void *data;
} IpbHttpCallOptions;

/* Begins a call; @options is copied. What is wrong with it is told by on_end. */
IpbHttpCall *ipb_http_client_send(IpbHttpClient *client, const IpbHttpCallOptions *options);
void ipb_http_call_free(IpbHttpCall *call);

/* 0 before the head. */
unsigned ipb_http_call_status(const IpbHttpCall *call);
/* The value of the @index-th header of this name (matched without case); NULL if there is none. Without
 * white space around it and without control characters, else hostile. Borrowed from the call. */
const char *ipb_http_call_header(const IpbHttpCall *call, const char *name, unsigned index);

/* "https://example.com:8443" (without the default port), the host in small letters. INVALID unless it is an http
 * or https URL without a user. Caller frees. */
char *ipb_http_client_origin(IpbHttpClient *client, const char *url, GError **error);
/* @reference, which may be relative, seen from @base; without a fragment. INVALID as above. Caller frees. */
char *ipb_http_client_resolve(IpbHttpClient *client, const char *base, const char *reference,
                              GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpClient, ipb_http_client_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpCall, ipb_http_call_free)
