/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolServerHttp: the tool server of applications, over HTTP and WebSocket
 * (docs/internals/tool-server.md). It runs tools of the MCP servers that the caller names, with
 * approval. Routes: `POST /run`, `POST /approve`, `PUT /reset`, `GET /status`, `GET /info`,
 * WebSocket `/approval`.
 *
 * Roles (http/gate.h): an application may use all routes. A kernel may only run tools of servers
 * that are registered for the workspace, or that an application has used here before. It names them
 * by id or by equal parameters; nothing that a kernel sends is ever started.
 *
 * Ownership: the owner frees it.
 */
#pragma once

#include "http/server.h"
#include "tools/approval-rules.h"
#include "tools/registry.h"

typedef struct IpbToolServerHttp IpbToolServerHttp;

typedef struct {
    /* absolute: the servers' working directory. Kernels may call what is registered for it */
    const char *workspace;
    const char *state_dir;       /* see tools/registry.h */
    const char *const *env;      /* for ${NAME} and the servers' environment */
    IpbApprovalPolicy approval;  /* of calls that no rule names */
    const char *approval_rules;  /* path of a file, or NULL */
    const char *audit_log;       /* path of a file, or NULL */
    const char *record;          /* of a session: sandboxed servers may not write it; or NULL */
    int64_t approval_timeout_ms; /* negative: none */
    unsigned connect_timeout_ms;
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbToolServerHttpOptions;

/* Takes @gate; everything else is copied. */
IpbToolServerHttp *ipb_tool_server_http_new(IpbLoop *loop, const IpbToolServerHttpOptions *options,
                                            IpbHttpGate *gate, GError **error);
/* See http/server.h. */
bool ipb_tool_server_http_listen(IpbToolServerHttp *server, const char *host, unsigned port,
                                 GError **error);
unsigned ipb_tool_server_http_port(const IpbToolServerHttp *server);
/* Stops listening, then stops MCP servers in order; @done when they have ended. */
void ipb_tool_server_http_close(IpbToolServerHttp *server, void (*done)(void *data), void *data);
void ipb_tool_server_http_free(IpbToolServerHttp *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolServerHttp, ipb_tool_server_http_free)
