/* SPDX-License-Identifier: Apache-2.0
 *
 * The SOCKS 5 proxy inside a sandbox (RFC 1928): CONNECT without authentication, to names and
 * addresses. Other commands and methods are refused.
 *
 * The messages come from a hostile peer. The functions that parse and write them are pure and
 * allocate nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/connection.h"

extern const IpbProtocol IPB_SOCKS;

/* Messages */

#define IPB_SOCKS_MAX_GREETING 257
#define IPB_SOCKS_MAX_REQUEST 262
#define IPB_SOCKS_REPLY_SIZE 10

typedef enum {
    IPB_SOCKS_SUCCEEDED = 0,
    IPB_SOCKS_FAILED = 1,
    IPB_SOCKS_NOT_ALLOWED = 2,
    IPB_SOCKS_NETWORK_UNREACHABLE = 3,
    IPB_SOCKS_HOST_UNREACHABLE = 4,
    IPB_SOCKS_REFUSED = 5,
    IPB_SOCKS_TIMED_OUT = 6,
    IPB_SOCKS_COMMAND_UNKNOWN = 7,
    IPB_SOCKS_ADDRESS_UNKNOWN = 8,
} IpbSocksCode;

typedef enum {
    IPB_SOCKS_PARTIAL, /* more bytes are needed */
    IPB_SOCKS_WHOLE,
    IPB_SOCKS_BAD, /* not SOCKS 5, or not supported here */
} IpbSocksState;

typedef struct {
    IpbDestination destination;
    size_t size;       /* of the message */
    IpbSocksCode code; /* for BAD: what to reply */
} IpbSocksRequest;

/* @ret_size: the size of the greeting, for WHOLE. For BAD the reply is "no acceptable methods". */
IpbSocksState ipb_socks_greeting_parse(const uint8_t *bytes, size_t size, size_t *ret_size);
IpbSocksState ipb_socks_request_parse(const uint8_t *bytes, size_t size,
                                      IpbSocksRequest *ret_request);
void ipb_socks_reply_write(IpbSocksCode code, uint8_t ret_reply[IPB_SOCKS_REPLY_SIZE]);
