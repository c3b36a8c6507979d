/* SPDX-License-Identifier: Apache-2.0
 *
 * The envelope of revision 2026-07-28: what "_meta" of each request says about the client. Pure
 * functions.
 */
#pragma once

#include "json/json.h"

#define IPB_MCP_META_PREFIX "io.modelcontextprotocol/"
#define IPB_MCP_TASKS_EXTENSION IPB_MCP_META_PREFIX "tasks"

typedef struct {
    /* All point into the request. */
    const IpbJson *capabilities;
    const char *client_name; /* or NULL */
    const char *log_level;   /* NULL: no log messages are wanted */
} IpbMcpEnvelope;

/* An error of JSON-RPC. */
typedef struct {
    int code;
    char *message;
    char *data; /* JSON text, or NULL */
} IpbMcpFault;

/* Whether the request is of this revision, or says so. */
bool ipb_mcp_envelope_is_there(const IpbJson *params);
/* The revision that the request names; NULL: it names none. */
const char *ipb_mcp_envelope_revision(const IpbJson *params);
/* False: the envelope is not valid; @fault gets the error, and the caller clears it. */
bool ipb_mcp_envelope_read(const IpbJson *params, IpbMcpEnvelope *ret_envelope, IpbMcpFault *fault);
/* Whether the client can show forms. @capabilities: of the client, in any revision with
 * elicitation. */
bool ipb_mcp_envelope_offers_forms(const IpbJson *capabilities);
bool ipb_mcp_envelope_offers_tasks(const IpbJson *capabilities);
void ipb_mcp_fault_clear(IpbMcpFault *fault);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbMcpFault, ipb_mcp_fault_clear)
