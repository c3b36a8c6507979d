/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSession: one kernel with its tools, its approvals and its workspace. Cells run one after the
 * other; each tells its events to its own callback, and DONE is always the last. Everything above
 * (MCP server, command line, later SDK and library) goes through here.
 *
 * Ownership: the owner frees the session, after ipb_session_close if it wants an orderly end. Events are
 * borrowed for the callback. Callbacks come from the loop, never from within a call, and may call anything
 * but ipb_session_free.
 */
#pragma once

#include "apigen/apigen.h"
#include "kernel/kernel.h"
#include "session/runtime.h"
#include "tools/approvals.h"

typedef struct IpbSession IpbSession;

typedef struct {
    const char *workspace; /* the kernel's directory; NULL: the current one */
    const char *
        working_dir; /* where the kernel begins, and returns to after each cell, with a notice; NULL: it begins in the
                              * workspace, and stays where a cell goes */
    const char *images_dir;        /* NULL: "images" in the workspace */
    bool saves_no_images;          /* displays come without image_path */
    const char *const *kernel_env; /* "NAME=value" for the kernel, beyond the minimum; or NULL */
    /* Where tools are called, in the kernel's role: a tool server of somebody else; NULL: here, those of this session. */
    const char *tool_server_host;
    unsigned tool_server_port;
    const char *tool_server_token; /* or NULL */
    /* The names that ${NAME} in server parameters may stand for; NULL: all */
    const char *const *server_variables;
    const char *const *env; /* the application's environment, for ${NAME} and servers; NULL: ours.
                                 * The workspace's .env is added below it. */
    /* JSON object {name: server_params}: servers that cells may call by exactly these parameters
     * without a registration, as packages made by mcpygen do; NULL: none. Sessions without a
     * sandbox may call others, too: tools/tool-host.h */
    const char *allowed_servers;
    IpbApprovalPolicy approval;     /* of calls that no rule names */
    const char *approval_rules;     /* path of a rules file, or NULL */
    const char *audit_log;          /* path of a file that gets a line for each decision, or NULL */
    int64_t approval_timeout_ms;    /* negative: none */
    IpbApprovalAskFunc on_approval; /* for what is to be asked; answer by ipb_session_respond */
    IpbApprovalWithdrawnFunc
        on_approval_withdrawn;   /* its answer is not waited for any more; may be NULL */
    unsigned connect_timeout_ms; /* of MCP servers; 0: 30000 */
    int64_t seed;
    bool has_seed;
    bool is_sandboxed;  /* kernels live in sandboxes */
    bool allows_builds; /* in a sandbox: installations may run code of the package, and take URLs */
    bool frees_servers; /* in a sandbox: servers that a client registers need not run in one */
    /* Servers may be registered: a sandbox protects their packages from the start */
    bool makes_packages;
    /* Path of what they allow, ipybox-sandbox-config(5); NULL: the default; a file that is not there is an error */
    const char *sandbox_config;
    /* Of a sandbox, instead of its configuration's: a JSON object as "limits" there. NULL: none */
    const char *limits;
    /* Each shell escape (`!cmd`, `%%bash`) is a call of the tool "shell" or "shell_magic" of the
     * server "ipybox", so that rules and approvals decide on it. requires_shell_escape refuses
     * programs that are started in other ways; it needs approves_shell_cmds. Both are hooks in the
     * kernel's Python, not walls: SECURITY.md. */
    bool approves_shell_cmds;
    bool requires_shell_escape;
    unsigned kernel_init_timeout_ms; /* from the start of a kernel until it is ready; 0: 10000 */
    /* makes the session's kernel; NULL: the runtime's default */
    IpbKernelProvider *kernel_provider;
    /* Gets the events that belong to no cell: READY, START_FAILED; and see
     * ipb_session_report_late_output(). May be NULL. */
    IpbEventFunc on_event;
    /* What MCP servers log and what else is worth a log line; level is "debug", "info", "warning". May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data; /* for on_event, on_approval, on_approval_withdrawn and on_log */
} IpbSessionOptions;

IpbSession *ipb_session_new(IpbRuntime *runtime, const IpbSessionOptions *options, GError **error);
/* Gets a kernel ready in the background, as execute does, too. READY or START_FAILED is reported to
 * on_event of the options, from the loop, also if the kernel is ready already. */
void ipb_session_start(IpbSession *session);
/* Reports to on_event of the options what the next cell would begin with: LATE_OUTPUT and NOTICE events
 * about the time since the last cell. Does nothing while a cell runs: its events have them. */
void ipb_session_report_late_output(IpbSession *session);

/* Queues a cell. @timeout_ms: of its running, waits for approvals not counted; 0: none. Returns its number, or 0:
 * INVALID, LIMIT (too large, too many waiting). */
uint64_t ipb_session_execute(IpbSession *session, const char *code, unsigned timeout_ms,
                             IpbEventFunc on_event, void *data, GError **error);
/* The same, with what Jupyter's clients may ask for besides. */
typedef struct {
    unsigned timeout_ms;
    bool is_silent;               /* see kernel/kernel.h */
    bool stores_history;          /* likewise */
    const char *user_expressions; /* likewise; NULL: none */
} IpbCellOptions;
uint64_t ipb_session_execute_with(IpbSession *session, const char *code,
                                  const IpbCellOptions *options, IpbEventFunc on_event, void *data,
                                  GError **error);
/* Asks the kernel: ipb_kernel_request() in kernel/kernel.h. INVALID also when the session is closed. What has no answer
 * when the session closes is told CANCELLED. */
bool ipb_session_request(IpbSession *session, const char *method, const char *params,
                         IpbKernelReplyFunc func, void *data, GError **error);
/* Interrupts the cell if it runs, drops it if it waits: DONE with CANCELLED. False if there is none. */
bool ipb_session_cancel(IpbSession *session, uint64_t cell);
/* The running cell, if any, as Ctrl-C does. */
void ipb_session_interrupt(IpbSession *session);
/* Keeps notices (texts, copied) whose answer was dropped before it reached anybody. They are the
 * first notices of the next cell. */
void ipb_session_keep_notices(IpbSession *session, const GPtrArray *notices);
/* Back-pressure: while paused nothing of the kernel's output is read. */
void ipb_session_set_paused(IpbSession *session, bool paused);
/* Answers an approval request; false if it does not wait any more. */
bool ipb_session_respond(IpbSession *session, uint64_t request, bool accept);
/* Like a no, where nobody could be asked; @why is a clause for the error. */
bool ipb_session_refuse(IpbSession *session, uint64_t request, const char *why);
void ipb_session_set_approval(IpbSession *session, IpbApprovalPolicy policy);
/* A fresh kernel, all MCP servers stopped; running and waiting cells end with LOST. @done (may be NULL) when the
 * servers are gone. */
void ipb_session_reset(IpbSession *session, void (*done)(void *data), void *data);

/* Connects to an MCP server, writes the package @root_dir/@name from its tools, registers it and lets this
 * session call it. @modules: names of the generated modules, NULL-terminated. */
typedef void (*IpbRegisterFunc)(const char *const *modules, const GError *error, void *data);
typedef struct {
    const char *name;
    const IpbJson *params;
    const char *root_dir; /* NULL: "mcptools" in the workspace; relative to the workspace */
    bool async_api;
    IpbApigenListing listing;
    /* And not the application's: in a sandboxed session the server runs in a sandbox with the same configuration */
    bool is_of_client;
} IpbRegisterOptions;
/* Holds or releases waiting cells. They start when every holder has released them. Holders are
 * parts that prepare what cells need, and clients that do not read. */
void ipb_session_hold_cells(IpbSession *session, bool is_held);
/* 0 with @error (INVALID, NOT_FOUND, BUSY) if nothing was started; else @func is called once, and the number
 * cancels: then @func gets CANCELLED. */
uint64_t ipb_session_register(IpbSession *session, const IpbRegisterOptions *options,
                              IpbRegisterFunc func, void *data, GError **error);
void ipb_session_cancel_register(IpbSession *session, uint64_t number);
/* Lets the session call a registration. */
void ipb_session_allow(IpbSession *session, const IpbRegistration *registration);

/* Installs a package for the kernel's Python. @on_output: lines as they come; @func: the whole output (bounded) or
 * an error that holds it. False with @error (INVALID, BUSY: one at a time) if nothing was started. */
typedef void (*IpbInstallOutputFunc)(const char *line, void *data);
typedef void (*IpbInstallFunc)(const char *output, const GError *error, void *data);
bool ipb_session_install(IpbSession *session, const char *package, IpbInstallOutputFunc on_output,
                         IpbInstallFunc func, void *data, GError **error);
void ipb_session_cancel_install(IpbSession *session);

const char *ipb_session_workspace(IpbSession *session);
/* Where its kernel calls tools: a port of 127.0.0.1, and the token. 0: in its sandbox only. */
unsigned ipb_session_tool_port(IpbSession *session);
const char *ipb_session_tool_token(IpbSession *session);
/* Ends everything in order; @done from the loop when nothing is left. */
void ipb_session_close(IpbSession *session, void (*done)(void *data), void *data);
void ipb_session_free(IpbSession *session);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSession, ipb_session_free)
