/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpNegotiation: finds out which revision of MCP a server speaks. It does no input or output
 * itself: the client reports what the server did, and gets the next step to take.
 *
 * Ownership: the client owns it.
 */
#pragma once

#include "json/rpc-peer.h"
#include "mcp/server-params.h"

typedef struct IpbMcpNegotiation IpbMcpNegotiation;

typedef enum {
    IPB_MCP_STEP_PROBE,      /* send server/discover */
    IPB_MCP_STEP_INITIALIZE, /* send initialize, which offers @revision */
    IPB_MCP_STEP_CONNECTED,  /* the server speaks @revision */
    /* Start the server again, then send initialize. */
    IPB_MCP_STEP_RESTART,
    /* Connect over the other HTTP transport, @server_kind, then start the negotiation again. @error
     * says why. */
    IPB_MCP_STEP_SWITCH,
    IPB_MCP_STEP_FAIL, /* the connection fails with @error */
} IpbMcpStepKind;

typedef struct {
    IpbMcpStepKind kind;
    const char *revision; /* static */
    bool is_modern;       /* of @revision */
    IpbServerKind server_kind;
    GError *error;
} IpbMcpStep;

/* @params is borrowed. */
IpbMcpNegotiation *ipb_mcp_negotiation_new(const char *server_name, const IpbServerParams *params);
void ipb_mcp_negotiation_free(IpbMcpNegotiation *negotiation);
/* The first step over a transport. @is_legacy: the server is known to need a handshake. */
IpbMcpStep ipb_mcp_negotiation_start(IpbMcpNegotiation *negotiation, bool is_legacy);
/* The step after the answer to the last request. @http_status: of a request that failed, else 0.
 * @failure: describes the failure of @answer; NULL if it has a result. */
IpbMcpStep ipb_mcp_negotiation_take_answer(IpbMcpNegotiation *negotiation,
                                           const IpbRpcAnswer *answer, unsigned http_status,
                                           const GError *failure);
/* The step after the connection was lost because of @why. */
IpbMcpStep ipb_mcp_negotiation_take_loss(IpbMcpNegotiation *negotiation, const GError *why);
void ipb_mcp_step_clear(IpbMcpStep *step);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbMcpStep, ipb_mcp_step_clear)
