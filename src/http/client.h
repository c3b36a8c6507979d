/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpClient: asynchronous HTTP and HTTPS requests to hostile servers, with libcurl, which is
 * loaded when the first client is created (http/curl.h). Connections are kept for a few seconds and
 * shared by the calls of one client. HTTP/1.1; bodies may be compressed with gzip or deflate. TLS
 * is always verified. There are no redirects (the owner decides), no cookies, no netrc, no
 * authentication but the owner's headers.
 *
 * A request is never sent twice: if a kept connection ends before an answer, the call fails and
 * says that the request may have been executed.
 *
 * Ownership: the owner frees its calls, or the client. Freeing the client frees its calls without
 * calling on_end. Both may be freed at any time, even in the functions of calls; a call that has
 * not ended is aborted then.
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
    /* PEM file of certificate authorities, instead of the system's; NULL: SSL_CERT_FILE, then the
     * system's. */
    const char *ca_file;
    /* "NAME=value" list: http_proxy, https_proxy, all_proxy, no_proxy (https_ and all_ also in
     * capitals), SSL_CERT_FILE, SSL_CERT_DIR. NULL: the environment of the process. */
    const char *const *env;
} IpbHttpClientOptions;

/* UNAVAILABLE: libcurl is not installed; the message names the package. INVALID: ca_file is no
 * file. */
IpbHttpClient *ipb_http_client_new(IpbLoop *loop, const IpbHttpClientOptions *options,
                                   GError **error);
void ipb_http_client_free(IpbHttpClient *client);

/* 0 is the default of each. Above a limit the call fails with LIMIT; the message has the limit's
 * name and size. */
typedef struct {
    /* Bytes of all headers of the answer; 64 KiB */
    size_t head_size;
    /* 128 */
    unsigned n_headers;
    /* Bytes after decompression; 16 MiB. SIZE_MAX: no limit */
    size_t body_size;
} IpbHttpLimits;

/* 0: none (connect: 30 s). After a deadline the call fails with TIMEOUT. */
typedef struct {
    /* Name, connection, TLS */
    unsigned connect_ms;
    /* Until the answer's headers are complete */
    unsigned head_ms;
    /* Between two pieces of the body */
    unsigned idle_ms;
    unsigned total_ms;
} IpbHttpDeadlines;

/* The status and the headers have arrived: ipb_http_call_header(). Not called for interim answers
 * (1xx). */
typedef void (*IpbHttpHeadFunc)(IpbHttpCall *call, unsigned status, void *data);
typedef void (*IpbHttpBodyFunc)(IpbHttpCall *call, const char *bytes, size_t size, void *data);
/* The end, once: @error NULL if the whole answer came. Errors:
 *   INVALID      the URL or a header is wrong
 *   NOT_FOUND    the host's name is not known
 *   UNAVAILABLE  no connection: refused, unreachable, no TLS, a proxy does not answer or refuses
 *   REFUSED      the server's certificate is not to be trusted; the message says what to do
 *   TIMEOUT, LIMIT
 *   PROTOCOL     it does not speak HTTP as it should
 *   SERVER       the connection broke; SYSTEM: anything else
 * Messages begin with the origin ("https://example.com: "), hold no path, query or header. */
typedef void (*IpbHttpEndFunc)(IpbHttpCall *call, const GError *error, void *data);

typedef struct {
    /* "GET", "POST", "DELETE" */
    const char *method;
    /* http or https, without a user and a password */
    const char *url;
    /* "Name: value", NULL-terminated, without CR and LF; NULL: none */
    const char *const *headers;
    /* Copied; NULL: none */
    const char *body;
    size_t body_size;
    IpbHttpLimits limits;
    IpbHttpDeadlines deadlines;
    /* These two may be NULL. */
    IpbHttpHeadFunc on_head;
    IpbHttpBodyFunc on_body;
    IpbHttpEndFunc on_end;
    void *data;
} IpbHttpCallOptions;

/* Begins a call; @options is copied. Errors in @options are reported by on_end. */
IpbHttpCall *ipb_http_client_send(IpbHttpClient *client, const IpbHttpCallOptions *options);
void ipb_http_call_free(IpbHttpCall *call);

/* 0 before the head. */
unsigned ipb_http_call_status(const IpbHttpCall *call);
/* The value of the @index-th header of this name (matched without case); NULL if there is none. It
 * has no white space around it and no control characters, but is hostile otherwise. Borrowed from
 * the call. */
const char *ipb_http_call_header(const IpbHttpCall *call, const char *name, unsigned index);

/* "https://example.com:8443" (without the default port), the host in small letters. INVALID unless
 * it is an http or https URL without a user. Caller frees. */
char *ipb_http_client_origin(IpbHttpClient *client, const char *url, GError **error);
/* @reference, which may be relative, resolved against @base; without a fragment. INVALID as above.
 * Caller frees. */
char *ipb_http_client_resolve(IpbHttpClient *client, const char *base, const char *reference,
                              GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpClient, ipb_http_client_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpCall, ipb_http_call_free)
