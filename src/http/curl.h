/* SPDX-License-Identifier: Apache-2.0
 *
 * libcurl, loaded when it is needed: a program that sends no request runs without it. Wheels link
 * it statically; the interface is the same.
 *
 * Ownership: each ipb_curl_load() is matched by one ipb_curl_unload(). The library itself stays
 * loaded, because OpenSSL in it has functions that run at exit.
 */
#pragma once

#include <stdbool.h>

#include <curl/curl.h>
#include <glib.h>

/* The functions that are used, by their names without "curl_". */
#define IPB_CURL_FUNCTIONS(X)                                                                      \
    X(global_init)                                                                                 \
    X(global_cleanup)                                                                              \
    X(easy_init)                                                                                   \
    X(easy_cleanup)                                                                                \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(multi_init)                                                                                  \
    X(multi_cleanup)                                                                               \
    X(multi_setopt)                                                                                \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_socket_action)                                                                         \
    X(multi_info_read)                                                                             \
    X(multi_assign)                                                                                \
    X(multi_strerror)                                                                              \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(url)                                                                                         \
    X(url_cleanup)                                                                                 \
    X(url_set)                                                                                     \
    X(url_get)                                                                                     \
    X(url_strerror)                                                                                \
    X(free)                                                                                        \
    X(version)

typedef struct {
#define IPB_CURL_MEMBER(name) __typeof__(curl_##name) *name;
    IPB_CURL_FUNCTIONS(IPB_CURL_MEMBER)
#undef IPB_CURL_MEMBER
} IpbCurl;

/* UNAVAILABLE: not installed, or too old; the message says what to do. */
IpbCurl *ipb_curl_load(GError **error);
void ipb_curl_unload(IpbCurl *curl);

/* This machine's file of certificate authorities, for a libcurl that was not built for this
 * machine. NULL: there is none, or libcurl knows it. */
const char *ipb_curl_find_authorities(void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbCurl, ipb_curl_unload)
