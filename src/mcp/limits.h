/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpLimits: the limits of a connection to an MCP server that "limits" in server_params sets.
 * Plain values, no state.
 */
#pragma once

#include <stdbool.h>

#include "json/json.h"

/* A member that is 0 is not set. */
typedef struct {
    /* Start and handshake; one page of a list; an HTTP request that is not a call */
    unsigned connect_timeout_ms;
    unsigned
        probe_timeout_ms; /* until server/discover is answered, which legacy servers may not know */
    unsigned call_timeout_ms;  /* of a call without an answer or progress */
    unsigned call_duration_ms; /* of a call, whether it makes progress or not */
    unsigned list_duration_ms; /* of the list of tools, over all its pages */
    unsigned rounds;           /* how often a call is sent again because the server asks for it */
    unsigned depth;            /* of the JSON of a message */
    unsigned pages, tools;     /* of the list of tools */
    /* Over HTTP: */
    unsigned requests;    /* at the same time */
    unsigned redirects;   /* of one request */
    unsigned resumptions; /* of a broken event stream, without any event */
    size_t head_size;     /* of an answer's headers */
    size_t message_size;  /* of one message of the server */
} IpbMcpLimits;

/* Names a limit in an error: "it … (\"limits.pages\" in its server_params sets this limit)". */
#define IPB_MCP_LIMIT_HINT(name) " (\"limits." name "\" in its server_params sets this limit)"

/* Sets the limits that @object has. INVALID names the member: "server_params.limits.pages must be
 * …". */
bool ipb_mcp_limits_parse(const IpbJson *object, IpbMcpLimits *limits, GError **error);
/* Sets the defaults of the limits that are not set. */
void ipb_mcp_limits_fill(IpbMcpLimits *limits);
