/* SPDX-License-Identifier: Apache-2.0
 *
 * The SOCKS 5 proxy; see the header. A refusal in SOCKS is one byte. If the policy has a reason for
 * the denial, an SSH client gets it the way a server would send it: connected, then disconnected
 * with a reason.
 */
#include "egress/socks.h"

#include <string.h>

#include "base/error.h"
#include "egress/inspect.h"

#define VERSION 5
#define METHOD_NONE 0
#define COMMAND_CONNECT 1
#define ADDRESS_IPV4 1
#define ADDRESS_NAME 3
#define ADDRESS_IPV6 4
/* version, command, reserved, address type */
#define REQUEST_HEADER_SIZE 4

#define SSH_PORT 22
#define SSH_DISCONNECT 1
#define SSH_NOT_ALLOWED 1 /* SSH_DISCONNECT_HOST_NOT_ALLOWED_TO_CONNECT */
#define SSH_BLOCK 8
#define SSH_MIN_PADDING 4
#define MAX_SSH_REASON 400

/* Messages */

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

/* The size of the address in bytes, including the length in front of a name; 0: more bytes are
 * needed to know it. */
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

/* False: the name is not a host name. */
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
    /* The address that we dial from is not disclosed: 0.0.0.0:0. */
    memset(ret_reply, 0, IPB_SOCKS_REPLY_SIZE);
    ret_reply[0] = VERSION;
    ret_reply[1] = (uint8_t) code;
    ret_reply[3] = ADDRESS_IPV4;
}

/* The protocol */

static void
finish(IpbConnection *connection, IpbSocksCode code)
{
    uint8_t reply[IPB_SOCKS_REPLY_SIZE];
    ipb_socks_reply_write(code, reply);
    ipb_connection_finish(connection, reply, sizeof reply);
}

static void
take_request(IpbConnection *connection)
{
    IpbBuffer *input = ipb_connection_input(connection);
    IpbSocksRequest request;
    switch (ipb_socks_request_parse(ipb_buffer_data(input), ipb_buffer_size(input), &request)) {
    case IPB_SOCKS_WHOLE:
        ipb_buffer_consume(input, request.size);
        ipb_connection_open(connection, &request.destination,
                            ipb_inspect_is_http(&request.destination));
        return;
    case IPB_SOCKS_BAD:
        finish(connection, request.code);
        return;
    case IPB_SOCKS_PARTIAL:
    default:
        return;
    }
}

static void
on_input(IpbConnection *connection)
{
    static const uint8_t NO_AUTHENTICATION[] = {5, 0}, NO_METHOD[] = {5, 0xff};
    IpbBuffer *input = ipb_connection_input(connection);
    size_t *messages = ipb_connection_progress(connection);
    size_t size;
    if (*messages > 0) {
        take_request(connection);
        return;
    }
    switch (ipb_socks_greeting_parse(ipb_buffer_data(input), ipb_buffer_size(input), &size)) {
    case IPB_SOCKS_WHOLE:
        ipb_buffer_consume(input, size);
        *messages = 1;
        if (ipb_connection_send(connection, NO_AUTHENTICATION, sizeof NO_AUTHENTICATION))
            take_request(connection);
        return;
    case IPB_SOCKS_BAD:
        ipb_connection_finish(connection, NO_METHOD, sizeof NO_METHOD);
        return;
    case IPB_SOCKS_PARTIAL:
    default:
        return;
    }
}

static void
on_open(IpbConnection *connection)
{
    uint8_t reply[IPB_SOCKS_REPLY_SIZE];
    ipb_socks_reply_write(IPB_SOCKS_SUCCEEDED, reply);
    if (ipb_connection_send(connection, reply, sizeof reply))
        ipb_inspect_tunnel(connection);
}

static IpbSocksCode
code_of(const GError *error)
{
    if (error->domain != IPYBOX_ERROR)
        return IPB_SOCKS_FAILED;
    switch (error->code) {
    case IPYBOX_ERROR_REFUSED:
        return IPB_SOCKS_NOT_ALLOWED;
    case IPYBOX_ERROR_TIMEOUT:
        return IPB_SOCKS_TIMED_OUT;
    case IPYBOX_ERROR_UNAVAILABLE:
        return IPB_SOCKS_REFUSED;
    default:
        return IPB_SOCKS_HOST_UNREACHABLE;
    }
}

/* Refusals for SSH */

static void
append_number(GByteArray *out, uint32_t number)
{
    uint32_t wire = GUINT32_TO_BE(number);
    g_byte_array_append(out, (const guint8 *) &wire, sizeof wire);
}

static void
append_string(GByteArray *out, const char *text)
{
    append_number(out, (uint32_t) strlen(text));
    g_byte_array_append(out, (const guint8 *) text, (guint) strlen(text));
}

/* The banner of a server and SSH_MSG_DISCONNECT before any key exchange: RFC 4253, sections 4.2,
 * 6 and 11.1. */
static GByteArray *
make_ssh_refusal(const char *reason)
{
    static const char BANNER[] = "SSH-2.0-ipybox\r\n";
    static const guint8 PADDING[SSH_MIN_PADDING + SSH_BLOCK] = {0};
    g_autofree char *shown = g_strndup(reason, MAX_SSH_REASON);
    g_autoptr(GByteArray) payload = g_byte_array_new();
    const guint8 message = SSH_DISCONNECT;
    g_byte_array_append(payload, &message, 1);
    append_number(payload, SSH_NOT_ALLOWED);
    append_string(payload, shown);
    append_string(payload, "");
    /* The size of the packet, including its two length fields, is a multiple of the block size. */
    guint8 padding = SSH_MIN_PADDING;
    while ((4 + 1 + payload->len + padding) % SSH_BLOCK != 0)
        padding++;
    GByteArray *out = g_byte_array_new();
    g_byte_array_append(out, (const guint8 *) BANNER, (guint) strlen(BANNER));
    append_number(out, 1 + payload->len + padding);
    g_byte_array_append(out, &padding, 1);
    g_byte_array_append(out, payload->data, payload->len);
    g_byte_array_append(out, PADDING, padding);
    return out;
}

static void
refuse_ssh(IpbConnection *connection, const char *reason)
{
    g_autoptr(GByteArray) refusal = make_ssh_refusal(reason);
    uint8_t reply[IPB_SOCKS_REPLY_SIZE];
    ipb_socks_reply_write(IPB_SOCKS_SUCCEEDED, reply);
    g_byte_array_prepend(refusal, reply, sizeof reply);
    ipb_connection_finish(connection, refusal->data, refusal->len);
}

static void
on_failure(IpbConnection *connection, const GError *error)
{
    const IpbDestination *destination = ipb_connection_destination(connection);
    const char *reason =
        ipb_domain_rules_denial_reason(ipb_connection_context(connection)->rules, destination);
    if (reason != NULL && destination->port == SSH_PORT)
        refuse_ssh(connection, reason);
    else
        finish(connection, code_of(error));
}

const IpbProtocol IPB_SOCKS = {
    .on_input = on_input,
    .on_open = on_open,
    .on_failure = on_failure,
    .max_input = IPB_INSPECT_MAX_INPUT,
};
