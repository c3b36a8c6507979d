/* SPDX-License-Identifier: Apache-2.0
 *
 * Inspection of streams; see the header. What was inspected is what is forwarded: the bytes of a
 * ClientHello are forwarded unchanged, and the head of a request is written again from its parsed
 * form.
 */
#include "egress/inspect.h"

#include <string.h>

#include "base/error.h"
#include "egress/client-hello.h"
#include "egress/http-forward.h"

#define TLS_PORT 443
#define HTTP_PORT 80

G_STATIC_ASSERT(IPB_INSPECT_MAX_INPUT > IPB_CLIENT_HELLO_MAX_INPUT);
G_STATIC_ASSERT(IPB_INSPECT_MAX_INPUT > IPB_HTTP_MAX_HEAD);

static const char SSH_BANNER[] = "SSH-2.0-";

/* Fatal alerts: a TLS client ends at once, with a better message than "connection closed". RFC
 * 8446, section 6. */
#define ALERT_ACCESS_DENIED 49
#define ALERT_INTERNAL_ERROR 80

static void
finish_with_alert(IpbConnection *connection, uint8_t description)
{
    const uint8_t alert[] = {21, 3, 3, 0, 2, 2, description};
    ipb_connection_finish(connection, alert, sizeof alert);
}

bool
ipb_inspect_find_destination(IpbConnection *connection, IpbDestination *ret_destination)
{
    if (ipb_connection_is_open(connection)) {
        *ret_destination = *ipb_connection_destination(connection);
        return true;
    }
    if (!ipb_connection_local(connection, ret_destination))
        return false;
    IpbHost address = ret_destination->host;
    if (ipb_synthetic_addresses_is_in_range(&address) &&
        !ipb_synthetic_addresses_look_up(ipb_connection_context(connection)->addresses, &address,
                                         &ret_destination->host))
        ret_destination->host = address; /* ipb_connection_open refuses it */
    return true;
}

void
ipb_inspect_finish_tls(IpbConnection *connection)
{
    finish_with_alert(connection, ALERT_ACCESS_DENIED);
}

/* TLS */

static void
relay_all(IpbConnection *connection)
{
    ipb_connection_relay(connection, IPB_RELAY_ALL, NULL, NULL, 0);
}

static void
refuse_tls(IpbConnection *connection, const IpbDestination *destination, const char *reason)
{
    ipb_connection_report(connection, destination, reason);
    finish_with_alert(connection, ALERT_ACCESS_DENIED);
}

/* Does the server name of the ClientHello agree with the destination? */
static bool
check_server_name(IpbConnection *connection, const IpbDestination *destination,
                  const IpbClientHello *hello, char **ret_reason)
{
    IpbDestination named = {.port = destination->port};
    const char *why;
    if (!hello->has_server_name) {
        /* A client that connects to an address has no name to send. */
        if (destination->host.kind != IPB_HOST_NAME)
            return true;
        *ret_reason = g_strdup("the TLS client does not say which server it wants (no SNI)");
        return false;
    }
    if (!ipb_hostname_parse(hello->server_name, strlen(hello->server_name), &named.host, &why)) {
        *ret_reason =
            g_strdup_printf("the server name of the TLS client is not a host name: %s", why);
        return false;
    }
    return ipb_connection_agrees(connection, destination, &named, ret_reason);
}

/* Does the input begin with the banner of SSH, as far as it has arrived? */
static bool
may_be_ssh(const IpbBuffer *input)
{
    size_t size = MIN(ipb_buffer_size(input), strlen(SSH_BANNER));
    return size > 0 && memcmp(ipb_buffer_data(input), SSH_BANNER, size) == 0;
}

static void
accept_stream(IpbConnection *connection, const IpbDestination *destination)
{
    if (ipb_connection_is_open(connection))
        relay_all(connection);
    else
        ipb_connection_open(connection, destination, /* is_http= */ false);
}

static void
take_hello(IpbConnection *connection, const IpbClientHello *hello)
{
    IpbDestination destination;
    g_autofree char *reason = NULL;
    if (!ipb_inspect_find_destination(connection, &destination))
        ipb_connection_close(connection);
    else if (!check_server_name(connection, &destination, hello, &reason))
        refuse_tls(connection, &destination, reason);
    else
        accept_stream(connection, &destination);
}

static void
refuse_stream(IpbConnection *connection, const char *why)
{
    IpbDestination destination;
    g_autofree char *reason = g_strdup_printf("on port 443 only TLS is allowed: %s", why);
    if (!ipb_inspect_find_destination(connection, &destination))
        ipb_connection_close(connection);
    else
        refuse_tls(connection, &destination, reason);
}

static void
on_tls_input(IpbConnection *connection)
{
    IpbBuffer *input = ipb_connection_input(connection);
    size_t size = ipb_buffer_size(input);
    IpbClientHello hello;
    if (size == 0)
        return;
    if (may_be_ssh(input)) {
        IpbDestination destination;
        if (size < strlen(SSH_BANNER))
            return;
        if (ipb_inspect_find_destination(connection, &destination))
            accept_stream(connection, &destination);
        else
            ipb_connection_close(connection);
        return;
    }
    switch (ipb_client_hello_parse(ipb_buffer_data(input), size, &hello)) {
    case IPB_CLIENT_HELLO_WHOLE:
        take_hello(connection, &hello);
        return;
    case IPB_CLIENT_HELLO_BAD:
        refuse_stream(connection, hello.reason);
        return;
    case IPB_CLIENT_HELLO_PARTIAL:
    default:
        return;
    }
}

/* A denial was reported before. */
static void
on_tls_failure(IpbConnection *connection, const GError *error)
{
    bool is_denied = g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED);
    finish_with_alert(connection, is_denied ? ALERT_ACCESS_DENIED : ALERT_INTERNAL_ERROR);
}

const IpbProtocol IPB_INSPECT_TLS = {
    .on_input = on_tls_input,
    .on_open = relay_all,
    .on_failure = on_tls_failure,
    .max_input = IPB_INSPECT_MAX_INPUT,
};

/* HTTP */

/* Parses the head in the input, which is known to be complete. */
static bool
parse_request(IpbConnection *connection, const IpbDestination *destination, IpbHttpHead *ret_head,
              IpbHttpForward *ret_request, const char **ret_reason)
{
    const IpbBuffer *input = ipb_connection_input(connection);
    size_t scanned = 0;
    return ipb_http_head_parse_proxied((const char *) ipb_buffer_data(input),
                                       ipb_buffer_size(input), &scanned,
                                       ret_head) == IPB_HTTP_HEAD_WHOLE &&
           ipb_http_forward_parse_origin(ret_head, destination, ret_request, ret_reason);
}

static void
forward_request(IpbConnection *connection)
{
    IpbHttpHead head;
    IpbHttpForward request;
    const char *reason;
    if (parse_request(connection, ipb_connection_destination(connection), &head, &request, &reason))
        ipb_http_forward_relay(connection, &head, &request);
    else
        ipb_connection_close(connection); /* impossible: nothing has changed since it was checked */
}

static void
take_head(IpbConnection *connection)
{
    IpbDestination destination;
    IpbHttpHead head;
    IpbHttpForward request;
    const char *why;
    g_autofree char *reason = NULL;
    if (!ipb_inspect_find_destination(connection, &destination)) {
        ipb_connection_close(connection);
    } else if (!parse_request(connection, &destination, &head, &request, &why)) {
        ipb_http_forward_reply_bad_request(connection, 400, why);
    } else if (!ipb_connection_agrees(connection, &destination, &request.host, &reason)) {
        g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_REFUSED, reason);
        ipb_connection_report(connection, &destination, reason);
        ipb_http_forward_reply_failure(connection, &destination, error);
    } else if (ipb_connection_is_open(connection)) {
        forward_request(connection);
    } else {
        ipb_connection_open(connection, &destination, /* is_http= */ true);
    }
}

static void
on_http_input(IpbConnection *connection)
{
    const IpbBuffer *input = ipb_connection_input(connection);
    IpbHttpHead head;
    if (ipb_buffer_size(input) == 0)
        return;
    switch (ipb_http_head_parse_proxied((const char *) ipb_buffer_data(input),
                                        ipb_buffer_size(input), ipb_connection_progress(connection),
                                        &head)) {
    case IPB_HTTP_HEAD_WHOLE:
        take_head(connection);
        return;
    case IPB_HTTP_HEAD_BAD:
        ipb_http_forward_reply_bad_request(connection, head.status, head.reason);
        return;
    case IPB_HTTP_HEAD_PARTIAL:
    default:
        return;
    }
}

static void
on_http_failure(IpbConnection *connection, const GError *error)
{
    ipb_http_forward_reply_failure(connection, ipb_connection_destination(connection), error);
}

const IpbProtocol IPB_INSPECT_HTTP = {
    .on_input = on_http_input,
    .on_open = forward_request,
    .on_failure = on_http_failure,
    .max_input = IPB_INSPECT_MAX_INPUT,
};

/* Tunnels */

bool
ipb_inspect_is_http(const IpbDestination *destination)
{
    return destination->port == HTTP_PORT;
}

void
ipb_inspect_tunnel(IpbConnection *connection)
{
    switch (ipb_connection_destination(connection)->port) {
    case TLS_PORT:
        ipb_connection_become(connection, &IPB_INSPECT_TLS);
        return;
    case HTTP_PORT:
        ipb_connection_become(connection, &IPB_INSPECT_HTTP);
        return;
    default:
        relay_all(connection);
    }
}
