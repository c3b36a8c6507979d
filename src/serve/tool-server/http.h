/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolServerHttp: the tool server of applications, over HTTP and WebSocket (docs/internals/tool-server.md): runs tools of MCP servers
 * that the caller names, with approval. `POST /run`, `POST /approve`, `PUT /reset`, `GET /status`, WebSocket `/approval`.
 *
 * Roles (http/gate.h): an application may do everything. A kernel may only run what is registered: for the workspace, or by
 * an application that ran it here before; it names an id or equal parameters, and nothing that it sends is ever started.
 *
 * Ownership: the owner frees it.
 */
#pragma once

#include "http/server.h"
#include "tools/approval-rules.h"
#include "tools/registry.h"

typedef struct IpbToolServerHttp IpbToolServerHttp;

typedef struct {
    const char
        *workspace; /* absolute: servers' working directory; its registrations are kernels' */
    const char *state_dir;       /* see tools/registry.h */
    const char *const *env;      /* for ${NAME} and the servers' environment */
    IpbApprovalPolicy approval;  /* of calls that no rule names */
    const char *approval_rules;  /* a file, or NULL */
    const char *audit_log;       /* a file, or NULL */
    int64_t approval_timeout_ms; /* negative: none */
    unsigned connect_timeout_ms;
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbToolServerHttpOptions;

/* @gate: the new object's. Everything else is copied. */
IpbToolServerHttp *ipb_tool_server_http_new(IpbLoop *loop, const IpbToolServerHttpOptions *options,
                                            IpbHttpGate *gate, GError **error);
/* See http/server.h. */
bool ipb_tool_server_http_listen(IpbToolServerHttp *server, const char *host, unsigned port,
                                 GError **error);
unsigned ipb_tool_server_http_port(const IpbToolServerHttp *server);
/* Takes no connections any more and stops MCP servers in order; @done then. */
void ipb_tool_server_http_close(IpbToolServerHttp *server, void (*done)(void *data), void *data);
void ipb_tool_server_http_free(IpbToolServerHttp *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolServerHttp, ipb_tool_server_http_free)
