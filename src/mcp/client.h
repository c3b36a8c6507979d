/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpClient: a client of one MCP server. It starts the server or opens the HTTP session, finds
 * out which revision the server speaks (2024-11-05 to 2026-07-28), lists and calls its tools, and
 * shuts it down. The parameters choose the transport: stdio, Streamable HTTP or HTTP+SSE.
 *
 * Ownership: the owner frees the client, in a callback too. Freeing kills a server that close has
 * not ended yet. Callbacks come from the loop, never from within the function that takes them. The
 * one exception: free calls the functions of pending calls with CANCELLED.
 */
#pragma once

#include "base/loop.h"
#include "json/json.h"
#include "mcp/legacy-servers.h"
#include "mcp/server-params.h"

typedef struct IpbMcpClient IpbMcpClient;

typedef struct {
    const char *name;              /* of the server, for messages */
    const IpbServerParams *params; /* expanded (copied) */
    /* Of a stdio server whose parameters have none; NULL: ours */
    const char *cwd;
    /* Our state, which sandboxed servers cannot see; NULL: the user's state directory */
    const char *state_dir;
    const char *const *keep_out; /* more paths that sandboxed servers cannot write; or NULL */
    const char *const *base_env; /* what a server inherits is taken from it: see server-env.c */
    /* For parameters that do not set them; 0: the defaults of limits.c. */
    unsigned connect_timeout_ms;      /* spawn and handshake */
    unsigned call_timeout_ms;         /* without an answer or progress */
    IpbLegacyServers *legacy_servers; /* referenced; or NULL */
} IpbMcpClientOptions;

/* Every member may be NULL. */
typedef struct {
    /* The connection was lost after it was established. The pending calls fail first, each with its
     * own error. Not called after close. */
    void (*on_closed)(const GError *why, void *data);
    /* A log message of the server ("debug" … "emergency"), a line of its stderr ("stderr") or stray
     * output ("warning"). The text is untrusted, but has no control characters. At most 100 lines a
     * second of 4 KiB each. */
    void (*on_log)(const char *level, const char *text, void *data);
    /* The list of tools changed. Several changes within a short time are reported once. */
    void (*on_tools_changed)(void *data);
} IpbMcpClientFuncs;

typedef struct {
    double progress;
    double total;        /* 0: not known */
    const char *message; /* or NULL; untrusted */
} IpbMcpProgress;

/* Either @error or @result is set. @result is the whole result object: it has the "tools" of all
 * pages, or "content", "structuredContent" and "isError". *document owns it; set it to NULL to keep
 * it. */
typedef void (*IpbMcpResultFunc)(const IpbJson *result, IpbJsonDoc **document, const GError *error,
                                 void *data);
typedef void (*IpbMcpProgressFunc)(const IpbMcpProgress *progress, void *data);

/* @funcs may be NULL. */
IpbMcpClient *ipb_mcp_client_new(IpbLoop *loop, const IpbMcpClientOptions *options,
                                 const IpbMcpClientFuncs *funcs, void *data);
/* Connects. @result is the server's answer to initialize or server/discover. A client connects
 * once. Errors: NOT_FOUND (the command), TIMEOUT (connect_timeout), SERVER (with the last lines of
 * its stderr), PROTOCOL, REFUSED (401, 403), UNAVAILABLE (no connection, no libcurl). */
void ipb_mcp_client_connect(IpbMcpClient *client, IpbMcpResultFunc func, void *data);
/* Lists the tools of all pages. @result is {"tools":[…]}, each tool as the server sent it. A tool
 * is an object with a "name"; nothing else about it is checked. Each page has the connect timeout.
 * LIMIT: more pages or tools than the limits allow. */
void ipb_mcp_client_list_tools(IpbMcpClient *client, IpbMcpResultFunc func, void *data);
/* Calls a tool and returns the call's id. @arguments_json is the text of an object; only
 * whitespace outside of strings is changed before it is sent. A result with isError is a result.
 * It has a "content" array of objects with a "type"; if it has "structuredContent", "content" may
 * be missing. Errors: INVALID, TIMEOUT, CANCELLED, SERVER (it died or answered with an error),
 * PROTOCOL, LIMIT, BUSY. */
int64_t ipb_mcp_client_call_tool(IpbMcpClient *client, const char *tool, const char *arguments_json,
                                 size_t size, IpbMcpProgressFunc on_progress, IpbMcpResultFunc func,
                                 void *data);
/* Ends a call with CANCELLED and notifies the server. Does nothing if the call has ended. */
void ipb_mcp_client_cancel(IpbMcpClient *client, int64_t call);
/* Shuts the server down: stdin is closed, after 2 s SIGTERM, after 2 s more SIGKILL to its process
 * group. Pending calls end with CANCELLED. @done (may be NULL) is called when nothing is left, but
 * not if the client is freed before. */
void ipb_mcp_client_close(IpbMcpClient *client, void (*done)(void *data), void *data);
void ipb_mcp_client_free(IpbMcpClient *client);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpClient, ipb_mcp_client_free)
