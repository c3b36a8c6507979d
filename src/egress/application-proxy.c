/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's own proxies; see the header.
 */
#include "egress/application-proxy.h"

#include "base/error.h"
#include "egress/http-forward.h"
#include "egress/inspect.h"

static const char PROXY_REQUIRED[] =
    "network.httpProxyPort is set: connections go through that proxy only, and the program does "
    "not use it (HTTP_PROXY, HTTPS_PROXY)";

static void
on_input(IpbConnection *connection)
{
}

static void
on_open(IpbConnection *connection)
{
    ipb_connection_relay(connection, IPB_RELAY_ALL, NULL, NULL, 0);
}

static void
on_failure(IpbConnection *connection, const GError *error)
{
    g_autofree char *reason =
        g_strdup_printf("the application's own proxy cannot be reached: %s", error->message);
    ipb_connection_report(connection, ipb_connection_destination(connection), reason);
    ipb_connection_close(connection);
}

const IpbProtocol IPB_APPLICATION_PROXY = {
    .on_input = on_input,
    .on_open = on_open,
    .on_failure = on_failure,
    .max_input = IPB_INSPECT_MAX_INPUT,
};

/* Connections that do not use the proxy */

static bool
deny(IpbConnection *connection, IpbDestination *ret_destination)
{
    if (!ipb_inspect_find_destination(connection, ret_destination)) {
        ipb_connection_close(connection);
        return false;
    }
    ipb_connection_report(connection, ret_destination, PROXY_REQUIRED);
    return true;
}

static void
on_tls_input(IpbConnection *connection)
{
    IpbDestination destination;
    if (deny(connection, &destination))
        ipb_inspect_finish_tls(connection);
}

static void
on_http_input(IpbConnection *connection)
{
    IpbDestination destination;
    g_autoptr(GError) error =
        g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_REFUSED, PROXY_REQUIRED);
    if (deny(connection, &destination))
        ipb_http_forward_reply_failure(connection, &destination, error);
}

const IpbProtocol IPB_APPLICATION_PROXY_REQUIRED_TLS = {
    .on_input = on_tls_input,
    .max_input = IPB_INSPECT_MAX_INPUT,
};

const IpbProtocol IPB_APPLICATION_PROXY_REQUIRED_HTTP = {
    .on_input = on_http_input,
    .max_input = IPB_INSPECT_MAX_INPUT,
};
