/* SPDX-License-Identifier: Apache-2.0
 *
 * What client.c (the connection's life) and client-call.c (lists and calls) share.
 */
#pragma once

#include "json/rpc-peer.h"
#include "mcp/client.h"
#include "mcp/server-log.h"
#include "mcp/tool-list.h"
#include "mcp/transport.h"

typedef enum {
    IPB_MCP_STATE_NEW,
    IPB_MCP_STATE_CONNECTING,
    IPB_MCP_STATE_READY,
    IPB_MCP_STATE_CLOSED, /* lost, failed or closed; "why" says so, the transport may still shut down */
} IpbMcpState;

struct IpbMcpClient {
    unsigned refs; /* the owner's, and one for each function that calls back */
    IpbLoop *loop;
    IpbMcpState state;
    bool is_freed;
    /* Copies of the options. */
    char *name;
    IpbServerParams *params;
    char *cwd;
    char **base_env;
    char *state_dir;
    unsigned connect_timeout_ms, call_timeout_ms;
    IpbMcpClientFuncs funcs;
    void *data;

    IpbServerLog *log;
    IpbTransport *transport;
    bool is_transport_closing, is_transport_gone;
    IpbRpcPeer *peer;
    IpbTimer *connect_timer;
    IpbTimer *changed_timer; /* tools/list_changed, told once for many */
    const char *revision;
    bool has_tools; /* the capability */
    GError *why;    /* set when CLOSED */
    size_t garbage; /* bytes since the last message */

    GHashTable *calls; /* of id → IpbMcpCall, all whose func is still to be called */
    int64_t last_id;
    /* What is to be told from the loop: calls that have an error, then on_closed, then dones. */
    IpbTimer *later_timer;
    GQueue later; /* of IpbMcpCall, borrowed from "calls" */
    bool must_tell_closed;
    GArray *dones;
};

/* One thing that a caller waits for: connect, a list or a call. */
typedef struct IpbMcpCall IpbMcpCall;
struct IpbMcpCall {
    unsigned refs;        /* the table's, and one while the peer has a request of it */
    IpbMcpClient *client; /* NULL when it has ended */
    int64_t id;           /* progress token too */
    int64_t rpc_id;       /* 0: no request is under way */
    char *what;           /* "tool NAME", "tools/list", … for messages */
    unsigned timeout_ms;
    int64_t deadline; /* when progress stops to restart the timeout; monotonic, µs */
    /* Takes the answer to the request; never called after the end. */
    void (*on_answer)(IpbMcpCall *call, const IpbRpcAnswer *answer);
    IpbMcpProgressFunc on_progress;
    IpbMcpResultFunc func;
    void *data;
    GError *error; /* set: ends with it from the loop */
    IpbToolList *list;
    bool has_retried;
};

IpbMcpClient *ipb_mcp_client_hold(IpbMcpClient *client);
void ipb_mcp_client_unhold(IpbMcpClient *client);
/* Has on_later run from the loop. */
void ipb_mcp_client_schedule(IpbMcpClient *client);
/* The connection is of no use any more: calls end with @why, the server is shut down. */
void ipb_mcp_client_lose(IpbMcpClient *client, const GError *why);

IpbMcpCall *ipb_mcp_call_new(IpbMcpClient *client, const char *what, IpbMcpResultFunc func,
                             void *data);
void ipb_mcp_call_unref(IpbMcpCall *call);
/* Sends a request; takes @params_json. */
void ipb_mcp_call_send(IpbMcpCall *call, const char *method, char *params_json);
/* Ends the call: the func is called. @document may be NULL. */
void ipb_mcp_call_end(IpbMcpCall *call, const IpbJson *result, IpbJsonDoc **document,
                      const GError *error);
/* Takes @error: the call ends with it from the loop, whatever else comes. */
void ipb_mcp_call_end_later(IpbMcpCall *call, GError *error);
void ipb_mcp_call_end_all_later(IpbMcpClient *client, const GError *why);
/* What went wrong with the request, for people; NULL if there is a result. Caller frees. */
GError *ipb_mcp_call_error(IpbMcpCall *call, const IpbRpcAnswer *answer);
void ipb_mcp_call_progress(IpbMcpClient *client, const IpbJson *params);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpCall, ipb_mcp_call_unref)
