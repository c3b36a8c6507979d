/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpClient: a connection to one MCP server: which revision it speaks, tools, calls, orderly end. Revisions
 * 2024-11-05 to 2026-07-28; the transport is chosen by the parameters: stdio, Streamable HTTP, HTTP+SSE.
 *
 * Ownership: the owner frees the client, from a callback too; free kills what close has not ended.
 * Callbacks come from the loop, never from within the call that takes them; but the functions of
 * pending calls get CANCELLED within free.
 */
#pragma once

#include "base/loop.h"
#include "json/json.h"
#include "mcp/eras.h"
#include "mcp/params.h"

typedef struct IpbMcpClient IpbMcpClient;

typedef struct {
    const char *name;              /* the server's, for messages */
    const IpbServerParams *params; /* expanded (copied) */
    const char *cwd;               /* for a stdio server without one of its own; NULL: ours */
    const char *state_dir;       /* of ours, out of reach of sandboxed servers; NULL: the user's */
    const char *const *keep_out; /* what sandboxed servers never write, besides; or NULL */
    const char *const *base_env; /* what "HOME LOGNAME PATH SHELL TERM USER …" are taken from */
    /* If the parameters do not say; 0: the defaults of limits.c. */
    unsigned connect_timeout_ms; /* spawn and handshake */
    unsigned call_timeout_ms;    /* without answer or progress */
    IpbMcpEras *eras;            /* what is known of servers (referenced), or NULL */
} IpbMcpClientOptions;

typedef struct {
    /* The server is gone, or of no use any more, after it was connected; calls fail by themselves, and
     * before. Not told after close. May be NULL. */
    void (*on_closed)(const GError *why, void *data);
    /* A log message of the server ("debug" … "emergency"), a line of its stderr ("stderr") or stray
     * output ("warning"): for people, untrusted, without control characters, at most 100 lines a
     * second of 4 KiB. May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    /* The list of tools changed; several changes at once are told as one. May be NULL. */
    void (*on_tools_changed)(void *data);
} IpbMcpClientFuncs;

typedef struct {
    double progress;
    double total;        /* 0: not known */
    const char *message; /* or NULL; untrusted */
} IpbMcpProgress;

/* @error or a result. @result is the whole result object ("tools" array of all pages; or "content", "structuredContent",
 * "isError"); *document owns it: set it to NULL to keep it. */
typedef void (*IpbMcpResultFunc)(const IpbJson *result, IpbJsonDoc **document, const GError *error,
                                 void *data);
typedef void (*IpbMcpProgressFunc)(const IpbMcpProgress *progress, void *data);

IpbMcpClient *ipb_mcp_client_new(IpbLoop *loop, const IpbMcpClientOptions *options,
                                 const IpbMcpClientFuncs *funcs, void *data);
/* Connects; @result is the server's answer to initialize or server/discover. Errors: NOT_FOUND (command), TIMEOUT (connect_timeout), SERVER (with
 * the last lines of its stderr), PROTOCOL, REFUSED (401, 403), UNAVAILABLE (no connection, no libcurl). */
void ipb_mcp_client_connect(IpbMcpClient *client, IpbMcpResultFunc func, void *data);
/* All pages (LIMIT beyond the limits of pages and tools), each within the connect timeout. @result:
 * {"tools":[…]}, each tool as the server sent it, an object with a "name"; nothing else is checked. */
void ipb_mcp_client_list_tools(IpbMcpClient *client, IpbMcpResultFunc func, void *data);
/* @arguments_json: text of an object, passed on byte for byte but for whitespace outside strings. A result with isError is a result; it has a
 * "content" array of objects with a "type", or (only then may that be missing) a "structuredContent".
 * Errors: INVALID, TIMEOUT, CANCELLED, SERVER (it died, or answered an error), PROTOCOL, LIMIT.
 * Returns the call's id. */
int64_t ipb_mcp_client_call_tool(IpbMcpClient *client, const char *tool, const char *arguments_json,
                                 size_t size, IpbMcpProgressFunc on_progress, IpbMcpResultFunc func,
                                 void *data);
/* Tells the server; @func gets CANCELLED. Nothing if the call has ended. */
void ipb_mcp_client_cancel(IpbMcpClient *client, int64_t call);
/* The ladder: close stdin, 2 s, SIGTERM, 2 s, SIGKILL, to the whole process group. Pending calls end
 * with CANCELLED. @done (may be NULL) when nothing is left; not called if the client is freed before. */
void ipb_mcp_client_close(IpbMcpClient *client, void (*done)(void *data), void *data);
void ipb_mcp_client_free(IpbMcpClient *client);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpClient, ipb_mcp_client_free)
