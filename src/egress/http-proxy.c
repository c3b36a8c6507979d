/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP proxy; see the header. A request that is passed on is the connection's only one, so each is checked: the server is told to
 * close, and what the client sends after its request is not read.
 */
#include "egress/http-proxy.h"

#include <string.h>

#include "egress/http-reply.h"
#include "egress/http-request.h"
#include "egress/inspect.h"

static bool
parse_request(IpbConnection *connection, IpbHttpHead *ret_head, IpbHttpRequest *ret_request)
{
    const IpbBuffer *input = ipb_connection_input(connection);
    size_t scanned = 0;
    const char *reason;
    return ipb_http_head_parse_proxied((const char *) ipb_buffer_data(input),
                                       ipb_buffer_size(input), &scanned,
                                       ret_head) == IPB_HTTP_HEAD_WHOLE &&
           ipb_http_request_parse(ret_head, ret_request, &reason);
}

static void
on_input(IpbConnection *connection)
{
    const IpbBuffer *input = ipb_connection_input(connection);
    IpbHttpHead head;
    IpbHttpRequest request;
    const char *reason;
    switch (ipb_http_head_parse_proxied((const char *) ipb_buffer_data(input),
                                        ipb_buffer_size(input), ipb_connection_progress(connection),
                                        &head)) {
    case IPB_HTTP_HEAD_WHOLE:
        if (ipb_http_request_parse(&head, &request, &reason))
            ipb_connection_open(connection, &request.destination,
                                !request.is_connect || ipb_inspect_is_http(&request.destination));
        else
            ipb_http_reply_bad(connection, 400, reason);
        return;
    case IPB_HTTP_HEAD_BAD:
        ipb_http_reply_bad(connection, head.status, head.reason);
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
    IpbHttpRequest request;
    if (!parse_request(connection, &head, &request)) {
        ipb_connection_close(connection); /* cannot be: it was parsed before */
        return;
    }
    if (!request.is_connect) {
        ipb_inspect_relay_request(connection, &head, &request);
        return;
    }
    ipb_buffer_consume(ipb_connection_input(connection), head.size);
    if (ipb_connection_send(connection, ESTABLISHED, strlen(ESTABLISHED)))
        ipb_inspect_tunnel(connection);
}

static void
on_failure(IpbConnection *connection, const GError *error)
{
    ipb_http_reply_failure(connection, ipb_connection_destination(connection), error);
}

const IpbProtocol IPB_HTTP_PROXY = {
    .on_input = on_input,
    .on_open = on_open,
    .on_failure = on_failure,
    .max_input = IPB_INSPECT_MAX_INPUT,
};
