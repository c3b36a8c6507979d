/* SPDX-License-Identifier: Apache-2.0
 *
 * The refusal of an HTTP request of an MCP client: a status, and a JSON-RPC error as the body.
 */
#pragma once

#include "http/server.h"
#include "json/rpc-peer.h"

typedef struct {
    unsigned status;
    int code;
    const char *message;
    /* Of the client's request, JSON text; NULL: it is unknown, or there are several */
    const char *id_json;
    /* Of the error, JSON text; or NULL */
    const char *data_json;
    /* Further header lines, or NULL */
    const char *headers;
} IpbMcpRefusal;

/* 404: the client must begin again with initialize. */
extern const IpbMcpRefusal IPB_MCP_REFUSAL_SESSION_ENDED;

/* Answers @request, which is taken. The next request of its connection may be handled in this
 * call. */
void ipb_mcp_refuse(IpbHttpRequest *request, const IpbMcpRefusal *refusal);
