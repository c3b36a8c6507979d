/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of SOCKS 5 (RFC 1928), from a hostile peer: a greeting that offers "no authentication", and a
 * request. Nothing else is understood.
 *
 * Pure: no input, no output, no allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/rules.h"

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
    IPB_SOCKS_PARTIAL,
    IPB_SOCKS_WHOLE,
    IPB_SOCKS_BAD, /* no SOCKS 5, or nothing that is offered here */
} IpbSocksState;

typedef struct {
    IpbDestination destination;
    size_t size;       /* of the message */
    IpbSocksCode code; /* of BAD: what to reply */
} IpbSocksRequest;

/* @ret_size: of the greeting, if WHOLE. BAD: the reply is "no acceptable method", if it was SOCKS 5 at all. */
IpbSocksState ipb_socks_greeting_parse(const uint8_t *bytes, size_t size, size_t *ret_size);
IpbSocksState ipb_socks_request_parse(const uint8_t *bytes, size_t size,
                                      IpbSocksRequest *ret_request);
void ipb_socks_reply_write(IpbSocksCode code, uint8_t ret_reply[IPB_SOCKS_REPLY_SIZE]);
