/* SPDX-License-Identifier: Apache-2.0
 *
 * Which server `ipybox login` and `ipybox logout` mean: the name or id of a registered one, or a URL.
 */
#pragma once

#include "http/client.h"
#include "mcp/server-params.h"

/* Its parameters, ${NAME} replaced from the environment and the .env file of the working directory. A URL that is registered
 * has the parameters of its registration. NOT_FOUND, INVALID. */
IpbServerParams *ipb_login_server_find(const char *server, GError **error);
/* What its requests go by: the proxies of the same environment, the certificate authorities of @params (NULL: those of the
 * environment). UNAVAILABLE, INVALID as ipb_http_client_new(). */
IpbHttpClient *ipb_login_server_http(IpbLoop *loop, const IpbServerParams *params, GError **error);
