/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSession: one kernel with its tools, its approvals and its workspace. Cells run one after the
 * other. Each reports its events to a callback of its own, and DONE is always the last. The MCP
 * server, the command line, the SDK's core and the library are built on it.
 *
 * Ownership: the owner frees the session, after ipb_session_close() if it wants an orderly end.
 * Events are borrowed for the callback. Callbacks may call anything but ipb_session_free().
 */
#pragma once

#include "kernel/commands.h"
#include "sandbox/plan.h"
#include "session/cells.h"
#include "session/checkpoints.h"
#include "session/installer.h"
#include "session/registrar.h"
#include "session/runtime.h"
#include "tools/application-tools.h"

typedef struct IpbSession IpbSession;

/* A call of a tool of the application, which a cell has made and which was approved. Everything is
 * borrowed. */
typedef struct {
    uint64_t id;
    const char *server_name, *tool_name; /* both are offered by the application */
    const char *arguments_json;          /* a JSON object; untrusted: a cell wrote it */
    size_t arguments_size;
} IpbApplicationCall;

typedef void (*IpbApplicationCallFunc)(const IpbApplicationCall *call, void *data);
/* The call with this id needs no answer any more: its cell was interrupted, or its session ends. */
typedef void (*IpbApplicationCancelFunc)(uint64_t call, void *data);

typedef struct {
    /* the kernel's directory; NULL: the current one */
    const char *workspace;
    /* where the kernel begins, and returns to after each cell, with a notice. NULL: it begins in
     * the workspace, and stays where a cell goes */
    const char *working_dir;
    /* displays come with image_path: their images are saved in images_dir */
    bool saves_images;
    /* NULL: "images" in the workspace */
    const char *images_dir;
    /* "NAME=value" for the kernel, beyond the minimum; or NULL */
    const char *const *kernel_env;
    /* Where cells call tools: another program's tool server. NULL: here, the tools of this
     * session. */
    const char *tool_server_host;
    unsigned tool_server_port;
    const char *tool_server_token; /* or NULL */
    /* the names that ${NAME} in server parameters may stand for; NULL: all */
    const char *const *server_variables;
    /* the application's environment, for ${NAME} and servers; NULL: this process's. The workspace's
     * .env adds names that it lacks. */
    const char *const *env;
    /* JSON object {name: server_params}: servers that cells may call by exactly these parameters
     * without a registration, as packages made by mcpygen do; NULL: none. Sessions without a
     * sandbox may call others, too: tools/tool-host.h */
    const char *allowed_servers;
    /* Tools that the application itself runs: tools/application-tools.h. A reference is taken.
     * NULL: none. They need on_tool_call and on_tool_cancelled. */
    IpbApplicationTools *application_tools;
    /* of calls that no rule names */
    IpbApprovalPolicy approval;
    /* the user did not choose it: installations by cells ask even if it allows calls */
    bool is_approval_default;
    /* path of a rules file, or NULL */
    const char *approval_rules;
    /* path of a file that gets a line for each decision, or NULL */
    const char *audit_log;
    /* path of a file that gets the events of the session: session/record.h; or NULL */
    const char *record;
    /* of another session, or the directory of all records: a sandbox protects it; or NULL */
    const char *other_record;
    /* negative: none */
    int64_t approval_timeout_ms;
    /* asks; the answer is given by ipb_session_respond(). NULL: no one can be asked */
    IpbApprovalAskFunc on_approval;
    /* the answer is not needed any more; may be NULL */
    IpbApprovalWithdrawnFunc on_approval_withdrawn;
    /* A call of one of application_tools was approved: run it, and answer by
     * ipb_session_answer_tool(), later. NULL: there are no such tools */
    IpbApplicationCallFunc on_tool_call;
    IpbApplicationCancelFunc on_tool_cancelled;
    /* of MCP servers; 0: 30000 */
    unsigned connect_timeout_ms;
    /* with has_seed: for random generators in the kernel */
    int64_t seed;
    bool has_seed;
    /* kernels run in sandboxes */
    bool is_sandboxed;
    /* in a sandbox: installations may run code of the package, and accept URLs */
    bool allows_builds;
    /* in a sandbox: servers that a client registers need not run in one */
    bool allows_unsandboxed_servers;
    /* servers may be registered: a sandbox protects their packages from the start */
    bool makes_packages;
    /* path of what sandboxes allow, ipybox-sandbox-config(5); NULL: the default. A file that does
     * not exist is an error */
    const char *sandbox_config;
    /* in a sandbox: domains that may be reached, beyond those of its configuration; NULL: none */
    const char *const *allowed_domains;
    /* of a sandbox, instead of its configuration's: a JSON object as "limits" there; NULL: none */
    const char *limits;
    /* Each shell escape (`!cmd`, `%%bash`) is a call of the tool "shell" or "shell_magic" of the
     * server "ipybox", so that rules and approvals decide on it. requires_shell_escape refuses
     * programs that are started in other ways; it needs approves_shell_cmds. Both are hooks in the
     * kernel's Python, not walls: SECURITY.md. */
    bool approves_shell_cmds;
    bool requires_shell_escape;
    /* in a sandbox: what cells write in the workspace goes to a layer, until it is committed */
    bool is_staged;
    /* where layers are kept; NULL: "staged" in the state directory */
    const char *staging_dir;
    /* the client is a front end of Jupyter; see IpbKernelRules */
    bool has_rich_client;
    /* how many cells can be undone: a checkpoint is made before each, and the oldest is dropped; 0:
     * none, and IPB_MAX_UNDO at most */
    unsigned undo;
    /* from the start of a kernel until it is ready; 0: 10000 */
    unsigned kernel_init_timeout_ms;
    /* makes the session's kernel; NULL: the runtime's default */
    IpbKernelProvider *kernel_provider;
    /* Gets the events that belong to no cell: READY, START_FAILED; and see
     * ipb_session_report_late_output(). May be NULL. */
    IpbEventFunc on_event;
    /* What MCP servers log and what else is worth a log line; level is "debug", "info", "warning".
     * May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    /* for all functions above */
    void *data;
} IpbSessionOptions;

IpbSession *ipb_session_new(IpbRuntime *runtime, const IpbSessionOptions *options, GError **error);
/* How a session is forked. */
typedef struct {
    /* a checkpoint of the session, whose state the new session gets; 0: the kernel's present one */
    uint64_t checkpoint;
    /* with has_seed: of the branch's random generators; else it continues with the same numbers */
    int64_t seed;
    bool has_seed;
    /* As in IpbSessionOptions, of the new session. A function of approvals or tool calls must be
     * NULL if it is NULL there. */
    IpbApprovalAskFunc on_approval;
    IpbApprovalWithdrawnFunc on_approval_withdrawn;
    IpbApplicationCallFunc on_tool_call;
    IpbApplicationCancelFunc on_tool_cancelled;
    IpbEventFunc on_event;
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbSessionForkOptions;

/* Makes a session whose kernel is a branch of the live one, with all of its state
 * (docs/branches.md). Its workspace, options, rules and servers are those of @forerunner; it has a
 * token, approvals and MCP servers of its own. Sessions with a staged workspace share its layer.
 * @func is called once from the loop, unless the new session is freed before: kernel/kernel.h.
 * After an error the session is of no use: close or free it. Errors: BUSY: a cell or a tool call
 * runs (of a checkpoint they may), or files are being restored; INVALID: the session is closed, is
 * recorded, has no kernel process, or its kernels cannot be branched; NOT_FOUND: there is no such
 * checkpoint. */
IpbSession *ipb_session_fork(IpbSession *forerunner, const IpbSessionForkOptions *options,
                             IpbBranchedFunc func, void *func_data, GError **error);
/* See session/checkpoints.h. Errors also as for ipb_session_fork(). */
bool ipb_session_checkpoint(IpbSession *session, const char *name, IpbCheckpointMadeFunc func,
                            void *data, GError **error);
/* The session keeps its id, registrations, approvals and MCP servers, and gets another kernel
 * process. Between cells. */
bool ipb_session_restore(IpbSession *session, uint64_t checkpoint, bool with_files,
                         IpbRestoredFunc func, void *data, GError **error);
bool ipb_session_undo(IpbSession *session, unsigned n, bool with_files, IpbRestoredFunc func,
                      void *data, GError **error);
/* Borrowed: for what needs neither cells nor the kernel. */
IpbCheckpoints *ipb_session_checkpoints(IpbSession *session);
/* Whether a session that is made now would begin like this one did: the files that it read when it
 * was made are the same. (.env, configuration and rules, the registry.) */
bool ipb_session_is_current(const IpbSession *session);
/* It gets another owner: from now on it calls the functions of @options with its data. A function
 * of approvals or tool calls that was NULL must be NULL. Before the first cell. */
void ipb_session_hand_over(IpbSession *session, const IpbSessionOptions *options);
/* Gets a kernel ready in the background, as execute does, too. READY or START_FAILED is reported to
 * on_event of the options, from the loop, even if the kernel is ready already. @rehearses: see
 * ipb_kernel_start(). */
void ipb_session_start(IpbSession *session, bool rehearses);
/* Reports to on_event of the options what the next cell would begin with: LATE_OUTPUT and NOTICE
 * events about the time since the last cell. Does nothing while a cell runs: its events have
 * them. */
void ipb_session_report_late_output(IpbSession *session);
/* From now on @func gets late events: output, displays and updates of code that still runs
 * although its cell has ended, as they come. NULL: no function gets them. Unless the client is
 * rich, later cells have the text in any case, by LATE_OUTPUT. */
void ipb_session_watch_late_output(IpbSession *session, IpbEventFunc func, void *data);

/* Queues a cell. @timeout_ms: of its running, waits for approvals not counted; 0: none. Returns its
 * number, or 0 with @error: INVALID, LIMIT (too large, too many waiting). No event comes before it
 * returns. */
uint64_t ipb_session_execute(IpbSession *session, const char *code, unsigned timeout_ms,
                             IpbEventFunc on_event, void *data, GError **error);
/* The same with further options. */
uint64_t ipb_session_execute_with(IpbSession *session, const char *code,
                                  const IpbCellOptions *options, IpbEventFunc on_event, void *data,
                                  GError **error);
/* Sends the kernel a request: ipb_kernel_request() in kernel/kernel.h. INVALID also if the session
 * is closed. A request without an answer when the session closes ends with CANCELLED. */
bool ipb_session_request(IpbSession *session, const char *method, const char *params,
                         IpbKernelReplyFunc func, void *data, GError **error);
/* Runs a command beside the kernel: ipb_kernel_run_command() in kernel/kernel.h. The host program
 * asks for it, so it needs no approval. INVALID also if the session is closed. */
uint64_t ipb_session_run_command(IpbSession *session, const IpbCommandOptions *options,
                                 IpbCommandFunc func, void *data, GError **error);
/* See ipb_kernel_commands(). */
IpbCommands *ipb_session_commands(IpbSession *session);
/* Interrupts the cell if it runs, drops it if it waits: DONE with CANCELLED, which comes at once
 * for a cell that waits. False if there is no such cell. */
bool ipb_session_cancel(IpbSession *session, uint64_t cell);
/* Answers an INPUT_REQUEST of the running cell. @value: what was typed, without the end of the
 * line; NULL: there is no answer, and code gets an EOFError that says @why. Returns false with
 * @error: NOT_FOUND (the answer is not needed any more), LIMIT (over 1 MiB), INVALID (no UTF-8). */
bool ipb_session_answer_input(IpbSession *session, uint64_t input, const char *value,
                              const char *why, GError **error);
/* The number of the cell that the kernel has, also before its STARTED; 0: none, or handlers of a
 * comm message. */
uint64_t ipb_session_running_cell(const IpbSession *session);
/* Interrupts the running cell, if any, as Ctrl-C does. */
void ipb_session_interrupt(IpbSession *session);
/* Keeps notices (texts, copied) whose answer was dropped before anybody got it. They are the first
 * notices of the next cell. */
void ipb_session_keep_notices(IpbSession *session, const GPtrArray *notices);
/* Holds or releases waiting cells. They start when every holder has released them. Holders are
 * parts that prepare what cells need, and clients that do not read. */
void ipb_session_hold_cells(IpbSession *session, bool is_held);
/* Back-pressure: while paused nothing of the kernel's output is read. */
void ipb_session_set_paused(IpbSession *session, bool paused);
/* Answers an approval request; false if it is not pending any more. */
bool ipb_session_respond(IpbSession *session, uint64_t request, bool accept);
/* Refuses it because no one could be asked; @why is a clause for the error. */
bool ipb_session_refuse(IpbSession *session, uint64_t request, const char *why);
void ipb_session_set_approval(IpbSession *session, IpbApprovalPolicy policy);
/* Answers a call that on_tool_call reported: ipb_tool_host_answer_application(). */
void ipb_session_answer_tool(IpbSession *session, uint64_t call, const IpbJson *result,
                             IpbJsonDoc **document, const GError *error);
/* Starts a fresh kernel and stops all MCP servers. Running and waiting cells end with LOST. Calls
 * @done (may be NULL) when the servers are gone. */
void ipb_session_reset(IpbSession *session, void (*done)(void *data), void *data);

/* Registers an MCP server: ipb_registrar_register() in session/registrar.h. INVALID also if cells
 * cannot call tools. */
uint64_t ipb_session_register(IpbSession *session, const IpbRegisterOptions *options,
                              IpbRegisterFunc func, void *data, GError **error);
void ipb_session_cancel_register(IpbSession *session, uint64_t number);
/* Lets the session call a registered server. */
void ipb_session_allow(IpbSession *session, const IpbRegistration *registration);
/* Lets the session call every registered server that has a package in @directory (NULL: the
 * workspace) or below it. So packages generated there earlier continue to work, and servers
 * registered for another workspace cannot be reached. */
bool ipb_session_allow_below(IpbSession *session, const char *directory, GError **error);
/* The names of registered servers that have a package in mcptools of the workspace; sorted. */
char **ipb_session_packages(IpbSession *session, GError **error);

/* Installs a Python package for the kernel: ipb_installer_install() in session/installer.h. */
bool ipb_session_install(IpbSession *session, const char *package, IpbInstallLineFunc on_line,
                         IpbInstallDoneFunc on_done, void *data, GError **error);
void ipb_session_cancel_install(IpbSession *session);

/* Lists, commits or discards what cells have changed in a staged workspace:
 * session/staged-workspace.h. INVALID: it is not staged; BUSY: a cell runs. */
bool ipb_session_work_on_changes(IpbSession *session, IpbStagedAction action,
                                 const char *const *paths, IpbStagedFunc func, void *data,
                                 GError **error);

/* Commits or discards them after an approval: session/approved-changes.h. INVALID: see above. */
bool ipb_session_request_changes(IpbSession *session, bool is_discard, const char *const *paths,
                                 IpbStagedFunc func, void *data, GError **error);
/* What was requested ends with CANCELLED, unless it is approved already. */
void ipb_session_cancel_changes(IpbSession *session);

/* The layer of a staged workspace; NULL: it is not staged. Borrowed. */
const char *ipb_session_layer(const IpbSession *session);
/* Whether the layer is left behind when the session is freed: no other session, forked from it or
 * its forerunner, shares it. */
bool ipb_session_is_last_of_layer(const IpbSession *session);
const char *ipb_session_workspace(IpbSession *session);
/* What code of the session may read and write in the workspace, by the session's configuration of a
 * sandbox; without a sandbox, by the default one. Caller unrefs. */
IpbSandboxPlan *ipb_session_make_reading_plan(IpbSession *session, GError **error);
/* The plan of a sandbox in which a program has the rights of a cell, but cannot call tools. For a
 * session that is sandboxed and not staged. Caller unrefs. */
IpbSandboxPlan *ipb_session_make_command_plan(IpbSession *session, GError **error);
/* Where its kernel calls tools: a port of 127.0.0.1, and the token. 0: in its sandbox only. */
unsigned ipb_session_tool_port(IpbSession *session);
const char *ipb_session_tool_token(IpbSession *session);
/* Ends everything in order. Calls @done from the loop when nothing is left. */
void ipb_session_close(IpbSession *session, void (*done)(void *data), void *data);
void ipb_session_free(IpbSession *session);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSession, ipb_session_free)
