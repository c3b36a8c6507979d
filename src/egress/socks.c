/* SPDX-License-Identifier: Apache-2.0
 *
 * The SOCKS 5 proxy; see the header. Its refusals are one byte, so an SSH client, for which the policy has words, is told them as a
 * server would: connected, and disconnected with a reason.
 */
#include "egress/socks.h"

#include <string.h>

#include "base/error.h"
#include "egress/inspect.h"
#include "egress/socks-message.h"

#define SSH_PORT 22
#define SSH_DISCONNECT 1
#define SSH_NOT_ALLOWED 1 /* SSH_DISCONNECT_HOST_NOT_ALLOWED_TO_CONNECT */
#define SSH_BLOCK 8
#define SSH_MIN_PADDING 4
#define MAX_SSH_REASON 400

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

/* A server's first words and SSH_MSG_DISCONNECT before any key exchange: RFC 4253, sections 4.2, 6 and 11.1. */
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
    /* The whole packet, with its length and the padding's, is a multiple of the block. */
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
        ipb_rules_denial_reason(ipb_connection_context(connection)->rules, destination);
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
