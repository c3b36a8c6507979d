/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolHost: the tools of one session. It knows the registrations that the session may call, owns
 * their MCP clients (which start at the first call and end with the session or a reset), and takes
 * a call through its steps: known id, approval, connect, call, result.
 *
 * A registration is replaced when later ones of the same name have all its roots. Its calls then
 * fail with an error that names its successor.
 *
 * If takes_params is set, a call may name a server that is not registered by its parameters.
 * tools/approvals.h says how such calls are decided. Their servers are started, shared, restarted
 * and ended like registered ones.
 *
 * Tools of the application (tools/application-tools.h) need no server: after the approval the
 * application runs the call, and answers it.
 */
#pragma once

#include "base/loop.h"
#include "json/json.h"
#include "mcp/client.h"
#include "tools/application-tools.h"
#include "tools/approvals.h"
#include "tools/registry.h"
#include "tools/tool-result.h"

typedef struct IpbToolHost IpbToolHost;

typedef struct {
    IpbApprovals *approvals;     /* borrowed */
    const char *cwd;             /* of stdio servers */
    const char *state_dir;       /* see mcp/client.h */
    const char *const *keep_out; /* see mcp/client.h */
    const char *const
        *env; /* for ${NAME} and what servers inherit: the application's environment and .env */
    unsigned connect_timeout_ms;
    /* Without an answer or progress, if server_params set none; 0: 600000 */
    unsigned call_timeout_ms;
    IpbLegacyServers *legacy_servers; /* see mcp/client.h */
    /* Callers may name servers that are not registered, because they are kernels without a sandbox,
     * which can start any program anyway. At most 64 such servers, with 64 KiB of parameters
     * each. */
    bool takes_params;
    /* Gets what servers log and write to stderr; may be NULL. */
    void (*on_log)(const char *server_name, const char *level, const char *text, void *data);
    /* A call of ipybox's own tools (server "ipybox") was approved. Answer it with
     * ipb_tool_host_answer. NULL: there are no own tools. */
    void (*on_own_call)(uint64_t call, const char *tool_name, const char *arguments_json,
                        size_t arguments_size, void *data);
    void (*on_own_cancel)(uint64_t call, void *data);
    /* The application's tools; NULL: it has none. The host takes a reference. */
    IpbApplicationTools *application_tools;
    /* A call of one of them was approved. Answer it with ipb_tool_host_answer_application(). All
     * texts are borrowed. Needed if there are such tools. */
    void (*on_application_call)(uint64_t call, const char *server_name, const char *tool_name,
                                const char *arguments_json, size_t arguments_size, void *data);
    /* It needs no answer any more. */
    void (*on_application_cancel)(uint64_t call, void *data);
    /* Makes the arguments of an installation (own tool IPB_INSTALL_TOOL) from those that the caller
     * sent: the ones that are approved, logged and run. NULL with @error: the call is refused. The
     * host frees them. NULL: packages are not installed, and a call is like that of another own
     * tool. */
    char *(*make_install_arguments)(const char *arguments_json, size_t size, GError **error,
                                    void *data);
    /* Reports the progress of a running call; may be NULL. */
    void (*on_progress)(const char *server_name, const char *tool_name,
                        const IpbMcpProgress *progress, void *data);
    /* A call that was approved has ended, or was cancelled; @error: NULL if it succeeded. @request:
     * of its approval. May be NULL. */
    void (*on_end)(uint64_t request, const GError *error, void *data);
    void *data;
} IpbToolHostOptions;

/* Reports how a call ended: either @result or @error is set. @result is the text of one JSON value,
 * which is passed on unchanged (take a reference to keep it; see tools/tool-result.h). Errors:
 * REFUSED and TIMEOUT (of the approval, and of nothing else), NOT_FOUND (no such registration,
 * command or variable), INVALID, CANCELLED, LIMIT, PROTOCOL, SERVER (the tool failed and says why,
 * or its server did not answer). */
typedef void (*IpbToolCallFunc)(GBytes *result, const GError *error, void *data);

IpbToolHost *ipb_tool_host_new(IpbLoop *loop, const IpbToolHostOptions *options);
/* Allows the session to call a registration (copied). It replaces one with the same id. */
void ipb_tool_host_allow(IpbToolHost *host, const IpbRegistration *registration);
/* Allows the session what @other allows, with its aliases. */
void ipb_tool_host_allow_like(IpbToolHost *host, const IpbToolHost *other);
/* No call is under way or waits for its approval. */
bool ipb_tool_host_is_idle(const IpbToolHost *host);
/* Calls that name the server @name with @params go to the registration @id. It was requested with
 * these parameters, but made with others. */
void ipb_tool_host_add_alias(IpbToolHost *host, const char *name, const IpbJson *params,
                             const char *id);
/* Calls a tool. @server_id: the id in the generated package. Code generated by ipybox 0.9 and
 * mcpygen has none: then it is NULL, and @server_name and @server_params must equal an allowed
 * registration, or see takes_params. All texts are hostile and copied. The copy of @arguments_json
 * is shown for approval and sent to the server. @form: that of the result. @func is called once,
 * from the loop. Returns a handle for cancel. */
uint64_t ipb_tool_host_call(IpbToolHost *host, const char *server_id, const char *server_name,
                            const IpbJson *server_params, const char *tool_name,
                            const char *arguments_json, size_t arguments_size,
                            IpbToolResultForm form, IpbToolCallFunc func, void *data);
/* Ends a call that on_own_call reported, with either @result or @error. Does nothing if the call
 * has ended. */
void ipb_tool_host_answer(IpbToolHost *host, uint64_t call, GBytes *result, const GError *error);
/* Ends a call that on_application_call reported, with either @result, the result object of a tool
 * as MCP has it, or @error, whose message says what failed. *document has the result, and may be
 * taken. Untrusted: a result that is wrong ends the call with PROTOCOL. Does nothing if the call
 * has ended. */
void ipb_tool_host_answer_application(IpbToolHost *host, uint64_t call, const IpbJson *result,
                                      IpbJsonDoc **document, const GError *error);
/* Cancels a call whose caller is gone: @func is not called any more, and the server is notified.
 * Does nothing if the call has ended. */
void ipb_tool_host_cancel(IpbToolHost *host, uint64_t call);
/* Ends all calls (CANCELLED, from the loop) and shuts down all servers. @done (may be NULL) is
 * called when they are gone. They start again at the next call, which may come at once. */
void ipb_tool_host_reset(IpbToolHost *host, void (*done)(void *data), void *data);
/* Kills what is left. No function is called any more. Free the tool channel before. */
void ipb_tool_host_free(IpbToolHost *host);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolHost, ipb_tool_host_free)
