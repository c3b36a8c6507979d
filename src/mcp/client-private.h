/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the client share: client.c (the connection's life), handshake.c (which revision), client-call.c
 * (what callers wait for), client-list.c, client-tool.c (what they ask for), listen.c (what the server tells unasked).
 */
#pragma once

#include "json/rpc-peer.h"
#include "mcp/client.h"
#include "mcp/messages.h"
#include "mcp/server-log.h"
#include "mcp/tool-list.h"
#include "mcp/transport.h"

typedef enum {
    IPB_MCP_STATE_NEW,
    IPB_MCP_STATE_CONNECTING,
    IPB_MCP_STATE_READY,
    IPB_MCP_STATE_CLOSED, /* lost, failed or closed; "why" says so, the transport may still shut down */
} IpbMcpState;

typedef struct IpbMcpCall IpbMcpCall;

/* While the client finds out what the server speaks; see handshake.c. */
typedef struct {
    IpbMcpCall *call;   /* of connect, borrowed */
    bool is_probing;    /* server/discover is under way */
    bool is_unanswered; /* the process was probed; it has said nothing, and may not have read it */
    bool is_guess;      /* that it wants a handshake: it has not answered the probe */
    bool is_again;      /* the probe, because the server refused our revision and named it */
    bool has_retried;   /* initialize, with a revision that the server named */
    bool has_restarted; /* the server */
    bool has_switched;  /* to the other transport over HTTP */
    GError *first_failure; /* why it was */
    GError *refusal;       /* of initialize: told if a second probe does not help */
} IpbMcpHandshake;

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
    char **keep_out;
    IpbMcpLimits limits;
    IpbMcpEras *eras; /* or NULL */
    char *era_key;
    IpbMcpClientFuncs funcs;
    void *data;

    IpbServerLog *log;
    IpbTransport *transport;
    IpbServerKind kind; /* of it; at first that of the parameters */
    const IpbTransportMessage
        *outgoing;          /* while a message is being sent: what the transport is told of it */
    unsigned failed_status; /* while a request fails: the HTTP status, or 0 */
    bool is_transport_closing, is_transport_gone;
    IpbRpcPeer *peer;
    IpbTimer *connect_timer;
    IpbTimer *changed_timer; /* tools/list_changed, told once for many */
    int64_t next_change;     /* not told before: monotonic, µs */
    IpbMcpHandshake handshake;
    const char *revision;        /* NULL: not known yet */
    bool is_modern;              /* no handshake: each request has an envelope */
    bool has_tools, has_logging; /* capabilities */
    GHashTable *tool_headers;    /* of the list of tools; NULL: not known, or of no interest */
    IpbMcpCall *listening;       /* subscriptions/listen, borrowed; or NULL */
    GError *why;                 /* set when CLOSED */
    size_t garbage;              /* bytes since the last message */

    GHashTable *calls; /* of id → IpbMcpCall, all whose func is still to be called */
    int64_t last_id;
    /* What is to be told from the loop: calls that have an error, then on_closed, then dones. */
    IpbTimer *later_timer;
    GQueue later; /* of IpbMcpCall, borrowed from "calls" */
    bool must_tell_closed;
    GArray *dones;
};

/* One thing that is waited for: connect, a list, a call, a subscription. */
struct IpbMcpCall {
    unsigned refs;        /* the table's, and one while the peer has a request of it */
    IpbMcpClient *client; /* NULL when it has ended */
    int64_t id;           /* progress token too */
    int64_t rpc_id;       /* 0: no request is under way */
    char *what;           /* "tool NAME", "tools/list", … for messages */
    unsigned timeout_ms;
    bool is_uncancellable;    /* the server is not told that nobody waits for the answer */
    IpbTimer *duration_timer; /* whatever the server does, it ends now */
    unsigned duration_ms;
    const char *duration_note; /* which limit that is */
    int64_t progress_window;   /* its start: monotonic, µs */
    unsigned n_progress;       /* told in it */
    /* Takes the answer to the request; never called after the end. */
    void (*on_answer)(IpbMcpCall *call, const IpbRpcAnswer *answer);
    IpbMcpProgressFunc on_progress;
    IpbMcpResultFunc func;
    void *data;
    GError *error; /* set: ends with it from the loop */
    IpbToolList *list;
    /* Of tools/call, for the next round. */
    char *tool;
    IpbJsonDoc *arguments;
    char *state, *responses;
    unsigned rounds;
    char **param_headers; /* of the transport's message; or NULL */
    bool has_relisted;
};

IpbMcpClient *ipb_mcp_client_hold(IpbMcpClient *client);
void ipb_mcp_client_unhold(IpbMcpClient *client);
/* Starts the server, and the conversation with it; once more if there was one. */
bool ipb_mcp_client_start(IpbMcpClient *client, GError **error);
/* The revision is agreed. */
void ipb_mcp_client_become_ready(IpbMcpClient *client);
/* Has on_later run from the loop. */
void ipb_mcp_client_schedule(IpbMcpClient *client);
void ipb_mcp_client_notify(IpbMcpClient *client, const char *method, const char *params_json);
/* The connection is of no use any more: calls end with @why, the server is shut down. */
void ipb_mcp_client_lose(IpbMcpClient *client, const GError *why);

IpbMcpCall *ipb_mcp_call_new(IpbMcpClient *client, const char *what, IpbMcpResultFunc func,
                             void *data);
void ipb_mcp_call_unref(IpbMcpCall *call);
/* The call ends by then, whatever the server does; @note, a constant, is the end of the error. Once. */
void ipb_mcp_call_limit(IpbMcpCall *call, unsigned duration_ms, const char *note);
/* Sends a request; takes @params_json. */
void ipb_mcp_call_send(IpbMcpCall *call, const char *method, char *params_json);
/* Ends the call: the func is called. @document may be NULL. */
void ipb_mcp_call_end(IpbMcpCall *call, const IpbJson *result, IpbJsonDoc **document,
                      const GError *error);
/* Takes @error, which says what is wrong about the result: the call ends. */
void ipb_mcp_call_end_with(IpbMcpCall *call, GError *error);
/* Takes @error: the call ends with it from the loop, whatever else comes. */
void ipb_mcp_call_end_later(IpbMcpCall *call, GError *error);
void ipb_mcp_call_end_all_later(IpbMcpClient *client, const GError *why);
/* The server is told, in the way of the revision and the transport, that the answer is not waited for. */
void ipb_mcp_call_withdraw(IpbMcpCall *call, const char *reason);
/* The error for a request of @size bytes in a state that allows none; NULL if it may go. Caller frees. */
GError *ipb_mcp_call_refuse(IpbMcpClient *client, size_t size);
/* Must arguments go into headers? */
bool ipb_mcp_client_has_headers(const IpbMcpClient *client);
/* What its request's "_meta" holds. */
IpbMessageMeta ipb_mcp_call_meta(const IpbMcpCall *call);
/* PROTOCOL if a modern server's result is not the last word. */
bool ipb_mcp_call_check_complete(IpbMcpCall *call, const IpbRpcAnswer *answer, GError **error);
/* What went wrong with the request, for people; NULL if there is a result. Caller frees. */
GError *ipb_mcp_call_error(IpbMcpCall *call, const IpbRpcAnswer *answer);
void ipb_mcp_call_progress(IpbMcpClient *client, const IpbJson *params);

/* handshake.c: @call ends when the server is connected; what fails loses the connection. */
void ipb_mcp_handshake_start(IpbMcpCall *call);
/* The transport is gone. True: the server was started again, and the connection is not lost. */
bool ipb_mcp_handshake_restart(IpbMcpClient *client, const GError *why);

/* listen.c: asks a modern server to tell when its tools change. */
void ipb_mcp_client_listen(IpbMcpClient *client);
/* Is a notification with these parameters for the subscription? One without any id is. */
bool ipb_mcp_client_is_subscribed(const IpbMcpClient *client, const IpbJson *params);
/* notifications/cancelled of the server: it ends the subscription. */
void ipb_mcp_client_unsubscribed(IpbMcpClient *client, const IpbJson *params);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpCall, ipb_mcp_call_unref)
