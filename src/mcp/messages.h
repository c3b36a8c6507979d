/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP messages that a client needs to call tools: writes the parameters of requests and checks
 * their results. Pure functions, no state. Parameters are the text of one JSON object and end with
 * a NUL. The caller frees them.
 */
#pragma once

#include "json/json.h"

/* Revisions from 2026-07-28 on are "modern": each request carries its revision and the client's
 * capabilities, and there is no handshake. Older revisions are "legacy" and begin with
 * initialize. */
#define IPB_MCP_MODERN_REVISION "2026-07-28"

#define IPB_MCP_HEADER_MISMATCH (-32020)
#define IPB_MCP_MISSING_CAPABILITY (-32021)
#define IPB_MCP_UNSUPPORTED_REVISION (-32022)

/* The revision that initialize offers: the newest one with a handshake. */
const char *ipb_mcp_message_newest_revision(void);
/* Whether the revision has JSON-RPC batches. @revision may be NULL. */
bool ipb_mcp_message_has_batches(const char *revision);
/* "2024-11-05, …", for messages. Caller frees. */
char *ipb_mcp_message_list_revisions(void);

char *ipb_mcp_message_initialize(const char *revision);
/* PROTOCOL: the result has no revision, or one that we do not know. */
bool ipb_mcp_message_check_initialize(const IpbJson *result, const char **ret_revision,
                                      GError **error);
/* Some servers refuse a revision with an error that lists theirs in data.supported. Returns the
 * newest of them that we know, or NULL. */
const char *ipb_mcp_message_find_supported(const IpbJson *rpc_error);

/* The content of a request's "_meta". */
typedef struct {
    const char *revision; /* of a modern server; NULL: the server is legacy */
    bool wants_log;       /* the server may send log messages while it works; modern servers only */
    int64_t progress_token; /* 0: none */
} IpbMcpMessageMeta;

char *ipb_mcp_message_discover(const IpbMcpMessageMeta *meta);
/* @cursor: JSON text of a string, or NULL. */
char *ipb_mcp_message_list(const char *cursor, const IpbMcpMessageMeta *meta);
char *ipb_mcp_message_listen(const IpbMcpMessageMeta *meta);
/* @arguments must be an object. @state and @responses are JSON texts of the server's state and of
 * the responses to its requests, if the call is sent again because the server asked for it; else
 * NULL. */
char *ipb_mcp_message_call(const char *tool, const IpbJson *arguments, const char *state,
                           const char *responses, const IpbMcpMessageMeta *meta);

/* What the answer to server/discover says about a server. */
typedef enum {
    IPB_MCP_PROBE_MODERN, /* it speaks our modern revision */
    IPB_MCP_PROBE_LEGACY, /* it needs a handshake */
    IPB_MCP_PROBE_AGAIN,  /* it refuses our revision, but lists it as supported */
    /* it is modern, but speaks none of our revisions: @ret_theirs lists its own */
    IPB_MCP_PROBE_UNSUPPORTED,
    IPB_MCP_PROBE_REFUSED, /* it is modern and refused the request for another reason */
} IpbMcpProbe;
/* Either @result or @rpc_error is set. @is_again: the server was probed again already. *ret_theirs
 * is text for people, NULL unless UNSUPPORTED; caller frees. */
IpbMcpProbe ipb_mcp_message_judge_probe(const IpbJson *result, const IpbJson *rpc_error,
                                        bool is_again, char **ret_theirs);

typedef enum {
    IPB_MCP_RESULT_COMPLETE,
    IPB_MCP_RESULT_INPUT_REQUIRED,
    IPB_MCP_RESULT_UNKNOWN,
} IpbMcpResultType;
/* The "resultType" of a modern server's result. If it is missing, the result is complete. */
IpbMcpResultType ipb_mcp_message_result_type(const IpbJson *result);
/* PROTOCOL unless the result has "content", an array of objects with "type", or
 * "structuredContent". */
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

/* The code of an error; 0: it has none. */
int64_t ipb_mcp_message_error_code(const IpbJson *rpc_error);
/* Describes the "error" of an answer for people: "message (code -32602)", made harmless and cut.
 * Caller frees. */
char *ipb_mcp_message_describe_error(const IpbJson *rpc_error);
/* Describes a notifications/message in the same way: "logger: text". *ret_level is static. */
char *ipb_mcp_message_describe_log(const IpbJson *params, const char **ret_level);
