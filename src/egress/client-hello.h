/* SPDX-License-Identifier: Apache-2.0
 *
 * The first message of TLS, from a hostile peer: is it a ClientHello, and which server name (SNI) does it
 * ask for? It may come in pieces, and in several records. Nothing is decrypted and nothing is
 * changed: who lets the connection through sends on exactly the bytes that were parsed.
 *
 * With Encrypted ClientHello the name that counts is hidden; what is returned is the outer one, which
 * any server on the way sees, too.
 *
 * Pure: no input, no output, no allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a client may send, record headers included, before its ClientHello is whole. Real ones, with
 * post-quantum keys and session tickets, have 2 to 4 KiB. */
#define IPB_CLIENT_HELLO_MAX_INPUT (24 * 1024)
#define IPB_CLIENT_HELLO_MAX_NAME 255

typedef enum {
    IPB_CLIENT_HELLO_PARTIAL, /* more bytes are needed */
    IPB_CLIENT_HELLO_WHOLE,
    IPB_CLIENT_HELLO_BAD, /* no TLS, or not as it should be */
} IpbClientHelloState;

typedef struct {
    bool has_server_name;
    char server_name[IPB_CLIENT_HELLO_MAX_NAME + 1]; /* as sent: visible ASCII, else anything */
    const char *reason;                              /* of BAD: one clause, static */
} IpbClientHello;

IpbClientHelloState ipb_client_hello_parse(const uint8_t *bytes, size_t size,
                                           IpbClientHello *ret_hello);
