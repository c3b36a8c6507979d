/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of `ipybox rpc` share: the server, its sessions, and the requests that take time.
 *
 * Ownership: the server owns sessions, requests and runtimes. A session owns its cells and questions, and its core; what a core
 * calls back with is the session's or a request of the session, and both are gone only when the core is.
 */
#pragma once

#include "serve/conversation.h"
#include "serve/rpc/params.h"
#include "serve/rpc/runtimes.h"
#include "serve/rpc/server.h"
#include "session/cell-text.h"

typedef struct IpbRpcSession IpbRpcSession;
typedef struct IpbRpcWork IpbRpcWork;
typedef struct IpbRpcCell IpbRpcCell;
typedef struct IpbRpcClient IpbRpcClient;
typedef struct IpbRpcOptions IpbRpcOptions;
typedef struct IpbRpcPorts IpbRpcPorts;
typedef struct IpbRpcSocket IpbRpcSocket;
typedef struct IpbRpcSources IpbRpcSources;

struct IpbRpcServer {
    IpbRpcServerOptions options;
    IpbLoop *loop;
    IpbConversation *conversation;
    IpbRpcPeer *peer; /* the conversation's */
    IpbRpcRuntimes *runtimes;
    IpbRpcSources *sources;
    GHashTable *clients;  /* id → IpbRpcClient */
    GHashTable *sockets;  /* id → IpbRpcSocket */
    GHashTable *sessions; /* id → IpbRpcSession */
    GHashTable *works;    /* the request's id as JSON text → IpbRpcWork */
    uint64_t last_id;     /* of what the core names */
    bool is_initialized;
    bool is_congested; /* the client reads slower than we write: all sessions are paused */
    bool is_closing;
    unsigned n_closing; /* parts that are not closed yet */
    void (*closed)(void *data);
    void *closed_data;
};

struct IpbRpcSession {
    IpbRpcServer *server;
    char *id;
    IpbSession *core;
    IpbRuntime *runtime;
    IpbRpcOptions *options;     /* how it was opened (open.c) */
    IpbRpcPorts *ports;         /* or NULL */
    IpbApprovalPolicy approval; /* where a cell does not say */
    bool asks_for_shell;        /* where it allows what a cell calls */
    unsigned start_timeout_ms;
    GQueue cells;         /* IpbRpcCell, the running one first */
    GPtrArray *questions; /* see approval.c */
    GPtrArray *starting;  /* see start.c */
    uint64_t start_cell;  /* 0: none */
    bool is_paused;       /* by the client */
    bool is_closing;
    IpbRpcWork *closing; /* the request that closes it, or NULL */
};

/* A request that is answered later. */
struct IpbRpcWork {
    IpbRpcServer *server;
    IpbRpcSession *session; /* NULL: of none */
    IpbRpcRequest *request;
    void (*cancel)(IpbRpcWork *work); /* NULL: it cannot be cancelled */
    uint64_t number;                  /* for @cancel: of the cell or the registration */
    char *client;                     /* of mcp.call: the connection's id, or NULL */
    void *data;                       /* the method's own */
    void (*free_data)(void *data);
    bool is_cancelled;
};

/* --- the server (server.c) --- */

typedef void (*IpbRpcMethodFunc)(IpbRpcServer *server, IpbRpcRequest *request,
                                 IpbRpcParams *params);
/* Both free what they are given. */
void ipb_rpc_server_reply(IpbRpcRequest *request, IpbJsonWriter *writer);
void ipb_rpc_server_notify(IpbRpcServer *server, const char *method, IpbJsonWriter *writer);
void ipb_rpc_server_reply_nothing(IpbRpcRequest *request);
void ipb_rpc_server_fail(IpbRpcRequest *request, const GError *error);
/* After a method has read its parameters: answers with what is wrong and returns false. @request may be NULL: a notification. */
bool ipb_rpc_server_check(IpbRpcRequest *request, IpbRpcParams *params);
/* A request that the conversation holds, since the client reads slowly, is to be cancelled. True: that is done. */
bool ipb_rpc_server_cancel_held(IpbRpcServer *server, const char *id_json);
/* "s1", "c2": never the same twice. Caller frees. */
char *ipb_rpc_server_make_id(IpbRpcServer *server, char letter);
void ipb_rpc_server_log(IpbRpcServer *server, const char *level, const char *text,
                        const char *session);
/* A log line; @data is the server. */
void ipb_rpc_server_log_warning(const char *text, void *data);
/* session.event of a request, up to the members of the event; and its end. */
IpbJsonWriter *ipb_rpc_server_begin_event(const char *request, const char *type);
void ipb_rpc_server_send_event(IpbRpcServer *server, IpbJsonWriter *writer);
/* Of what the end waits for: nothing happens before the end has begun. */
void ipb_rpc_server_part_closed(IpbRpcServer *server);

/* --- requests under way (work.c) --- */

IpbRpcWork *ipb_rpc_work_new(IpbRpcServer *server, IpbRpcSession *session, IpbRpcRequest *request);
/* These three answer and free it. */
void ipb_rpc_work_reply(IpbRpcWork *work, IpbJsonWriter *writer);
void ipb_rpc_work_reply_nothing(IpbRpcWork *work);
void ipb_rpc_work_fail(IpbRpcWork *work, const GError *error);
void ipb_rpc_work_free(IpbRpcWork *work);
/* All of @session (NULL: all) fail with @why. */
void ipb_rpc_work_fail_all(IpbRpcServer *server, const IpbRpcSession *session, const GError *why);
void ipb_rpc_work_cancel(IpbRpcServer *server, const IpbJson *id);

/* --- sessions (session.c, open.c, start.c, cell.c, approval.c) --- */

/* Takes the reference to @runtime. */
IpbRpcSession *ipb_rpc_session_new(IpbRpcServer *server, IpbRuntime *runtime);
/* By the parameter "session"; NULL with an error in @params. */
IpbRpcSession *ipb_rpc_session_find(IpbRpcServer *server, IpbRpcParams *params);
void ipb_rpc_session_apply_pause(IpbRpcSession *session);
void ipb_rpc_session_close(IpbRpcSession *session, IpbRpcWork *work);
void ipb_rpc_session_free(IpbRpcSession *session);
/* The cell that runs, or is about to, decides what happens to calls; NULL is the session itself. */
void ipb_rpc_session_apply_approval(IpbRpcSession *session);

void ipb_rpc_options_free(IpbRpcOptions *options);

void ipb_rpc_approval_ask(const IpbApprovalRequest *request, void *data);
void ipb_rpc_approval_withdraw(uint64_t request, void *data);
void ipb_rpc_approval_forget(IpbRpcSession *session);

void ipb_rpc_start_forget(IpbRpcSession *session);

void ipb_rpc_cell_free(IpbRpcCell *cell);
/* What was asked for with it; false: nothing. */
bool ipb_rpc_cell_approval(const IpbRpcCell *cell, IpbApprovalPolicy *ret_approval);
const char *ipb_rpc_cell_request(const IpbRpcCell *cell);

/* --- ports of a session (ports.c) --- */

typedef struct {
    bool is_wanted;
    const char *host;
    unsigned port; /* 0: any free one */
} IpbRpcPort;

/* @core: lives as long as the session. NULL with @error: a port cannot be had. */
IpbRpcPorts *ipb_rpc_ports_open(IpbRpcSession *session, const IpbSessionOptions *core,
                                const IpbRpcPort *tool_server, const IpbRpcPort *gateway,
                                GError **error);
/* The members "tool_server" and "gateway". */
void ipb_rpc_ports_describe(const IpbRpcPorts *ports, IpbJsonWriter *writer);
void ipb_rpc_ports_close(IpbRpcPorts *ports, void (*done)(void *data), void *data);
void ipb_rpc_ports_free(IpbRpcPorts *ports);

/* --- generating packages (sources.c, packages.c) --- */

IpbRpcSources *ipb_rpc_sources_new(IpbRpcServer *server);
/* Cancels what is under way; returns how many parts will be closed. */
unsigned ipb_rpc_sources_close(IpbRpcSources *sources);
void ipb_rpc_sources_free(IpbRpcSources *sources);
/* Lets a new session call what was generated here. */
void ipb_rpc_sources_allow(const IpbRpcSources *sources, IpbSession *core);
IpbMcpEras *ipb_rpc_sources_eras(IpbRpcSources *sources);
/* Answers with the names of modules. */
void ipb_rpc_packages_reply_tools(IpbRpcWork *work, const char *const *modules);

/* --- connections to MCP servers (mcp.c) --- */

void ipb_rpc_client_close(IpbRpcClient *client);
void ipb_rpc_client_free(IpbRpcClient *client);

/* --- WebSockets (websocket.c) --- */

void ipb_rpc_socket_close(IpbRpcSocket *socket);
void ipb_rpc_socket_apply_pause(IpbRpcSocket *socket);
void ipb_rpc_socket_free(IpbRpcSocket *socket);

/* --- methods --- */

void ipb_rpc_session_open(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_start(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_execute(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_interrupt(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_cancel(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_pause(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_resume(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_reset(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_close_method(IpbRpcServer *server, IpbRpcRequest *request,
                                  IpbRpcParams *params);
void ipb_rpc_session_register(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_session_install(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_sources_generate(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_mcp_connect(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_mcp_list_tools(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_mcp_call(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_mcp_close(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_websocket_open(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_websocket_send(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_websocket_close(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
/* @request: NULL for a notification. */
void ipb_rpc_websocket_pause(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
void ipb_rpc_websocket_resume(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params);
