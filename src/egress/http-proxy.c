/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP proxy; see the header. A forwarded request is the only one of its connection, so each
 * request is checked: the server is asked to close the connection, and what the client sends after
 * its request is not read.
 */
#include "egress/http-proxy.h"

#include <string.h>

#include "egress/http-forward.h"
#include "egress/inspect.h"

static bool
parse_request(IpbConnection *connection, IpbHttpHead *ret_head, IpbHttpForward *ret_request)
{
    const IpbBuffer *input = ipb_connection_input(connection);
    size_t scanned = 0;
    const char *reason;
    return ipb_http_head_parse_proxied((const char *) ipb_buffer_data(input),
                                       ipb_buffer_size(input), &scanned,
                                       ret_head) == IPB_HTTP_HEAD_WHOLE &&
           ipb_http_forward_parse_proxy(ret_head, ret_request, &reason);
}

static void
on_input(IpbConnection *connection)
{
    const IpbBuffer *input = ipb_connection_input(connection);
    IpbHttpHead head;
    IpbHttpForward request;
    const char *reason;
    switch (ipb_http_head_parse_proxied((const char *) ipb_buffer_data(input),
                                        ipb_buffer_size(input), ipb_connection_progress(connection),
                                        &head)) {
    case IPB_HTTP_HEAD_WHOLE:
        if (ipb_http_forward_parse_proxy(&head, &request, &reason))
            ipb_connection_open(connection, &request.destination,
                                !request.is_connect || ipb_inspect_is_http(&request.destination));
        else
            ipb_http_forward_reply_bad_request(connection, 400, reason);
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
on_open(IpbConnection *connection)
{
    static const char ESTABLISHED[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    IpbHttpHead head;
    IpbHttpForward request;
    if (!parse_request(connection, &head, &request)) {
        ipb_connection_close(connection); /* impossible: it was parsed before */
        return;
    }
    if (!request.is_connect) {
        ipb_http_forward_relay(connection, &head, &request);
        return;
    }
    ipb_buffer_consume(ipb_connection_input(connection), head.size);
    if (ipb_connection_send(connection, ESTABLISHED, strlen(ESTABLISHED)))
        ipb_inspect_tunnel(connection);
}

static void
on_failure(IpbConnection *connection, const GError *error)
{
    ipb_http_forward_reply_failure(connection, ipb_connection_destination(connection), error);
}

const IpbProtocol IPB_HTTP_PROXY = {
    .on_input = on_input,
    .on_open = on_open,
    .on_failure = on_failure,
    .max_input = IPB_INSPECT_MAX_INPUT,
};
