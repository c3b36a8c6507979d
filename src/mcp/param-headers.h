/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments that revision 2026-07-28 wants as HTTP headers too, so that gateways can route without reading the body:
 * a property of a tool's inputSchema with "x-mcp-header": "Region" goes into "Mcp-Param-Region".
 */
#pragma once

#include <stdbool.h>

#include "json/json.h"

/* Of one tool. Immutable. */
typedef struct IpbParamHeaders IpbParamHeaders;

/* NULL with PROTOCOL, which says what is wrong, if an annotation is invalid: such a tool is not to be offered. The same
 * with LIMIT if there are too many. */
IpbParamHeaders *ipb_param_headers_parse(const IpbJson *input_schema, GError **error);
void ipb_param_headers_free(IpbParamHeaders *headers);
/* "Name: value" for each annotated argument that is there and not null, NULL-terminated. INVALID if one cannot be a header:
 * an object, an integer beyond 2^53, too long. Free with g_strfreev. */
char **ipb_param_headers_make(const IpbParamHeaders *headers, const IpbJson *arguments,
                              GError **error);

/* A text as the value of a header: itself if it is plain, else "=?base64?…?=". Caller frees. */
char *ipb_param_headers_encode(const char *text, size_t size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbParamHeaders, ipb_param_headers_free)
