/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenSSL's libssl and libcrypto, loaded when they are needed: a program without TLS runs without
 * them. Wheels link them statically; the interface is the same.
 *
 * Ownership: the caller frees the table with g_free. The libraries stay loaded, because they have
 * functions that run at exit.
 */
#pragma once

#include <glib.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

/* The functions that are used. */
#define IPB_OPENSSL_FUNCTIONS(X)                                                                   \
    X(OPENSSL_init_ssl)                                                                            \
    X(OpenSSL_version)                                                                             \
    X(TLS_server_method)                                                                           \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_cipher_list)                                                                     \
    X(SSL_CTX_set_num_tickets)                                                                     \
    X(SSL_CTX_set_alpn_select_cb)                                                                  \
    X(SSL_CTX_use_certificate)                                                                     \
    X(SSL_CTX_use_PrivateKey)                                                                      \
    X(SSL_new)                                                                                     \
    X(SSL_free)                                                                                    \
    X(SSL_set_fd)                                                                                  \
    X(SSL_accept)                                                                                  \
    X(SSL_read)                                                                                    \
    X(SSL_write)                                                                                   \
    X(SSL_shutdown)                                                                                \
    X(SSL_get_error)                                                                               \
    X(BIO_new_mem_buf)                                                                             \
    X(BIO_free)                                                                                    \
    X(PEM_read_bio_X509)                                                                           \
    X(PEM_read_bio_PrivateKey)                                                                     \
    X(X509_free)                                                                                   \
    X(EVP_PKEY_free)                                                                               \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_last_error)                                                                         \
    X(ERR_reason_error_string)

typedef struct {
#define IPB_OPENSSL_MEMBER(name) __typeof__(name) *name;
    IPB_OPENSSL_FUNCTIONS(IPB_OPENSSL_MEMBER)
#undef IPB_OPENSSL_MEMBER
} IpbOpenssl;

/* UNAVAILABLE: not installed, or too old; the message says what to do. */
IpbOpenssl *ipb_openssl_load(GError **error);
