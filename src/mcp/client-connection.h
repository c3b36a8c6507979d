/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpClientConnection: JSON-RPC with one MCP server over one transport. It starts the server or
 * opens the HTTP session, matches answers to requests, and closes a server that sends garbage or
 * too large messages. It does not know which revision the server speaks: the client tells it.
 *
 * Ownership: the client owns it and may free it at any time, in callbacks too. Freeing ends
 * pending requests with CANCELLED and kills the server. Callbacks come from the loop.
 */
#pragma once

#include "base/loop.h"
#include "json/rpc-peer.h"
#include "mcp/limits.h"
#include "mcp/server-log.h"
#include "mcp/server-params.h"

typedef struct IpbMcpClientConnection IpbMcpClientConnection;

/* All pointers must stay valid until the connection is freed. */
typedef struct {
    const char *name;              /* of the server, for messages */
    const IpbServerParams *params; /* expanded */
    IpbServerKind kind;            /* the transport, which may differ from that of @params */
    const char *cwd;               /* see client.h, as for the next three */
    const char *const *base_env;
    const char *state_dir;
    const char *const *keep_out;
    const IpbMcpLimits *limits; /* without zeros */
    IpbServerLog *log;
} IpbMcpClientConnectionOptions;

typedef struct {
    void (*on_notification)(const char *method, const IpbJson *params, void *data);
    /* The server is gone, or broke a limit. Called once. The owner then calls close or free. */
    void (*on_lost)(const GError *why, void *data);
} IpbMcpClientConnectionFuncs;

/* @http_status: of a request that failed over HTTP; else 0. */
typedef void (*IpbMcpClientConnectionAnswerFunc)(const IpbRpcAnswer *answer, unsigned http_status,
                                                 void *data);

typedef struct {
    const char *method;
    const char *params_json;          /* or NULL */
    const char *tool;                 /* of tools/call; else NULL */
    const char *const *param_headers; /* "Mcp-Param-…: value", NULL-terminated; or NULL */
    unsigned timeout_ms;              /* without an answer or progress; 0: none */
    bool is_probe;                    /* written in the modern revision, whatever is agreed */
    bool is_cancellable;              /* the server is notified of a cancellation */
} IpbMcpClientConnectionRequest;

IpbMcpClientConnection *ipb_mcp_client_connection_new(IpbLoop *loop,
                                                      const IpbMcpClientConnectionOptions *options,
                                                      const IpbMcpClientConnectionFuncs *funcs,
                                                      void *data, GError **error);
/* What the two agreed on. @revision is a static string. */
void ipb_mcp_client_connection_set_revision(IpbMcpClientConnection *connection,
                                            const char *revision, bool is_modern);
/* Whether a message of @size bytes fits into the queue now. */
bool ipb_mcp_client_connection_has_room(const IpbMcpClientConnection *connection, size_t size);
/* Sends a request and returns its id. @func is called once, never from within this function. */
int64_t ipb_mcp_client_connection_request(IpbMcpClientConnection *connection,
                                          const IpbMcpClientConnectionRequest *request,
                                          IpbMcpClientConnectionAnswerFunc func, void *data);
/* Restarts the timeout of a request. */
void ipb_mcp_client_connection_touch(IpbMcpClientConnection *connection, int64_t id);
/* Ends a request with CANCELLED, from the loop. The server is notified with @reason, in the way of
 * the revision and the transport. */
void ipb_mcp_client_connection_cancel(IpbMcpClientConnection *connection, int64_t id,
                                      const char *reason);
/* The same for a request that the server ended itself: it is not notified. */
void ipb_mcp_client_connection_forget(IpbMcpClientConnection *connection, int64_t id);
void ipb_mcp_client_connection_notify(IpbMcpClientConnection *connection, const char *method,
                                      const char *params_json);
/* Opens the stream on which a legacy HTTP server sends notifications on its own. */
void ipb_mcp_client_connection_listen(IpbMcpClientConnection *connection);
/* An error that ends the connection: "MCP server NAME: @text", and the end of its stderr. */
GError *ipb_mcp_client_connection_make_error(const IpbMcpClientConnection *connection, int code,
                                             const char *text);
/* Shuts the server down: stdin is closed, after 2 s SIGTERM, after 2 s more SIGKILL. @done is
 * called from the loop when nothing is left. Call it once. No message is sent or received any
 * more. */
void ipb_mcp_client_connection_close(IpbMcpClientConnection *connection, void (*done)(void *data),
                                     void *data);
void ipb_mcp_client_connection_free(IpbMcpClientConnection *connection);
