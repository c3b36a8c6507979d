/* SPDX-License-Identifier: Apache-2.0
 *
 * SOCKS 5; see the header.
 */
#include "egress/socks-message.h"

#include <string.h>

#include <glib.h>

#define VERSION 5
#define METHOD_NONE 0
#define COMMAND_CONNECT 1
#define ADDRESS_IPV4 1
#define ADDRESS_NAME 3
#define ADDRESS_IPV6 4
/* version, command, reserved, kind of address */
#define REQUEST_HEADER_SIZE 4

IpbSocksState
ipb_socks_greeting_parse(const uint8_t *bytes, size_t size, size_t *ret_size)
{
    if (size > 0 && bytes[0] != VERSION)
        return IPB_SOCKS_BAD;
    if (size < 2 || size < 2 + (size_t) bytes[1])
        return IPB_SOCKS_PARTIAL;
    *ret_size = 2 + (size_t) bytes[1];
    return memchr(bytes + 2, METHOD_NONE, bytes[1]) != NULL ? IPB_SOCKS_WHOLE : IPB_SOCKS_BAD;
}

static IpbSocksState
refuse(IpbSocksRequest *request, IpbSocksCode code)
{
    request->code = code;
    return IPB_SOCKS_BAD;
}

/* How many bytes the address has, with the length in front of a name; 0: more bytes are needed to know. */
static size_t
address_size(const uint8_t *bytes, size_t size)
{
    switch (bytes[3]) {
    case ADDRESS_IPV4:
        return 4;
    case ADDRESS_IPV6:
        return 16;
    default:
        return size > REQUEST_HEADER_SIZE ? 1 + (size_t) bytes[REQUEST_HEADER_SIZE] : 0;
    }
}

/* False: a name that is none. */
static bool
take_host(const uint8_t *bytes, IpbHost *ret_host)
{
    const uint8_t *address = bytes + REQUEST_HEADER_SIZE;
    if (bytes[3] == ADDRESS_NAME)
        return ipb_hostname_parse((const char *) address + 1, address[0], ret_host, NULL);
    ipb_hostname_from_address(address, bytes[3] == ADDRESS_IPV4 ? 4 : 16, ret_host);
    return true;
}

IpbSocksState
ipb_socks_request_parse(const uint8_t *bytes, size_t size, IpbSocksRequest *ret_request)
{
    if (size > 0 && bytes[0] != VERSION)
        return refuse(ret_request, IPB_SOCKS_FAILED);
    if (size < REQUEST_HEADER_SIZE)
        return IPB_SOCKS_PARTIAL;
    if (bytes[1] != COMMAND_CONNECT)
        return refuse(ret_request, IPB_SOCKS_COMMAND_UNKNOWN);
    if (bytes[2] != 0)
        return refuse(ret_request, IPB_SOCKS_FAILED);
    if (bytes[3] != ADDRESS_IPV4 && bytes[3] != ADDRESS_NAME && bytes[3] != ADDRESS_IPV6)
        return refuse(ret_request, IPB_SOCKS_ADDRESS_UNKNOWN);
    size_t n = address_size(bytes, size);
    if (n == 0 || size < REQUEST_HEADER_SIZE + n + 2)
        return IPB_SOCKS_PARTIAL;
    const uint8_t *port = bytes + REQUEST_HEADER_SIZE + n;
    ret_request->destination.port = (unsigned) port[0] << 8 | port[1];
    ret_request->size = REQUEST_HEADER_SIZE + n + 2;
    if (ret_request->destination.port == 0 || !take_host(bytes, &ret_request->destination.host))
        return refuse(ret_request, IPB_SOCKS_NOT_ALLOWED);
    return IPB_SOCKS_WHOLE;
}

void
ipb_socks_reply_write(IpbSocksCode code, uint8_t ret_reply[IPB_SOCKS_REPLY_SIZE])
{
    /* The address that we dial from is nobody's business: 0.0.0.0:0. */
    memset(ret_reply, 0, IPB_SOCKS_REPLY_SIZE);
    ret_reply[0] = VERSION;
    ret_reply[1] = (uint8_t) code;
    ret_reply[3] = ADDRESS_IPV4;
}
