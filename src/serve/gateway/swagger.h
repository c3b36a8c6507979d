/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of the gateway's REST interface in the format Swagger 2.0, as Jupyter's kernel
 * gateway has one: for each route its path, its methods, and the parameters in the path.
 */
#pragma once

#include "http/server.h"
#include "json/writer.h"

/* @base_path: NULL is "/". */
void ipb_gateway_swagger_write(const IpbHttpRoute *routes, size_t n_routes, const char *base_path,
                               IpbJsonWriter *writer);
