/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the first message of TLS, from a hostile peer: is it a ClientHello, and which server name
 * (SNI) does it ask for? The message may arrive in pieces, and in several records. Nothing is
 * decrypted or changed: a caller that allows the connection forwards exactly the bytes that were
 * parsed.
 *
 * With Encrypted ClientHello, the real name is hidden. The result is then the outer name, which is
 * the one that every server on the way sees.
 *
 * Pure: no input, no output, no allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a client may send until its ClientHello is complete, including record headers. Real ones,
 * with post-quantum keys and session tickets, have 2 to 4 KiB. */
#define IPB_CLIENT_HELLO_MAX_INPUT (24 * 1024)
#define IPB_CLIENT_HELLO_MAX_NAME 255

typedef enum {
    IPB_CLIENT_HELLO_PARTIAL, /* more bytes are needed */
    IPB_CLIENT_HELLO_WHOLE,
    IPB_CLIENT_HELLO_BAD, /* not TLS, or malformed */
} IpbClientHelloState;

typedef struct {
    bool has_server_name;
    char server_name[IPB_CLIENT_HELLO_MAX_NAME + 1]; /* as sent: any visible ASCII characters */
    const char *reason;                              /* for BAD: one clause, static */
} IpbClientHello;

IpbClientHelloState ipb_client_hello_parse(const uint8_t *bytes, size_t size,
                                           IpbClientHello *ret_hello);
