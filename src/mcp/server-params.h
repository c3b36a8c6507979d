/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServerParams: how to reach an MCP server, as applications write it ("command", "args", "env",
 * "cwd", "sandbox" or "url", "headers", "oauth", "ca_file", "type"; "timeout", "limits"), and the replacement of ${NAME} in it.
 * Immutable.
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
    bool is_kind_given; /* by "type"; otherwise it follows from the members and the URL's path */
    char *command;
    char **args;
    char **env;                /* "NAME=value" */
    char *cwd;                 /* or NULL */
    IpbSandboxPolicy *sandbox; /* the server runs in one; NULL: it does not */
    char *url;
    char *ca_file;  /* PEM file of the authorities to trust, instead of the system's; or NULL */
    char **headers; /* "Name: value" */
    IpbOAuthSettings *oauth; /* or NULL: not given */
    IpbMcpLimits limits;     /* "limits"; "timeout" is its call_timeout; 0: not given */
} IpbServerParams;

/* Parses and checks: INVALID with the member's path ("server_params.args[2] must be a string").
 * A value may hold ${NAME}: nothing is replaced here. Members that are not known, or belong to the
 * other kind of server, are ignored: configurations are shared with other programs. */
IpbServerParams *ipb_server_params_parse(const IpbJson *object, GError **error);
IpbServerParams *ipb_server_params_copy(const IpbServerParams *params);
void ipb_server_params_free(IpbServerParams *params);
/* The text with the members sorted and no whitespace: equal parameters have equal text. */
char *ipb_server_params_canonical(const IpbJson *object);
/* A copy with each ${NAME} ([a-zA-Z0-9_]+) in command, args, env's values, cwd, url, ca_file, headers'
 * values and oauth's clientId and clientSecret (not in "sandbox") replaced from @env ("NAME=value" list), checked again. What was replaced is not searched
 * once more. NOT_FOUND names every missing variable and where to set it; no error tells a value. */
IpbServerParams *ipb_server_params_expand(const IpbServerParams *params, const char *const *env,
                                          GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbServerParams, ipb_server_params_free)
