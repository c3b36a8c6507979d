/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief A session: one stateful IPython kernel with its workspace, its tools and its approvals.
 *
 * Cells of a session run one after the other. Each starts with the state that earlier cells left.
 * If the kernel dies, its cell ends with #IPYBOX_STATUS_LOST, and the next cell gets a fresh
 * kernel.
 *
 * For threads and for calls that block, see runtime.h. A callback may call every function except
 * those that block.
 *
 * @code
 * IpyboxSessionOptions options = IPYBOX_SESSION_OPTIONS_INIT;
 * options.workspace = "/path/to/workspace";
 * options.sandbox = IPYBOX_SANDBOX_ON;
 * g_autoptr(IpyboxSession) session = ipybox_session_new(runtime, &options, &error);
 *
 * IpyboxExecuteOptions limits = IPYBOX_EXECUTE_OPTIONS_INIT;
 * limits.timeout_ms = 30000;
 * g_autoptr(IpyboxResult) result =
 *     ipybox_session_execute(session, "6 * 7", &limits, NULL, &error);
 * @endcode
 */
#pragma once

#include <ipybox/approval.h>
#include <ipybox/command.h>
#include <ipybox/event.h>
#include <ipybox/runtime.h>
#include <ipybox/tool-call.h>

G_BEGIN_DECLS

/** See the description of this file. Opaque; free it with ipybox_session_free(). */
typedef struct IpyboxSession IpyboxSession;

/**
 * @brief Asks whether a tool call may run. Answer with ipybox_approval_respond(), now or later.
 *
 * To answer later, keep the request with ipybox_approval_ref().
 *
 * @param session the session whose cell calls a tool
 * @param approval the request; borrowed
 * @param user_data of the session's options
 */
typedef void (*IpyboxApprovalFunc)(IpyboxSession *session, IpyboxApproval *approval,
                                   gpointer user_data);

/**
 * @brief Reports that a request which the program keeps needs no answer any more.
 *
 * Its time ran out, or its cell has ended.
 *
 * @param session the session
 * @param approval the request; borrowed
 * @param user_data of the session's options
 */
typedef void (*IpyboxWithdrawnFunc)(IpyboxSession *session, IpyboxApproval *approval,
                                    gpointer user_data);

/**
 * @brief Runs a call of one of the program's own tools. Answer it now or later, see tool-call.h.
 *
 * To answer later, keep the call with ipybox_tool_call_ref().
 *
 * @param session the session whose code calls the tool
 * @param call the call, which was approved; borrowed
 * @param user_data of the session's options
 */
typedef void (*IpyboxToolCallFunc)(IpyboxSession *session, IpyboxToolCall *call,
                                   gpointer user_data);

/**
 * @brief Receives log lines of the session and of its MCP servers.
 *
 * @param session the session; NULL while ipybox_session_new() runs
 * @param level "debug", "info", "warning", "error", or a level of an MCP server's own
 * @param text one line, untrusted
 * @param user_data of the session's options
 */
typedef void (*IpyboxLogFunc)(IpyboxSession *session, const char *level, const char *text,
                              gpointer user_data);

/**
 * @brief Receives an event of a cell, or of the session itself.
 *
 * @param session the session
 * @param event what happened; borrowed
 * @param user_data of the cell's options, or of the session's
 */
typedef void (*IpyboxEventFunc)(IpyboxSession *session, const IpyboxEvent *event,
                                gpointer user_data);

/** What separates the code of cells from the rest of the system. */
typedef enum {
    /** Nothing: code may do what this process may do. */
    IPYBOX_SANDBOX_OFF,
    /** A sandbox: whatever its configuration does not allow fails. If no sandbox can be made, each
     * cell ends with #IPYBOX_STATUS_LOST, and its message says what is missing. */
    IPYBOX_SANDBOX_ON,
} IpyboxSandbox;

/** Where what cells write in the workspace goes. */
typedef enum {
    /** To the workspace. */
    IPYBOX_WORKSPACE_LIVE,
    /** To a layer, until ipybox_session_commit() writes it to the workspace. It needs
     * #IPYBOX_SANDBOX_ON. */
    IPYBOX_WORKSPACE_STAGED,
} IpyboxWorkspaceMode;

/** The newest version of #IpyboxSessionOptions. */
#define IPYBOX_SESSION_OPTIONS_VERSION 1

/**
 * @brief Options of ipybox_session_new().
 *
 * Initialise them with #IPYBOX_SESSION_OPTIONS_INIT. Everything but user_data is copied. A pointer
 * may be NULL, unless its description says something else.
 */
typedef struct {
    /** #IPYBOX_SESSION_OPTIONS_VERSION. */
    unsigned version;

    /** The kernel's working directory. NULL: the current one. */
    const char *workspace;
    /** Where images are saved, relative to the workspace. NULL: "images". */
    const char *images_dir;
    /** "NAME=value" for the kernel, NULL-terminated. It inherits few other variables. */
    const char *const *kernel_env;
    /** The environment for MCP servers and for `${NAME}` in their parameters, NULL-terminated.
     * NULL: that of this process. The workspace's `.env` file adds names that are not in it. */
    const char *const *env;

    /** What happens to tool calls that no rule names. Default: #IPYBOX_APPROVAL_ASK. */
    IpyboxApprovalPolicy approval;
    /** Path of a rules file, see ipybox-rules(5). NULL: no rules. */
    const char *approval_rules;
    /** Path of a file that gets a line of JSON for each decision. NULL: none. */
    const char *audit_log;
    /** In milliseconds; a request that is not answered in this time is refused. -1 (the default):
     * no limit. */
    int64_t approval_timeout_ms;
    /** Called for each call that needs an approval. NULL: such calls are refused. */
    IpyboxApprovalFunc on_approval;
    /** Called when a request needs no answer any more. */
    IpyboxWithdrawnFunc on_withdrawn;
    /** Called for each log line. */
    IpyboxLogFunc on_log;
    /** For on_approval, on_withdrawn, on_log, on_event, on_tool_call and on_tool_cancelled. */
    gpointer user_data;

    /** In milliseconds; how long an MCP server may take to start. 0: 30,000. */
    unsigned connect_timeout_ms;
    /** For the random generators of random, numpy and torch, 0 to 4,294,967,295. -1 (the default):
     * a random seed. */
    int64_t seed;

    /** For the kernel and what it starts. Default: #IPYBOX_SANDBOX_OFF. */
    IpyboxSandbox sandbox;
    /** Path of the sandbox's configuration, see ipybox-sandbox-config(5). It is an error if the
     * file does not exist. NULL: cells may write the workspace and have no network. */
    const char *sandbox_config;
    /** In a sandbox: ipybox_session_register() will be called. The directory "mcptools" is then
     * made in the workspace before the kernel starts, so that the sandbox protects generated
     * packages. */
    gboolean register_servers;
    /** In a sandbox: ipybox_session_install() accepts URLs, and packages whose own code has to run
     * to build them. */
    gboolean allow_builds;

    /** Where the kernel starts, and returns to after each cell, with the notice "[ipybox] cwd reset
     * to DIR". NULL: it starts in the workspace, and stays where a cell changes to. */
    const char *working_dir;
    /** In a sandbox: a JSON object that replaces "limits" of the configuration, for example
     * `{"memory": "2G", "processes": 64}`. NULL: nothing is replaced. */
    const char *limits;
    /** Each shell escape needs an approval: `!cmd`, `x = !cmd` and `%sx` as a call of the tool
     * "shell" of the server "ipybox", `%%bash` and `%%sh` of "shell_magic", both with the argument
     * `{"cmd": …}`. */
    gboolean approve_shell_cmds;
    /** Programs that are started in other ways (subprocess, os.system, …) are refused. It needs
     * approve_shell_cmds. Both are hooks inside the kernel's Python, not a security boundary. */
    gboolean require_shell_escape;
    /** In milliseconds, from a kernel's fork until it is ready. 0: 10,000. */
    unsigned kernel_init_timeout_ms;
    /** A JSON object `{name: server_params}`: MCP servers that cells may call with exactly these
     * parameters and without a registration, as packages made by mcpygen do. Calls with other
     * parameters need an approval in a session without a sandbox, and are refused in a sandbox.
     * NULL: none. */
    const char *allowed_servers;
    /** Called for events of the session: #IPYBOX_EVENT_READY each time that a kernel becomes ready,
     * #IPYBOX_EVENT_START_FAILED, and late output, see ipybox_event_get_is_late(). */
    IpyboxEventFunc on_event;
    /** Path of a file that gets a line of JSON for each event of the session: code, output,
     * results, errors, decisions on tool calls, see ipybox-record(5). It is created with mode 0600,
     * or appended to if it is a record of this user. NULL: none. */
    const char *record;
    /** How many of the last cells ipybox_session_undo() can undo, 0 to 100. If it is not 0, a
     * checkpoint is made before each cell. Not together with record. */
    unsigned undo;
    /** Where what cells write in the workspace goes. Default: #IPYBOX_WORKSPACE_LIVE. */
    IpyboxWorkspaceMode workspace_mode;
    /** With #IPYBOX_WORKSPACE_STAGED: the directory in which it is kept. NULL: ipybox's state
     * directory. */
    const char *staging_dir;
    /** Tools that the program itself runs, as a JSON object `{name: [tools]}`. A tool is an object
     * as MCP describes tools: `name`, `inputSchema`, and optionally `description` and
     * `outputSchema`. Code imports them from `mcptools.NAME`. At most 4 MiB, 64 names and 1000
     * tools. Needs on_tool_call. NULL: none. */
    const char *application_tools;
    /** Runs their calls, after the approval. */
    IpyboxToolCallFunc on_tool_call;
    /** Called when a call that the program keeps needs no answer any more, because its cell or its
     * session has ended. May be NULL. */
    IpyboxToolCallFunc on_tool_cancelled;
    /** In a sandbox: domains that code may reach, beyond those of the configuration; entries as in
     * its "allowedDomains". NULL-terminated; NULL: none. */
    const char *const *allowed_domains;
} IpyboxSessionOptions;

/* clang-format off */
/** The defaults of #IpyboxSessionOptions. */
#define IPYBOX_SESSION_OPTIONS_INIT                                                                \
    {                                                                                              \
        IPYBOX_SESSION_OPTIONS_VERSION,                                                            \
        /* workspace */ NULL, /* images_dir */ NULL, /* kernel_env */ NULL, /* env */ NULL,        \
        /* approval */ IPYBOX_APPROVAL_ASK, /* approval_rules */ NULL, /* audit_log */ NULL,       \
        /* approval_timeout_ms */ -1, /* on_approval */ NULL, /* on_withdrawn */ NULL,             \
        /* on_log */ NULL, /* user_data */ NULL, /* connect_timeout_ms */ 0, /* seed */ -1,        \
        /* sandbox */ IPYBOX_SANDBOX_OFF, /* sandbox_config */ NULL,                               \
        /* register_servers */ FALSE, /* allow_builds */ FALSE, /* working_dir */ NULL,            \
        /* limits */ NULL, /* approve_shell_cmds */ FALSE, /* require_shell_escape */ FALSE,       \
        /* kernel_init_timeout_ms */ 0, /* allowed_servers */ NULL, /* on_event */ NULL,        \
        /* record */ NULL, /* undo */ 0, /* workspace_mode */ IPYBOX_WORKSPACE_LIVE,               \
        /* staging_dir */ NULL, /* application_tools */ NULL, /* on_tool_call */ NULL,             \
        /* on_tool_cancelled */ NULL, /* allowed_domains */ NULL                                   \
    }
/* clang-format on */

/**
 * @brief Opens a session. No kernel is started yet.
 *
 * The session may call the registered MCP servers whose generated packages are in its workspace.
 *
 * @param runtime the runtime, which must outlive the session's operations
 * @param options the options; NULL: the defaults
 * @param error #IPYBOX_ERROR_NOT_FOUND: the workspace or the rules file does not exist, or the
 *     installation is incomplete; #IPYBOX_ERROR_INVALID: the rules file, the sandbox's
 *     configuration, the registry or an option is wrong; #IPYBOX_ERROR_LIMIT: one of these files is
 *     too large; #IPYBOX_ERROR_BUSY: the runtime is closed; #IPYBOX_ERROR_SYSTEM
 * @return the session, to be freed with ipybox_session_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxSession *
ipybox_session_new(IpyboxRuntime *runtime, const IpyboxSessionOptions *options, GError **error);

/**
 * @brief Starts a kernel in the background. Otherwise the first cell starts it.
 *
 * Then on_event of the session's options gets #IPYBOX_EVENT_READY or #IPYBOX_EVENT_START_FAILED,
 * also if the kernel is ready already.
 *
 * @param session the session
 */
IPYBOX_EXPORT void ipybox_session_start(IpyboxSession *session);

/**
 * @brief The session's workspace.
 *
 * @param session the session
 * @return an absolute path; owned by the session
 */
IPYBOX_EXPORT const char *ipybox_session_get_workspace(IpyboxSession *session);

/* --- cells --- */

/** The newest version of #IpyboxExecuteOptions. */
#define IPYBOX_EXECUTE_OPTIONS_VERSION 1

/** Options of ipybox_session_execute_async(). Initialise them with #IPYBOX_EXECUTE_OPTIONS_INIT. */
typedef struct {
    /** #IPYBOX_EXECUTE_OPTIONS_VERSION. */
    unsigned version;
    /** In milliseconds; after this time the cell is interrupted. Time in which it waits for
     * approvals or input does not count. 0: no limit. */
    unsigned timeout_ms;
    /** The most characters of the result's text, see ipybox_result_is_truncated(). 0: 256 MiB. */
    size_t max_text_chars;
    /** Called for each event as soon as it happens; may be NULL. */
    IpyboxEventFunc on_event;
    /** For on_event. */
    gpointer user_data;
    /** on_event answers #IPYBOX_EVENT_INPUT_REQUEST. FALSE: input() raises an exception at once. */
    gboolean allow_input;
    /** In milliseconds; after this time an input without an answer is refused. 0: one hour. */
    unsigned input_timeout_ms;
    /** A cell whose status is not #IPYBOX_STATUS_OK leaves the kernel's state as it was before it:
     * ipybox_result_is_undone(). A checkpoint is made before the cell. If that or the undoing
     * fails, a notice of the result says why. */
    gboolean undo_on_error;
} IpyboxExecuteOptions;

/* clang-format off */
/** The defaults of #IpyboxExecuteOptions. */
#define IPYBOX_EXECUTE_OPTIONS_INIT                                                                \
    {                                                                                              \
        IPYBOX_EXECUTE_OPTIONS_VERSION,                                                            \
        /* timeout_ms */ 0, /* max_text_chars */ 0, /* on_event */ NULL, /* user_data */ NULL,     \
        /* allow_input */ FALSE, /* input_timeout_ms */ 0, /* undo_on_error */ FALSE               \
    }
/* clang-format on */

/**
 * @brief Runs code as a cell, after the cells that wait already.
 *
 * @param session the session
 * @param code Python as IPython accepts it, in UTF-8, at most 32 MiB; copied
 * @param options the options; NULL: the defaults. Copied
 * @param cancellable interrupts the cell, or removes it while it waits; the result is
 *     #IPYBOX_STATUS_CANCELLED. May be NULL
 * @param callback called in the runtime's context when the cell has ended, after all its events;
 *     its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_execute_async(IpyboxSession *session, const char *code,
                                                const IpyboxExecuteOptions *options,
                                                GCancellable *cancellable,
                                                GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_execute_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error why the cell was not accepted: #IPYBOX_ERROR_INVALID (not UTF-8),
 *     #IPYBOX_ERROR_LIMIT (too large, or too many cells wait), #IPYBOX_ERROR_BUSY (the session is
 *     closed), #IPYBOX_ERROR_CANCELLED (the session was freed). How an accepted cell ended is in
 *     the result
 * @return the result, to be freed with ipybox_result_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxResult *ipybox_session_execute_finish(IpyboxSession *session,
                                                          GAsyncResult *result, GError **error);

/**
 * @brief Like ipybox_session_execute_async(), but blocks until the cell has ended.
 *
 * @param session the session
 * @param code Python as IPython accepts it, in UTF-8, at most 32 MiB
 * @param options the options; NULL: the defaults
 * @param cancellable interrupts the cell; may be NULL. It may be cancelled from another thread
 * @param error as for ipybox_session_execute_finish(); also #IPYBOX_ERROR_BUSY if this is called
 *     from a callback
 * @return the result, to be freed with ipybox_result_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxResult *ipybox_session_execute(IpyboxSession *session, const char *code,
                                                   const IpyboxExecuteOptions *options,
                                                   GCancellable *cancellable, GError **error);

/**
 * @brief Answers an #IPYBOX_EVENT_INPUT_REQUEST of the running cell.
 *
 * @param session the session
 * @param input from ipybox_event_get_input()
 * @param value what was typed, without the end of the line: UTF-8, at most 1 MiB; copied
 * @param error #IPYBOX_ERROR_NOT_FOUND: the cell does not wait for it any more;
 *     #IPYBOX_ERROR_LIMIT, #IPYBOX_ERROR_INVALID (not UTF-8): it still waits
 * @return whether the cell got the answer; FALSE with @p error
 */
IPYBOX_EXPORT gboolean ipybox_session_answer_input(IpyboxSession *session, guint64 input,
                                                   const char *value, GError **error);

/**
 * @brief Refuses an #IPYBOX_EVENT_INPUT_REQUEST: Python raises EOFError, as at the end of a file.
 *
 * Does nothing if the cell does not wait for it any more.
 *
 * @param session the session
 * @param input from ipybox_event_get_input()
 * @param why the text of the exception, UTF-8; NULL: "the input was refused"
 */
IPYBOX_EXPORT void ipybox_session_refuse_input(IpyboxSession *session, guint64 input,
                                               const char *why);

/**
 * @brief Interrupts the running cell as Ctrl-C does: Python raises KeyboardInterrupt.
 *
 * The state is kept.
 * If the cell catches it and runs to its end, its status is #IPYBOX_STATUS_OK, else
 * #IPYBOX_STATUS_CANCELLED. If the cell still runs after the grace period, its kernel is killed.
 * Does nothing if no cell runs.
 *
 * @param session the session
 */
IPYBOX_EXPORT void ipybox_session_interrupt(IpyboxSession *session);

/**
 * @brief Pauses or resumes reading the output of the kernel, and of commands with on_output.
 *
 * A kernel or a command that prints while its session is paused waits.
 * A cell of a paused session does not end, not even if it is interrupted, cancelled or out of time.
 * Resetting, closing and freeing the session do not wait for it.
 *
 * @param session the session
 * @param paused whether to pause
 */
IPYBOX_EXPORT void ipybox_session_set_paused(IpyboxSession *session, gboolean paused);

/**
 * @brief Ends the kernel and all MCP servers. The next cell gets a fresh kernel.
 *
 * Running and waiting cells end with #IPYBOX_STATUS_LOST.
 *
 * @param session the session
 * @param callback called in the runtime's context when the servers have ended; its source object is
 *     NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_reset_async(IpyboxSession *session, GAsyncReadyCallback callback,
                                              gpointer user_data);

/**
 * @brief Ends ipybox_session_reset_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_BUSY: the session is closed; #IPYBOX_ERROR_CANCELLED: it was freed
 * @return whether it was reset
 */
IPYBOX_EXPORT gboolean ipybox_session_reset_finish(IpyboxSession *session, GAsyncResult *result,
                                                   GError **error);

/**
 * @brief Like ipybox_session_reset_async(), but blocks.
 *
 * @param session the session
 * @param error as for ipybox_session_reset_finish(); also #IPYBOX_ERROR_BUSY if this is called from
 *     a callback
 * @return whether it was reset
 */
IPYBOX_EXPORT gboolean ipybox_session_reset(IpyboxSession *session, GError **error);

/* --- commands --- */

/**
 * @brief Receives a piece of a command's output.
 *
 * The command waits while this runs, if its pipe is full. It may call every function that does not
 * block.
 *
 * @param session the session
 * @param stream where the command wrote it
 * @param bytes the piece, untrusted; borrowed. It need not be text, nor end with a whole character
 * @param size the number of its bytes, 1 to 65,536
 * @param user_data of the options
 */
typedef void (*IpyboxCommandOutputFunc)(IpyboxSession *session, IpyboxCommandStream stream,
                                        const char *bytes, gsize size, gpointer user_data);

/** The newest version of #IpyboxCommandOptions. */
#define IPYBOX_COMMAND_OPTIONS_VERSION 1

/** Options of ipybox_session_run_command_async(). Initialise them with
 * #IPYBOX_COMMAND_OPTIONS_INIT. */
typedef struct {
    /** #IPYBOX_COMMAND_OPTIONS_VERSION. */
    unsigned version;
    /** "NAME=value" beyond the kernel's environment, NULL-terminated. NULL: none. */
    const char *const *env;
    /** The working directory, absolute, or relative to where the kernel starts. NULL: there. */
    const char *cwd;
    /** What it reads from standard input; then comes the end. NULL: nothing. */
    const void *input;
    /** The size of the input in bytes, at most 32 MiB. */
    gsize input_size;
    /** In milliseconds, from its execution; after this time it is killed, with everything that it
     * has started. 0: no limit. */
    unsigned timeout_ms;
    /** How many bytes of standard output, and of standard error, are kept for the result: their
     * beginning. At most 32 MiB. 0: 10 MiB. The command continues when there is more. */
    gsize max_output;
    /** Called for each piece of output as it is printed; then the result has none. NULL: output is
     * kept. */
    IpyboxCommandOutputFunc on_output;
    /** For on_output. */
    gpointer user_data;
} IpyboxCommandOptions;

/* clang-format off */
/** The defaults of #IpyboxCommandOptions. */
#define IPYBOX_COMMAND_OPTIONS_INIT                                                                \
    {                                                                                              \
        IPYBOX_COMMAND_OPTIONS_VERSION,                                                            \
        /* env */ NULL, /* cwd */ NULL, /* input */ NULL, /* input_size */ 0,                      \
        /* timeout_ms */ 0, /* max_output */ 0, /* on_output */ NULL, /* user_data */ NULL         \
    }
/* clang-format on */

/**
 * @brief Runs a command beside the kernel, also while a cell runs.
 *
 * It is as if the kernel had started it: it runs in the same sandbox, as the same user and with the
 * same environment. If there is no kernel, one is started before. But the kernel takes no part in
 * it, so a cell that hangs does not matter. It needs no approval, because the program asks for it.
 * 64 commands of a session may run at a time.
 *
 * It ends with the kernel. What it starts in the background continues after its end, until the
 * kernel ends, but what that prints then is lost.
 *
 * @param session the session
 * @param argv the program, which is a path or a name in the kernel's PATH, and its arguments,
 *     NULL-terminated; copied
 * @param options the options; NULL: the defaults. Copied
 * @param cancellable kills it, with everything that it has started. May be NULL
 * @param callback called in the runtime's context at the end, after all its output; its source
 *     object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_run_command_async(IpyboxSession *session, const char *const *argv,
                                                    const IpyboxCommandOptions *options,
                                                    GCancellable *cancellable,
                                                    GAsyncReadyCallback callback,
                                                    gpointer user_data);

/**
 * @brief Ends ipybox_session_run_command_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_NOT_FOUND: there is no such program or directory;
 *     #IPYBOX_ERROR_REFUSED: it may not be executed; #IPYBOX_ERROR_LIMIT: too many commands run, or
 *     the arguments, the input or max_output are too large; #IPYBOX_ERROR_INVALID: an option is
 *     wrong; #IPYBOX_ERROR_KERNEL_DIED: the kernel ended, and the command with it, or none could be
 *     started; #IPYBOX_ERROR_CANCELLED: also by a reset, a restored checkpoint, and the end of the
 *     session; #IPYBOX_ERROR_BUSY: the session is closed; #IPYBOX_ERROR_SYSTEM
 * @return how it ended, to be freed with ipybox_command_result_free(): an exit status other than 0,
 *     a signal and a timeout are results. NULL with @p error
 */
IPYBOX_EXPORT IpyboxCommandResult *
ipybox_session_run_command_finish(IpyboxSession *session, GAsyncResult *result, GError **error);

/**
 * @brief Like ipybox_session_run_command_async(), but blocks until the command has ended.
 *
 * @param session the session
 * @param argv as for ipybox_session_run_command_async()
 * @param options the options; NULL: the defaults
 * @param cancellable kills it; may be NULL. It may be cancelled from another thread
 * @param error as for ipybox_session_run_command_finish(); also #IPYBOX_ERROR_BUSY if this is
 *     called from a callback
 * @return as for ipybox_session_run_command_finish(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxCommandResult *ipybox_session_run_command(IpyboxSession *session,
                                                              const char *const *argv,
                                                              const IpyboxCommandOptions *options,
                                                              GCancellable *cancellable,
                                                              GError **error);

/* --- branches --- */

/** The newest version of #IpyboxForkOptions. */
#define IPYBOX_FORK_OPTIONS_VERSION 1

/** Options of ipybox_session_fork_async(). Initialise them with #IPYBOX_FORK_OPTIONS_INIT. */
typedef struct {
    /** #IPYBOX_FORK_OPTIONS_VERSION. */
    unsigned version;
    /** Seeds the random generators of random, numpy and torch in the new kernel, 0 to
     * 4,294,967,295. -1 (the default): both kernels continue with the same random numbers. */
    int64_t seed;
    /** Of the new session, for the callbacks of the session that is forked. */
    gpointer user_data;
    /** A checkpoint of the session, whose state the new kernel gets; then cells of the session may
     * run. 0: the present state. */
    uint64_t checkpoint;
} IpyboxForkOptions;

/* clang-format off */
/** The defaults of #IpyboxForkOptions. */
#define IPYBOX_FORK_OPTIONS_INIT                                                                   \
    {                                                                                              \
        IPYBOX_FORK_OPTIONS_VERSION, /* seed */ -1, /* user_data */ NULL, /* checkpoint */ 0       \
    }
/* clang-format on */

/**
 * @brief Makes a session whose kernel continues from the state of this one.
 *
 * The new kernel is a fork of the live one, with all variables, modules, definitions and the
 * history. From then on both are independent, but they share the files of the workspace, and with
 * a staged workspace its layer: what one of them writes, commits or discards is seen by both. The
 * layer ends with the last of them. The new session has the options, the callbacks, the rules and
 * the servers of this one.
 *
 * @param session the session, of which no cell runs or waits
 * @param options the options; NULL: the defaults. Copied
 * @param cancellable cancels the fork; may be NULL
 * @param callback called in the runtime's context when the new kernel is ready; its source object
 *     is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_fork_async(IpyboxSession *session,
                                             const IpyboxForkOptions *options,
                                             GCancellable *cancellable,
                                             GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_fork_async().
 *
 * @param session the session that is forked; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_BUSY: a cell or a tool call runs, or the session is closed;
 *     #IPYBOX_ERROR_REFUSED: something in the kernel cannot be forked, such as a running thread,
 *     and the message says what to do; #IPYBOX_ERROR_INVALID: an option is wrong, the session has
 *     no kernel yet, or it is recorded; #IPYBOX_ERROR_KERNEL_DIED; #IPYBOX_ERROR_CANCELLED;
 *     #IPYBOX_ERROR_SYSTEM
 * @return the new session, to be freed with ipybox_session_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxSession *ipybox_session_fork_finish(IpyboxSession *session,
                                                        GAsyncResult *result, GError **error);

/**
 * @brief Like ipybox_session_fork_async(), but blocks until the new kernel is ready.
 *
 * @param session the session, of which no cell runs or waits
 * @param options the options; NULL: the defaults
 * @param cancellable cancels the fork; may be NULL. It may be cancelled from another thread
 * @param error as for ipybox_session_fork_finish(); also #IPYBOX_ERROR_BUSY if this is called from
 *     a callback
 * @return the new session, to be freed with ipybox_session_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxSession *ipybox_session_fork(IpyboxSession *session,
                                                 const IpyboxForkOptions *options,
                                                 GCancellable *cancellable, GError **error);

/**
 * @brief What a forked session shares with the other one, or lacks: sockets, open files, timers.
 *
 * @param session the session
 * @return texts for people, untrusted, NULL-terminated; owned by the session. Empty if there are
 *     none, or if the session was not forked
 */
IPYBOX_EXPORT const char *const *ipybox_session_get_warnings(IpyboxSession *session);

/* --- checkpoints --- */

/**
 * @brief Keeps the state of the kernel, to which ipybox_session_restore() returns.
 *
 * A checkpoint is a copy of the kernel's process that waits. It shares its memory with the kernel
 * until one of them changes it. Files of the workspace are part of it in a staged session only. It
 * ends when it is dropped, and when the session is closed, freed or reset. A new session can
 * continue from it: see #IpyboxForkOptions.
 *
 * @param session the session, of which no cell runs or waits
 * @param name a name that no other checkpoint of the session has; NULL: one is made up. Copied
 * @param callback called in the runtime's context; its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_checkpoint_async(IpyboxSession *session, const char *name,
                                                   GAsyncReadyCallback callback,
                                                   gpointer user_data);

/**
 * @brief Ends ipybox_session_checkpoint_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error as for ipybox_session_fork_finish(); also #IPYBOX_ERROR_LIMIT: there are too many
 *     checkpoints, or they hold too much memory, and the message says what to drop;
 *     #IPYBOX_ERROR_INVALID: the name is in use, or is none
 * @return the checkpoint's number; 0 with @p error
 */
IPYBOX_EXPORT uint64_t ipybox_session_checkpoint_finish(IpyboxSession *session,
                                                        GAsyncResult *result, GError **error);

/**
 * @brief Like ipybox_session_checkpoint_async(), but blocks.
 *
 * @param session the session, of which no cell runs or waits
 * @param name as for ipybox_session_checkpoint_async()
 * @param error as for ipybox_session_checkpoint_finish(); also #IPYBOX_ERROR_BUSY if this is called
 *     from a callback
 * @return the checkpoint's number; 0 with @p error
 */
IPYBOX_EXPORT uint64_t ipybox_session_checkpoint(IpyboxSession *session, const char *name,
                                                 GError **error);

/**
 * @brief Whether ipybox_session_restore() and ipybox_session_undo() restore files of a staged
 * workspace, too, as they do until this is called.
 *
 * While other sessions share the files, only the variables can be restored: with files, a restore
 * fails with #IPYBOX_ERROR_BUSY.
 *
 * @param session the session
 * @param restores_files FALSE: only the state of the kernel is restored, and files stay as they are
 */
IPYBOX_EXPORT void ipybox_session_set_restores_files(IpyboxSession *session,
                                                     gboolean restores_files);

/**
 * @brief Gives the kernel the state of a checkpoint, which can be restored again.
 *
 * The session keeps its registrations, approvals and MCP servers. The kernel's process is killed,
 * with the processes that it has started, and replaced. Cells that are given until then wait. Cells
 * that came before cannot be undone any more.
 *
 * @param session the session, of which no cell runs or waits
 * @param checkpoint the checkpoint's number
 * @param callback called in the runtime's context; its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_restore_async(IpyboxSession *session, uint64_t checkpoint,
                                                GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_restore_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error as for ipybox_session_fork_finish(); also #IPYBOX_ERROR_NOT_FOUND: there is no such
 *     checkpoint; #IPYBOX_ERROR_KERNEL_DIED: its process was killed. The kernel is as it was
 * @return whether it was restored
 */
IPYBOX_EXPORT gboolean ipybox_session_restore_finish(IpyboxSession *session, GAsyncResult *result,
                                                     GError **error);

/**
 * @brief Like ipybox_session_restore_async(), but blocks.
 *
 * @param session the session, of which no cell runs or waits
 * @param checkpoint the checkpoint's number
 * @param error as for ipybox_session_restore_finish(); also #IPYBOX_ERROR_BUSY if this is called
 *     from a callback
 * @return whether it was restored
 */
IPYBOX_EXPORT gboolean ipybox_session_restore(IpyboxSession *session, uint64_t checkpoint,
                                              GError **error);

/**
 * @brief Undoes the last cells: the kernel gets the state that it had before them.
 *
 * A cell before which no checkpoint could be made, as a notice of its result says, does not count.
 *
 * @param session a session with the option undo, of which no cell runs or waits
 * @param n how many cells
 * @param callback called in the runtime's context; its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_undo_async(IpyboxSession *session, unsigned n,
                                             GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_undo_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error as for ipybox_session_restore_finish(); also #IPYBOX_ERROR_INVALID: so many cells
 *     cannot be undone
 * @return whether they were undone
 */
IPYBOX_EXPORT gboolean ipybox_session_undo_finish(IpyboxSession *session, GAsyncResult *result,
                                                  GError **error);

/**
 * @brief Like ipybox_session_undo_async(), but blocks.
 *
 * @param session a session with the option undo, of which no cell runs or waits
 * @param n how many cells
 * @param error as for ipybox_session_undo_finish(); also #IPYBOX_ERROR_BUSY if this is called from
 *     a callback
 * @return whether they were undone
 */
IPYBOX_EXPORT gboolean ipybox_session_undo(IpyboxSession *session, unsigned n, GError **error);

/**
 * @brief Ends a checkpoint.
 *
 * @param session the session
 * @param checkpoint the checkpoint's number
 * @param error #IPYBOX_ERROR_NOT_FOUND: there is no such checkpoint; #IPYBOX_ERROR_BUSY: it is
 *     being restored, or the session is closed
 * @return whether it was dropped
 */
IPYBOX_EXPORT gboolean ipybox_session_drop_checkpoint(IpyboxSession *session, uint64_t checkpoint,
                                                      GError **error);

/** The newest version of #IpyboxCheckpointInfo. */
#define IPYBOX_CHECKPOINT_INFO_VERSION 1

/** What ipybox_session_get_checkpoint() says. Set version before. */
typedef struct {
    /** #IPYBOX_CHECKPOINT_INFO_VERSION. */
    unsigned version;
    /** Its name; owned by the checkpoint. */
    const char *name;
    /** When it was made, in microseconds since 1970. */
    int64_t created_us;
    /** Memory that it shares with no other process, in bytes. */
    uint64_t private_bytes;
    /** What a kernel with its state shares with the present one, or lacks: as of
     * ipybox_session_get_warnings(). Owned by the checkpoint. */
    const char *const *warnings;
    /** Why it cannot be restored any more, or NULL; owned by the checkpoint. */
    const char *lost;
} IpyboxCheckpointInfo;

/**
 * @brief The numbers of the session's checkpoints, and their memory is measured.
 *
 * @param session the session
 * @param n where to put how many there are
 * @return the numbers, the oldest first, to be freed with g_free(); NULL if there are none
 */
IPYBOX_EXPORT uint64_t *ipybox_session_list_checkpoints(IpyboxSession *session, size_t *n);

/**
 * @brief Describes a checkpoint.
 *
 * @param session the session
 * @param checkpoint the checkpoint's number
 * @param info where to put the description, with its version set
 * @return FALSE: there is no such checkpoint, or the version is not known
 */
IPYBOX_EXPORT gboolean ipybox_session_get_checkpoint(IpyboxSession *session, uint64_t checkpoint,
                                                     IpyboxCheckpointInfo *info);
/* --- a staged workspace --- */

/**
 * @brief Where a staged session keeps what its cells change: for `ipybox changes`.
 *
 * @param session the session
 * @return the path of a directory, whose last part is the name in `ipybox changes list`; owned by
 *     the session. NULL: the workspace is not staged. After the session was freed the directory
 *     stays if there are changes
 */
IPYBOX_EXPORT const char *ipybox_session_get_layer(IpyboxSession *session);

/**
 * @brief Lists what cells have changed in a staged workspace.
 *
 * @param session the session
 * @param diffs whether unified diffs of texts are wanted
 * @param cancellable ends the call, not the look at the files. May be NULL
 * @param callback called in the runtime's context at the end; its source object is NULL. May be
 *     NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_changes_async(IpyboxSession *session, gboolean diffs,
                                                GCancellable *cancellable,
                                                GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_changes_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_INVALID: the workspace is not staged; #IPYBOX_ERROR_BUSY: another of
 *     these calls runs; #IPYBOX_ERROR_CANCELLED; #IPYBOX_ERROR_SYSTEM
 * @return a JSON object: `changes`, an array of objects with `path` (below the workspace), `kind`
 *     (`added`, `changed`, `removed`), `type` (`file`, `directory`, `link`, `special`), `size`,
 *     `old_size`, `mode`, and where it applies `problem` (why it cannot be committed), `conflict`,
 *     `done`, `diff`; `total`, of which `changes` has the first 1,000; `total_bytes`; `problems`,
 *     how many have one; and `cut`, if not all could be found. Untrusted: code has written it. To
 *     be freed with g_free(). NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_changes_finish(IpyboxSession *session, GAsyncResult *result,
                                                  GError **error);

/**
 * @brief Like ipybox_session_changes_async(), but blocks.
 *
 * @param session the session
 * @param diffs whether unified diffs of texts are wanted
 * @param cancellable ends the call; may be NULL. It may be cancelled from another thread
 * @param error as for ipybox_session_changes_finish(); also #IPYBOX_ERROR_BUSY if this is called
 *     from a callback
 * @return as for ipybox_session_changes_finish(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_changes(IpyboxSession *session, gboolean diffs,
                                           GCancellable *cancellable, GError **error);

/**
 * @brief Writes what cells have changed to the workspace, between cells.
 *
 * First it is copied to where no code can change it. Protected names are not written. A file that
 * was changed outside of the session, too, stays as it is on both sides. If the program is killed
 * before the end, `ipybox changes commit` finishes the commit.
 *
 * @param session the session
 * @param paths files and directories below the workspace, NULL-terminated; copied. NULL: everything
 * @param cancellable ends the call, not the commit. May be NULL
 * @param callback called in the runtime's context at the end; its source object is NULL. May be
 *     NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_commit_async(IpyboxSession *session, const char *const *paths,
                                               GCancellable *cancellable,
                                               GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_commit_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error as for ipybox_session_changes_finish(); also #IPYBOX_ERROR_BUSY: a cell runs;
 *     #IPYBOX_ERROR_NOT_FOUND: nothing has changed at a path; #IPYBOX_ERROR_LIMIT: there are too
 *     many changes for one commit
 * @return as for ipybox_session_changes_finish(), about what was to be committed; `done` says what
 *     was. NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_commit_finish(IpyboxSession *session, GAsyncResult *result,
                                                 GError **error);

/**
 * @brief Like ipybox_session_commit_async(), but blocks.
 *
 * @param session the session
 * @param paths files and directories below the workspace, NULL-terminated. NULL: everything
 * @param cancellable ends the call; may be NULL. It may be cancelled from another thread
 * @param error as for ipybox_session_commit_finish(); also #IPYBOX_ERROR_BUSY if this is called
 *     from a callback
 * @return as for ipybox_session_commit_finish(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_commit(IpyboxSession *session, const char *const *paths,
                                          GCancellable *cancellable, GError **error);

/**
 * @brief Undoes what cells have changed in a staged workspace, between cells.
 *
 * @param session the session
 * @param paths files and directories below the workspace, NULL-terminated; copied. NULL: everything
 * @param cancellable ends the call, not the work. May be NULL
 * @param callback called in the runtime's context at the end; its source object is NULL. May be
 *     NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_discard_async(IpyboxSession *session, const char *const *paths,
                                                GCancellable *cancellable,
                                                GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_discard_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error as for ipybox_session_commit_finish()
 * @return as for ipybox_session_commit_finish(), about what was to be undone; NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_discard_finish(IpyboxSession *session, GAsyncResult *result,
                                                  GError **error);

/**
 * @brief Like ipybox_session_discard_async(), but blocks.
 *
 * @param session the session
 * @param paths files and directories below the workspace, NULL-terminated. NULL: everything
 * @param cancellable ends the call; may be NULL. It may be cancelled from another thread
 * @param error as for ipybox_session_discard_finish(); also #IPYBOX_ERROR_BUSY if this is called
 *     from a callback
 * @return as for ipybox_session_discard_finish(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_discard(IpyboxSession *session, const char *const *paths,
                                           GCancellable *cancellable, GError **error);

/* --- saved variables --- */

/**
 * @brief Saves variables of the kernel to a file, after the cells that wait already.
 *
 * The kernel writes the file, with pickle and within its sandbox: to a temporary file beside it,
 * which then replaces it. So it is complete, or it is not there. An existing file is replaced
 * only if it has saved variables in it. Variables that share an object still share it when they are
 * loaded. Functions and classes that are defined in cells, and values that need them, are not
 * saved. Methods of values (`__reduce__`) run while they are saved.
 *
 * @param session the session
 * @param path the file, relative to the workspace, in UTF-8; copied
 * @param names of the variables, NULL-terminated; copied. NULL: all that the user has defined
 * @param timeout_ms in milliseconds; after this time it is interrupted. 0: no limit
 * @param cancellable interrupts it, or removes it while it waits. May be NULL
 * @param callback called in the runtime's context at the end; its source object is NULL. May be
 *     NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_save_async(IpyboxSession *session, const char *path,
                                             const char *const *names, unsigned timeout_ms,
                                             GCancellable *cancellable,
                                             GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_save_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_CODE: the file cannot be written; #IPYBOX_ERROR_TIMEOUT,
 *     #IPYBOX_ERROR_CANCELLED; #IPYBOX_ERROR_KERNEL_DIED; #IPYBOX_ERROR_PROTOCOL: the kernel's
 *     report is wrong; #IPYBOX_ERROR_INVALID: the path or a name; #IPYBOX_ERROR_LIMIT,
 *     #IPYBOX_ERROR_BUSY: as for ipybox_session_execute_finish(). No file was written then
 * @return a JSON object: `names`, the variables that were saved, and `failed`, an object from the
 *     names of those that were not to the reasons. Untrusted: the kernel says it. To be freed with
 *     g_free(). NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_save_finish(IpyboxSession *session, GAsyncResult *result,
                                               GError **error);

/**
 * @brief Like ipybox_session_save_async(), but blocks until the file is written.
 *
 * @param session the session
 * @param path the file, relative to the workspace, in UTF-8
 * @param names of the variables, NULL-terminated; NULL: all that the user has defined
 * @param timeout_ms in milliseconds; after this time it is interrupted. 0: no limit
 * @param cancellable interrupts it; may be NULL. It may be cancelled from another thread
 * @param error as for ipybox_session_save_finish(); also #IPYBOX_ERROR_BUSY if this is called from
 *     a callback
 * @return as for ipybox_session_save_finish(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_save(IpyboxSession *session, const char *path,
                                        const char *const *names, unsigned timeout_ms,
                                        GCancellable *cancellable, GError **error);

/**
 * @brief Loads variables that ipybox_session_save() has saved, after the cells that wait already.
 *
 * **Loading runs code that the file names**, as every pickle does. It runs in the kernel, with what
 * its sandbox allows, never in this process. Variables are set when all of them were loaded or have
 * failed. If it is interrupted, they keep their values.
 *
 * @param session the session
 * @param path the file, relative to the workspace, in UTF-8; copied
 * @param timeout_ms in milliseconds; after this time it is interrupted. 0: no limit
 * @param cancellable interrupts it, or removes it while it waits. May be NULL
 * @param callback called in the runtime's context at the end; its source object is NULL. May be
 *     NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_load_async(IpyboxSession *session, const char *path,
                                             unsigned timeout_ms, GCancellable *cancellable,
                                             GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_load_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error as for ipybox_session_save_finish(); #IPYBOX_ERROR_CODE: the file cannot be read, is
 *     incomplete, or has something else in it. No variable was set then
 * @return a JSON object as from ipybox_session_save_finish(), about the variables that were loaded;
 *     NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_load_finish(IpyboxSession *session, GAsyncResult *result,
                                               GError **error);

/**
 * @brief Like ipybox_session_load_async(), but blocks until the variables are loaded.
 *
 * @param session the session
 * @param path the file, relative to the workspace, in UTF-8
 * @param timeout_ms in milliseconds; after this time it is interrupted. 0: no limit
 * @param cancellable interrupts it; may be NULL. It may be cancelled from another thread
 * @param error as for ipybox_session_load_finish(); also #IPYBOX_ERROR_BUSY if this is called from
 *     a callback
 * @return as for ipybox_session_load_finish(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_load(IpyboxSession *session, const char *path,
                                        unsigned timeout_ms, GCancellable *cancellable,
                                        GError **error);

/* --- MCP servers --- */

/** The newest version of #IpyboxRegisterOptions. */
#define IPYBOX_REGISTER_OPTIONS_VERSION 1

/** What ipybox_session_register_finish() returns for each tool. */
typedef enum {
    /** The name of its module. */
    IPYBOX_LISTING_MODULES,
    /** One line: how it is called and what it returns. */
    IPYBOX_LISTING_SIGNATURES,
    /** Some lines: its classes and `run` in short Python. */
    IPYBOX_LISTING_STUBS,
} IpyboxListing;

/** Options of ipybox_session_register_async(). Initialise them with #IPYBOX_REGISTER_OPTIONS_INIT.
 */
typedef struct {
    /** #IPYBOX_REGISTER_OPTIONS_VERSION. */
    unsigned version;
    /** Where the package is written, relative to the workspace. NULL: "mcptools", the directory
     * that a sandbox protects. */
    const char *root_dir;
    /** The generated functions are coroutines. */
    gboolean async_api;
    /** What is returned for each tool. */
    IpyboxListing listing;
} IpyboxRegisterOptions;

/* clang-format off */
/** The defaults of #IpyboxRegisterOptions. */
#define IPYBOX_REGISTER_OPTIONS_INIT                                                               \
    {                                                                                              \
        IPYBOX_REGISTER_OPTIONS_VERSION,                                                           \
        /* root_dir */ NULL, /* async_api */ FALSE, /* listing */ IPYBOX_LISTING_MODULES           \
    }
/* clang-format on */

/**
 * @brief Generates a Python package from the tools of an MCP server, and registers the server.
 *
 * This connects to the server. Afterwards the session may call it. The package is the directory
 * `root_dir/name`, with a module for each tool. If this fails, an earlier package of that name
 * stays as it was.
 *
 * @param session the session
 * @param name the server's name, a Python identifier
 * @param params_json its parameters, see server.h. `"sandbox": true` in them starts the server in a
 *     sandbox of its own
 * @param options the options; NULL: the defaults. Copied
 * @param cancellable cancels the registration; may be NULL
 * @param callback called in the runtime's context; its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_register_async(IpyboxSession *session, const char *name,
                                                 const char *params_json,
                                                 const IpyboxRegisterOptions *options,
                                                 GCancellable *cancellable,
                                                 GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_register_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_INVALID: the name or the parameters are wrong, or the session is in a
 *     sandbox and was opened without register_servers; #IPYBOX_ERROR_NOT_FOUND: a variable or the
 *     command does not exist; #IPYBOX_ERROR_SERVER, #IPYBOX_ERROR_PROTOCOL, #IPYBOX_ERROR_TIMEOUT:
 *     the server failed, and the message has its last output; #IPYBOX_ERROR_REFUSED: it requires a
 *     login, or its certificate is not trusted; #IPYBOX_ERROR_UNAVAILABLE: it cannot be reached, or
 *     something that it needs is missing on this machine; #IPYBOX_ERROR_LIMIT; #IPYBOX_ERROR_BUSY;
 *     #IPYBOX_ERROR_CANCELLED; #IPYBOX_ERROR_SYSTEM
 * @return what the options' listing says for each tool, NULL-terminated, to be freed with
 *     g_strfreev(); NULL with @p error
 */
IPYBOX_EXPORT char **ipybox_session_register_finish(IpyboxSession *session, GAsyncResult *result,
                                                    GError **error);

/**
 * @brief Like ipybox_session_register_async(), but blocks.
 *
 * @param session the session
 * @param name the server's name, a Python identifier
 * @param params_json its parameters, see server.h
 * @param options the options; NULL: the defaults
 * @param cancellable cancels the registration; may be NULL
 * @param error as for ipybox_session_register_finish(); also #IPYBOX_ERROR_BUSY if this is called
 *     from a callback
 * @return what the options' listing says for each tool, NULL-terminated, to be freed with
 *     g_strfreev(); NULL with @p error
 */
IPYBOX_EXPORT char **ipybox_session_register(IpyboxSession *session, const char *name,
                                             const char *params_json,
                                             const IpyboxRegisterOptions *options,
                                             GCancellable *cancellable, GError **error);

/* --- packages --- */

/**
 * @brief Receives a line of an installer's output.
 *
 * @param session the session
 * @param line the line, without its newline
 * @param user_data as given to ipybox_session_install_async()
 */
typedef void (*IpyboxInstallFunc)(IpyboxSession *session, const char *line, gpointer user_data);

/**
 * @brief Installs a package for the session's Python. Cells can import it at once.
 *
 * @param session the session
 * @param package a requirement as pip accepts it: `name`, `name>=1.0`, `git+https://…`
 * @param on_line called for each line of the installer's output; may be NULL
 * @param line_data for @p on_line
 * @param cancellable ends the installer; may be NULL
 * @param callback called in the runtime's context; its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_install_async(IpyboxSession *session, const char *package,
                                                IpyboxInstallFunc on_line, gpointer line_data,
                                                GCancellable *cancellable,
                                                GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_install_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_INVALID: @p package is not a requirement; #IPYBOX_ERROR_REFUSED: it is
 *     a URL, and the session is in a sandbox without allow_builds; #IPYBOX_ERROR_SERVER: the
 *     installer failed, and the message has its output; #IPYBOX_ERROR_BUSY: another installation
 *     runs, or the session is closed; #IPYBOX_ERROR_TIMEOUT; #IPYBOX_ERROR_CANCELLED;
 *     #IPYBOX_ERROR_UNAVAILABLE: no sandbox can be made for the installer; #IPYBOX_ERROR_NOT_FOUND,
 *     #IPYBOX_ERROR_SYSTEM: the installer cannot be started
 * @return the installer's output, to be freed with g_free(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_install_finish(IpyboxSession *session, GAsyncResult *result,
                                                  GError **error);

/**
 * @brief Like ipybox_session_install_async(), but blocks and reports no lines.
 *
 * @param session the session
 * @param package a requirement as pip accepts it
 * @param cancellable ends the installer; may be NULL
 * @param error as for ipybox_session_install_finish(); also #IPYBOX_ERROR_BUSY if this is called
 *     from a callback
 * @return the installer's output, to be freed with g_free(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_install(IpyboxSession *session, const char *package,
                                           GCancellable *cancellable, GError **error);

/* --- end --- */

/**
 * @brief Ends the kernel and the MCP servers in order.
 *
 * Running and waiting cells end with #IPYBOX_STATUS_LOST.
 *
 * @param session the session, which can only be freed afterwards
 * @param callback called in the runtime's context when everything has ended; its source object is
 *     NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_close_async(IpyboxSession *session, GAsyncReadyCallback callback,
                                              gpointer user_data);

/**
 * @brief Ends ipybox_session_close_async().
 *
 * @param session the session; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_BUSY: it is closed already, or being closed; #IPYBOX_ERROR_TIMEOUT: it
 *     took more than 15 seconds, and the rest was killed; #IPYBOX_ERROR_CANCELLED: it was freed
 * @return whether it was closed
 */
IPYBOX_EXPORT gboolean ipybox_session_close_finish(IpyboxSession *session, GAsyncResult *result,
                                                   GError **error);

/**
 * @brief Like ipybox_session_close_async(), but blocks, for at most 15 seconds.
 *
 * @param session the session
 * @param error as for ipybox_session_close_finish(); also #IPYBOX_ERROR_BUSY if this is called from
 *     a callback
 * @return whether it was closed
 */
IPYBOX_EXPORT gboolean ipybox_session_close(IpyboxSession *session, GError **error);

/**
 * @brief Frees a session. If it was not closed, its processes are killed at once.
 *
 * Operations under way end with #IPYBOX_ERROR_CANCELLED. Their callbacks are called from the
 * context after this returns; pass NULL for the session to `_finish` there.
 *
 * @param session the session, or NULL
 */
IPYBOX_EXPORT void ipybox_session_free(IpyboxSession *session);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxSession, ipybox_session_free)

G_END_DECLS
