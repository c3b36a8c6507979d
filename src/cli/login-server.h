/* SPDX-License-Identifier: Apache-2.0
 *
 * The server that `ipybox login` and `ipybox logout` are for: the name or id of a registered
 * server, or a URL.
 */
#pragma once

#include "http/client.h"
#include "mcp/server-params.h"

/* Finds the server's parameters, with ${NAME} replaced from the environment and the .env file of
 * the working directory. A registered URL has the parameters of its registration. Errors:
 * NOT_FOUND, INVALID. */
IpbServerParams *ipb_login_server_find(const char *server, GError **error);
/* Makes the client for its requests: with the proxies of the same environment, and the certificate
 * authorities of @params (NULL: those of the environment). Errors: UNAVAILABLE, INVALID as
 * ipb_http_client_new(). */
IpbHttpClient *ipb_login_server_http(IpbLoop *loop, const IpbServerParams *params, GError **error);
