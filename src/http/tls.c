/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS by OpenSSL; see the header.
 *
 * OpenSSL reads no further than the record that it needs, so the socket is readable as long as
 * there is more. After the handshake a read never has to wait until it can write, nor a write until
 * it can read, unless the peer sends parts of handshake messages. Such a connection is broken:
 * otherwise the peer could make the loop turn without doing anything.
 */
#include "http/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "http/openssl.h"

#define MAX_FILE (1024 * 1024)
/* Certificates in a file. */
#define MAX_CHAIN 16
/* Records that one call reads or writes, so that other connections get their turn. */
#define MAX_RECORDS 16
/* The first byte of a connection: a record with a handshake message. */
#define HANDSHAKE_RECORD 0x16

/* Of TLS 1.2: with forward secrecy, and authenticated. TLS 1.3 has no others. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
#define OPTIONS                                                                                    \
    (SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |                          \
     SSL_OP_CIPHER_SERVER_PREFERENCE)
#define MODES                                                                                      \
    (SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS)

static const unsigned char PROTOCOL[] = {'h', 't', 't', 'p', '/', '1', '.', '1'};

/* Reference-counted (g_rc_box). */
struct IpbTlsKeys {
    IpbOpenssl *openssl;
    SSL_CTX *context;
};

struct IpbTls {
    IpbTlsKeys *keys;
    SSL *ssl;
    int fd;
    bool is_begun;
    bool is_broken;
};

/* --- certificate and key ---------------------------------------------------------------------- */

static const char *
describe(const IpbOpenssl *openssl)
{
    const char *reason = openssl->ERR_reason_error_string(openssl->ERR_peek_last_error());
    return reason != NULL ? reason : "unknown error";
}

static bool
set_invalid(const IpbOpenssl *openssl, const char *what, const char *path, GError **error)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s %s: %s", what, path,
                describe(openssl));
    return false;
}

static bool
has_ended(const IpbOpenssl *openssl)
{
    unsigned long last = openssl->ERR_peek_last_error();
    return ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
}

/* Both calls take a reference of their own. */
static bool
add_certificate(const IpbTlsKeys *keys, X509 *certificate, bool is_first)
{
    const IpbOpenssl *openssl = keys->openssl;
    if (is_first)
        return openssl->SSL_CTX_use_certificate(keys->context, certificate) == 1;
    return openssl->SSL_CTX_ctrl(keys->context, SSL_CTRL_CHAIN_CERT, 1, certificate) == 1;
}

static bool
read_certificates(const IpbTlsKeys *keys, BIO *bio, const char *path, GError **error)
{
    const IpbOpenssl *openssl = keys->openssl;
    for (int i = 0; i <= MAX_CHAIN; i++) {
        openssl->ERR_clear_error();
        X509 *certificate = openssl->PEM_read_bio_X509(bio, NULL, NULL, NULL);
        if (certificate == NULL && i > 0 && has_ended(openssl))
            return true;
        if (certificate == NULL && has_ended(openssl)) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "the certificate file %s has no certificate: it must be a PEM file, with "
                        "lines BEGIN CERTIFICATE",
                        path);
            return false;
        }
        bool ok = certificate != NULL && add_certificate(keys, certificate, i == 0);
        openssl->X509_free(certificate);
        if (!ok)
            return set_invalid(openssl, "the certificate file", path, error);
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "the certificate file %s has more than %d certificates", path, MAX_CHAIN);
    return false;
}

static bool
load_certificates(const IpbTlsKeys *keys, const char *path, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_file_read(path, MAX_FILE, &text, &size, error)) {
        g_prefix_error(error, "the certificate file: ");
        return false;
    }
    BIO *bio = keys->openssl->BIO_new_mem_buf(text, (int) size);
    bool ok = bio != NULL && read_certificates(keys, bio, path, error);
    keys->openssl->BIO_free(bio);
    return ok;
}

/* A group that root chose is that of certificates, such as Debian's ssl-cert. */
static bool
check_readers(const struct stat *status, const char *path, GError **error)
{
    mode_t wrong = status->st_uid == 0 ? 037 : 077;
    if ((status->st_mode & wrong) == 0)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                "other users can read or change the key file %s: run chmod 600 on it", path);
    return false;
}

static bool
read_key(const char *path, char **ret_text, size_t *ret_size, GError **error)
{
    struct stat status;
    ipb_autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) < 0)
        return ipb_error_set_errno(error, errno, "cannot read the key file %s", path);
    return check_readers(&status, path, error) &&
           ipb_file_read_fd(fd, path, MAX_FILE, ret_text, ret_size, error);
}

/* Without this, OpenSSL would ask at the terminal. */
static int
give_no_passphrase(char *buffer, int size, int is_writing, void *data)
{
    bool *is_asked = data;
    *is_asked = true;
    return -1;
}

static bool
use_key(const IpbTlsKeys *keys, char *text, size_t size, const char *path, GError **error)
{
    const IpbOpenssl *openssl = keys->openssl;
    bool is_encrypted = false;
    openssl->ERR_clear_error();
    BIO *bio = openssl->BIO_new_mem_buf(text, (int) size);
    EVP_PKEY *key =
        bio != NULL ? openssl->PEM_read_bio_PrivateKey(bio, NULL, give_no_passphrase, &is_encrypted)
                    : NULL;
    openssl->BIO_free(bio);
    bool ok = key != NULL && openssl->SSL_CTX_use_PrivateKey(keys->context, key) == 1;
    openssl->EVP_PKEY_free(key);
    if (is_encrypted)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the key file %s has a passphrase: give a file without one (openssl pkey)",
                    path);
    else if (key == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the key file %s has no key that OpenSSL can read: it must be a PEM file, with "
                    "lines BEGIN PRIVATE "
                    "KEY",
                    path);
    else if (!ok)
        set_invalid(openssl, "the key file", path, error);
    return ok;
}

static bool
load_key(const IpbTlsKeys *keys, const char *path, GError **error)
{
    char *text = NULL;
    size_t size = 0;
    if (!read_key(path, &text, &size, error))
        return false;
    bool ok = use_key(keys, text, size, path, error);
    explicit_bzero(text, size);
    g_free(text);
    return ok;
}

/* @data: a list of names, each after its size. A client that names other protocols only is refused,
 * so that nothing that was meant for them is taken for HTTP. */
static int
select_protocol(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_size,
                const unsigned char *data, unsigned size, void *unused)
{
    for (unsigned at = 0; at < size && data[at] < size - at; at += 1u + data[at])
        if (data[at] == sizeof PROTOCOL && memcmp(data + at + 1, PROTOCOL, sizeof PROTOCOL) == 0) {
            *ret_name = data + at + 1;
            *ret_size = sizeof PROTOCOL;
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool
set_up_context(IpbTlsKeys *keys, GError **error)
{
    const IpbOpenssl *openssl = keys->openssl;
    openssl->ERR_clear_error();
    keys->context = openssl->SSL_CTX_new(openssl->TLS_server_method());
    if (keys->context == NULL ||
        openssl->SSL_CTX_ctrl(keys->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION,
                              NULL) != 1 ||
        openssl->SSL_CTX_set_cipher_list(keys->context, CIPHERS) != 1 ||
        openssl->SSL_CTX_set_num_tickets(keys->context, 0) != 1) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "OpenSSL cannot serve TLS: %s",
                    describe(openssl));
        return false;
    }
    openssl->SSL_CTX_set_options(keys->context, OPTIONS);
    openssl->SSL_CTX_ctrl(keys->context, SSL_CTRL_MODE, MODES, NULL);
    /* One read handles one record: messages that bring no data must not keep the loop. */
    openssl->SSL_CTX_ctrl(keys->context, SSL_CTRL_CLEAR_MODE, SSL_MODE_AUTO_RETRY, NULL);
    openssl->SSL_CTX_ctrl(keys->context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    openssl->SSL_CTX_set_alpn_select_cb(keys->context, select_protocol, NULL);
    return true;
}

IpbTlsKeys *
ipb_tls_keys_load(const char *certificate, const char *key, GError **error)
{
    g_autoptr(IpbTlsKeys) keys = g_rc_box_new0(IpbTlsKeys);
    keys->openssl = ipb_openssl_load(error);
    if (keys->openssl == NULL || !set_up_context(keys, error) ||
        !load_certificates(keys, certificate, error) || !load_key(keys, key, error))
        return NULL;
    return g_steal_pointer(&keys);
}

IpbTlsKeys *
ipb_tls_keys_ref(IpbTlsKeys *keys)
{
    return g_rc_box_acquire(keys);
}

static void
clear_keys(void *data)
{
    IpbTlsKeys *keys = data;
    if (keys->context != NULL)
        keys->openssl->SSL_CTX_free(keys->context);
    g_free(keys->openssl);
}

void
ipb_tls_keys_unref(IpbTlsKeys *keys)
{
    if (keys != NULL)
        g_rc_box_release_full(keys, clear_keys);
}

/* --- a connection ----------------------------------------------------------------------------- */

IpbTls *
ipb_tls_new(IpbTlsKeys *keys, int fd)
{
    SSL *ssl = keys->openssl->SSL_new(keys->context);
    if (ssl == NULL || keys->openssl->SSL_set_fd(ssl, fd) != 1) {
        keys->openssl->SSL_free(ssl);
        return NULL;
    }
    IpbTls *tls = g_new0(IpbTls, 1);
    *tls = (IpbTls){.keys = ipb_tls_keys_ref(keys), .ssl = ssl, .fd = fd};
    return tls;
}

void
ipb_tls_free(IpbTls *tls)
{
    if (tls == NULL)
        return;
    tls->keys->openssl->SSL_free(tls->ssl);
    ipb_tls_keys_unref(tls->keys);
    g_free(tls);
}

/* What the result of a call means, if it is not a success. */
static IpbTlsStep
explain(const IpbTls *tls, int result)
{
    switch (tls->keys->openssl->SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return IPB_TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        return IPB_TLS_WANTS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return IPB_TLS_DONE;
    default:
        return IPB_TLS_FAILED;
    }
}

/* Looks at the first byte. */
static IpbTlsStep
begin(IpbTls *tls)
{
    unsigned char byte;
    ssize_t n = recv(tls->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return IPB_TLS_WANTS_READ;
    if (n == 1 && g_ascii_isupper((char) byte))
        return IPB_TLS_PLAIN_TEXT;
    tls->is_begun = n == 1 && byte == HANDSHAKE_RECORD;
    return tls->is_begun ? IPB_TLS_DONE : IPB_TLS_FAILED;
}

IpbTlsStep
ipb_tls_handshake(IpbTls *tls)
{
    IpbTlsStep step = tls->is_begun ? IPB_TLS_DONE : begin(tls);
    if (step != IPB_TLS_DONE)
        return step;
    tls->keys->openssl->ERR_clear_error();
    int result = tls->keys->openssl->SSL_accept(tls->ssl);
    if (result == 1)
        return IPB_TLS_DONE;
    step = explain(tls, result);
    return step == IPB_TLS_DONE ? IPB_TLS_FAILED : step;
}

static ssize_t
set_broken(IpbTls *tls)
{
    tls->is_broken = true;
    errno = EPROTO;
    return -1;
}

ssize_t
ipb_tls_read(IpbTls *tls, void *bytes, size_t size)
{
    size_t n = 0;
    g_return_val_if_fail(size >= IPB_TLS_MAX_RECORD, -1);
    if (tls->is_broken)
        return set_broken(tls);
    for (int i = 0; i < MAX_RECORDS && size - n >= IPB_TLS_MAX_RECORD; i++) {
        tls->keys->openssl->ERR_clear_error();
        int result = tls->keys->openssl->SSL_read(tls->ssl, (char *) bytes + n,
                                                  (int) MIN(size - n, INT_MAX));
        if (result > 0) {
            n += (size_t) result;
            continue;
        }
        IpbTlsStep step = explain(tls, result);
        /* The end and a fault are reported by the next call if there are bytes now. */
        if (n > 0) {
            tls->is_broken = step == IPB_TLS_FAILED || step == IPB_TLS_WANTS_WRITE;
            break;
        }
        if (step == IPB_TLS_DONE)
            return 0;
        if (step != IPB_TLS_WANTS_READ)
            return set_broken(tls);
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t) n;
}

ssize_t
ipb_tls_write(IpbTls *tls, const void *bytes, size_t size)
{
    size_t n = 0;
    if (tls->is_broken)
        return set_broken(tls);
    for (int i = 0; i < MAX_RECORDS && n < size; i++) {
        tls->keys->openssl->ERR_clear_error();
        int result = tls->keys->openssl->SSL_write(tls->ssl, (const char *) bytes + n,
                                                   (int) MIN(size - n, INT_MAX));
        if (result > 0) {
            n += (size_t) result;
            continue;
        }
        if (explain(tls, result) != IPB_TLS_WANTS_WRITE)
            return set_broken(tls);
        if (n > 0)
            break;
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t) n;
}

IpbTlsStep
ipb_tls_finish(IpbTls *tls)
{
    if (tls->is_broken || !tls->is_begun)
        return IPB_TLS_FAILED;
    tls->keys->openssl->ERR_clear_error();
    int result = tls->keys->openssl->SSL_shutdown(tls->ssl);
    /* 0: sent, and the peer has not answered, which we do not wait for. */
    IpbTlsStep step = result >= 0 ? IPB_TLS_DONE : explain(tls, result);
    tls->is_broken = step == IPB_TLS_FAILED;
    return step == IPB_TLS_WANTS_READ ? IPB_TLS_DONE : step;
}

void
ipb_tls_turn_away(int fd)
{
    /* An alert: fatal, internal_error. */
    static const unsigned char ALERT[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x50};
    send(fd, ALERT, sizeof ALERT, MSG_NOSIGNAL | MSG_DONTWAIT);
}
