/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a connection to an MCP server that can be set: "limits" in server_params. Plain values, no state.
 */
#pragma once

#include <stdbool.h>

#include "json/json.h"

/* 0 in any of them: not given. */
typedef struct {
    /* Start and handshake; one page of a list; a request over HTTP that is no call */
    unsigned connect_timeout_ms;
    unsigned
        probe_timeout_ms;     /* to the answer of server/discover, which old servers may not know */
    unsigned call_timeout_ms; /* of a call, without answer or progress */
    unsigned call_duration_ms; /* of a call, whatever progress there is */
    unsigned list_duration_ms; /* of the list of tools, over all its pages */
    unsigned rounds;           /* how often a call is repeated because the server asks for it */
    unsigned depth;            /* of a message's JSON */
    unsigned pages, tools;     /* of the list of tools */
    /* Over HTTP: */
    unsigned requests;    /* at the same time */
    unsigned redirects;   /* of one request */
    unsigned resumptions; /* of a broken stream of events, in vain */
    size_t head_size;     /* of an answer's headers */
    size_t message_size;  /* of one message of the server */
} IpbMcpLimits;

/* How errors name a limit: "it … (\"limits.pages\" in its server_params sets this limit)". */
#define IPB_MCP_LIMIT_HINT(name) " (\"limits." name "\" in its server_params sets this limit)"

/* Sets those that @object has. INVALID names the member: " .limits.pages must be …". */
bool ipb_mcp_limits_parse(const IpbJson *object, IpbMcpLimits *limits, GError **error);
/* Those that are not given become the defaults. */
void ipb_mcp_limits_fill(IpbMcpLimits *limits);
