/* SPDX-License-Identifier: Apache-2.0
 *
 * What params.c (parse) and params-expand.c share: the limits and the checks of finished values.
 */
#pragma once

#include "mcp/params.h"

/* An argument or a variable above this cannot be given to a program on Linux (MAX_ARG_STRLEN). */
#define MAX_PARAMS_TEXT (128 * 1024 - 1)
/* Of args, env and headers each. */
#define MAX_PARAMS_ITEMS 1000
/* Of a call; a longer one is as good as none, and some programs count milliseconds. */
#define MAX_PARAMS_TIMEOUT_S 86400

/* What must hold before and after the replacement (before it, a URL with ${NAME} is not looked at).
 * The messages name the member, never its value, which may be secret. */
bool ipb_params_check(const IpbServerParams *params, bool is_expanded, GError **error);
/* By the URL's path, as documented: "/mcp" in it, else "/sse", else Streamable HTTP. */
IpbServerKind ipb_params_kind_of_url(const char *url);
/* "${NAME}" at @text: returns the name's length, 0 if there is none. The name begins at @text + 2. */
size_t ipb_params_placeholder(const char *text);
