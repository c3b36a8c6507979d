/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbParamHeaders: the arguments of a tool that revision 2026-07-28 wants as HTTP headers too, so
 * that gateways can route without reading the body. If a property of the tool's inputSchema has
 * "x-mcp-header": "Region", the argument is also sent as "Mcp-Param-Region".
 */
#pragma once

#include <stdbool.h>

#include "json/json.h"

/* Those of one tool. Immutable. */
typedef struct IpbParamHeaders IpbParamHeaders;

/* NULL with PROTOCOL: an annotation is invalid, so the tool must not be offered; the error says
 * why. NULL with LIMIT: there are too many. */
IpbParamHeaders *ipb_param_headers_parse(const IpbJson *input_schema, GError **error);
void ipb_param_headers_free(IpbParamHeaders *headers);
/* "Name: value" for each annotated argument that is present and not null, NULL-terminated. INVALID
 * if an argument cannot be a header: an object, an integer beyond 2^53, too long. Free with
 * g_strfreev. */
char **ipb_param_headers_make(const IpbParamHeaders *headers, const IpbJson *arguments,
                              GError **error);

/* Makes a header value of a text: the text itself if it is plain, else "=?base64?…?=". Caller
 * frees. */
char *ipb_param_headers_encode(const char *text, size_t size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbParamHeaders, ipb_param_headers_free)
