/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of MCP that a client of tools needs: texts of parameters, checks of results. Pure
 * functions, no state. Texts are one JSON object, NUL-terminated, the caller frees.
 */
#pragma once

#include "json/json.h"

/* Revisions from 2026-07-28 on are "modern": each request says its revision and what the client can,
 * and there is no handshake. Those before begin with initialize. */
#define IPB_MCP_MODERN_REVISION "2026-07-28"

#define IPB_MCP_HEADER_MISMATCH (-32020)
#define IPB_MCP_MISSING_CAPABILITY (-32021)
#define IPB_MCP_UNSUPPORTED_REVISION (-32022)

/* The revision to offer to initialize: the newest with a handshake. */
const char *ipb_mcp_message_newest_revision(void);
/* JSON-RPC batches may come in this one. */
bool ipb_mcp_message_has_batches(const char *revision);
/* "2024-11-05, …", for messages. Caller frees. */
char *ipb_mcp_message_list_revisions(void);

char *ipb_mcp_message_initialize(const char *revision);
/* PROTOCOL if the result is none, or of a revision that we do not know. */
bool ipb_mcp_message_check_initialize(const IpbJson *result, const char **ret_revision,
                                      GError **error);
/* Some servers refuse a revision with an error that lists theirs in data.supported: the newest that
 * we know too, NULL if there is none. */
const char *ipb_mcp_message_find_supported(const IpbJson *rpc_error);

/* What a request's "_meta" gets. */
typedef struct {
    const char *revision; /* of a modern server; NULL: none of this */
    bool wants_log; /* the server may send log messages while it is at work; modern ones only */
    int64_t progress_token; /* 0: none */
} IpbMcpMessageMeta;

char *ipb_mcp_message_discover(const IpbMcpMessageMeta *meta);
/* @cursor: JSON text of a string, or NULL. */
char *ipb_mcp_message_list(const char *cursor, const IpbMcpMessageMeta *meta);
char *ipb_mcp_message_listen(const IpbMcpMessageMeta *meta);
/* @arguments: checked by the caller to be an object. @state, @responses: JSON texts of the server's state and
 * of the answers to its requests, when a call is repeated because the server asked for it; else NULL. */
char *ipb_mcp_message_call(const char *tool, const IpbJson *arguments, const char *state,
                           const char *responses, const IpbMcpMessageMeta *meta);

/* What the answer to server/discover says about the server. */
typedef enum {
    IPB_MCP_PROBE_MODERN, /* it speaks a modern revision that we speak */
    IPB_MCP_PROBE_LEGACY, /* it wants a handshake */
    IPB_MCP_PROBE_AGAIN,  /* it refuses our revision, and names it as one that it would take */
    IPB_MCP_PROBE_UNSUPPORTED, /* it is modern, and of revisions that we do not speak: @ret_theirs lists them */
    IPB_MCP_PROBE_REFUSED, /* it is modern, and refused the request for another reason */
} IpbMcpProbe;
/* One of @result and @rpc_error. @is_again: it was asked again already. *ret_theirs: for people, NULL unless UNSUPPORTED; caller frees. */
IpbMcpProbe ipb_mcp_message_judge_probe(const IpbJson *result, const IpbJson *rpc_error,
                                        bool is_again, char **ret_theirs);

typedef enum {
    IPB_MCP_RESULT_COMPLETE,
    IPB_MCP_RESULT_INPUT_REQUIRED,
    IPB_MCP_RESULT_UNKNOWN,
} IpbMcpResultType;
/* Of a modern server. Its "resultType" if there is one; without it, it is complete. */
IpbMcpResultType ipb_mcp_message_result_type(const IpbJson *result);
/* PROTOCOL unless there is an array "content" of objects with "type", or a "structuredContent". */
bool ipb_mcp_message_check_call(const IpbJson *result, GError **error);

/* PROTOCOL unless the result of a modern server is final. */
bool ipb_mcp_message_check_complete(const IpbJson *result, GError **error);
/* What the next round of a call must carry after an "input_required" result, as JSON texts: the
 * server's opaque state, and the responses to its requests. NULL where there is nothing; caller
 * frees. Since we declare no capabilities, a server may only ask to see its state again. Errors:
 * PROTOCOL (it asks for nothing), UNAVAILABLE (for something that we do not offer). */
bool ipb_mcp_message_answer_input(const IpbJson *result, char **ret_state, char **ret_responses,
                                  GError **error);

char *ipb_mcp_message_cancelled(int64_t request_id, const char *reason);

/* The code of an error; 0 if it has none. */
int64_t ipb_mcp_message_error_code(const IpbJson *rpc_error);
/* The "error" of an answer, as text for people: "message (code -32602)", cleaned and cut. Caller frees. */
char *ipb_mcp_message_describe_error(const IpbJson *rpc_error);
/* A notifications/message, likewise: "logger: text". *ret_level: static. */
char *ipb_mcp_message_describe_log(const IpbJson *params, const char **ret_level);
