/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServerParams: how to start or reach an MCP server, as applications write it: "command",
 * "args", "env", "cwd" and "sandbox", or "url", "headers", "oauth", "ca_file" and "type"; and
 * "timeout" and "limits". ${NAME} in it is replaced by variables. Immutable.
 */
#pragma once

#include <stdbool.h>

#include "json/json.h"
#include "mcp/limits.h"
#include "oauth/settings.h"
#include "sandbox/policy.h"

typedef enum {
    IPB_SERVER_STDIO,
    IPB_SERVER_STREAMABLE_HTTP,
    IPB_SERVER_SSE,
} IpbServerKind;

typedef struct {
    IpbServerKind kind;
    bool is_kind_given; /* by "type"; else it follows from the members and the path of the URL */
    char *command;
    char **args;
    char **env;                /* "NAME=value" */
    char *cwd;                 /* or NULL */
    IpbSandboxPolicy *sandbox; /* the server runs in a sandbox; NULL: it does not */
    char *url;
    char *ca_file;  /* PEM file of the authorities to trust instead of the system's; or NULL */
    char **headers; /* "Name: value" */
    IpbOAuthSettings *oauth; /* NULL: not given */
    IpbMcpLimits limits;     /* "limits"; "timeout" sets its call_timeout; 0: not given */
} IpbServerParams;

/* Parses and checks the object. INVALID names the member ("server_params.args[2] must be a
 * string"). Values may contain ${NAME}; nothing is replaced here. Unknown members, and those of the
 * other kind of server, are ignored, because configurations are shared with other programs. */
IpbServerParams *ipb_server_params_parse(const IpbJson *object, GError **error);
IpbServerParams *ipb_server_params_copy(const IpbServerParams *params);
void ipb_server_params_free(IpbServerParams *params);
/* The text with sorted members and no whitespace: equal parameters have equal texts. */
char *ipb_server_params_canonical(const IpbJson *object);
/* A copy in which each ${NAME} ([a-zA-Z0-9_]+) is replaced from @env ("NAME=value" list), checked
 * again. This applies to command, args, values of env and headers, cwd, url, ca_file, and clientId
 * and clientSecret of oauth, but not to "sandbox". A replacement is not searched for further
 * variables. NOT_FOUND names every missing variable and where to set it. No error contains a
 * value. */
IpbServerParams *ipb_server_params_expand(const IpbServerParams *params, const char *const *env,
                                          GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbServerParams, ipb_server_params_free)
