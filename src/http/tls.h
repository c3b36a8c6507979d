/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS of our HTTP server, by OpenSSL. IpbTlsKeys is a certificate with its key, which all
 * connections of a server use. IpbTls is the layer between one connection and its socket.
 *
 * TLS 1.2 and 1.3, without renegotiation, compression, resumption and early data. So the state of a
 * connection has a fixed size: OpenSSL's, about 50 KiB. Nothing blocks. OpenSSL writes to the
 * socket with write(2): the program must survive SIGPIPE, as ipybox does (cli/main.c).
 *
 * Ownership: keys are reference-counted; each layer holds them. The connection owns its layer, and
 * the socket.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>
#include <sys/types.h>

typedef struct IpbTlsKeys IpbTlsKeys;
typedef struct IpbTls IpbTls;

/* Bytes of a record's content. */
#define IPB_TLS_MAX_RECORD (16 * 1024)

/* Reads PEM files: the certificate, with those of the authorities between it and the root after it,
 * and its key without a passphrase. REFUSED: other users can read the key. A group may read it only
 * if root owns it. NOT_FOUND, INVALID, LIMIT, UNAVAILABLE (OpenSSL is missing). */
IpbTlsKeys *ipb_tls_keys_load(const char *certificate, const char *key, GError **error);
IpbTlsKeys *ipb_tls_keys_ref(IpbTlsKeys *keys);
void ipb_tls_keys_unref(IpbTlsKeys *keys);

/* @fd: the socket, non-blocking; borrowed. NULL: no memory. */
IpbTls *ipb_tls_new(IpbTlsKeys *keys, int fd);
/* Ends nothing: see ipb_tls_finish. */
void ipb_tls_free(IpbTls *tls);

typedef enum {
    IPB_TLS_DONE,
    /* Call again when the socket is readable, or writable. */
    IPB_TLS_WANTS_READ,
    IPB_TLS_WANTS_WRITE,
    /* The peer sent plain text, which looks like HTTP. No byte of it was read. */
    IPB_TLS_PLAIN_TEXT,
    IPB_TLS_FAILED,
} IpbTlsStep;

IpbTlsStep ipb_tls_handshake(IpbTls *tls);
/* Like recv and send without blocking: the number of bytes; 0: the peer has ended the connection in
 * order; -1 with errno, EAGAIN: nothing is possible now, EPROTO: the connection is broken.
 *
 * @size of a read must be IPB_TLS_MAX_RECORD at least: then nothing that was decrypted is left, and
 * the socket says whether there is more. After a write that took less, the next one must begin with
 * the bytes that were not taken. */
ssize_t ipb_tls_read(IpbTls *tls, void *bytes, size_t size);
ssize_t ipb_tls_write(IpbTls *tls, const void *bytes, size_t size);
/* Sends close_notify: what was written is all. */
IpbTlsStep ipb_tls_finish(IpbTls *tls);

/* Says to a peer, before any handshake, that it is not served now. */
void ipb_tls_turn_away(int fd);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbTlsKeys, ipb_tls_keys_unref)
