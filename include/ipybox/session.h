/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief A session: one stateful IPython kernel with its workspace, its tools and its approvals.
 *
 * Cells of a session run one after the other; each starts with what the ones before left behind. A kernel that dies ends its cell
 * with #IPYBOX_STATUS_LOST, and the next cell gets a fresh one. For threads and for calls that block, see runtime.h. A callback
 * may call everything but the calls that block.
 */
#pragma once

#include <ipybox/approval.h>
#include <ipybox/event.h>
#include <ipybox/runtime.h>

G_BEGIN_DECLS

/** See the file's head. Opaque. */
typedef struct IpyboxSession IpyboxSession;

/**
 * @brief Asks for an approval, to be answered by ipybox_approval_respond() at once or later.
 *
 * @param session the session whose cell calls a tool
 * @param approval the request; borrowed
 * @param user_data of the session's options
 */
typedef void (*IpyboxApprovalFunc)(IpyboxSession *session, IpyboxApproval *approval,
                                   gpointer user_data);

/**
 * @brief Tells that a request which the program keeps is not waited for any more: its time ran out, or its cell has ended.
 *
 * @param session the session
 * @param approval the request; borrowed
 * @param user_data of the session's options
 */
typedef void (*IpyboxWithdrawnFunc)(IpyboxSession *session, IpyboxApproval *approval,
                                    gpointer user_data);

/**
 * @brief Tells what MCP servers log and what else is worth a line of a log.
 *
 * @param session the session; NULL while ipybox_session_new() makes it
 * @param level "debug", "info", "warning", "error" or a word of a server's own
 * @param text one line, untrusted
 * @param user_data of the session's options
 */
typedef void (*IpyboxLogFunc)(IpyboxSession *session, const char *level, const char *text,
                              gpointer user_data);

/**
 * @brief Reports an event of a cell, or of the session itself.
 *
 * @param session the session
 * @param event what happened; borrowed
 * @param user_data of the cell's options, or of the session's
 */
typedef void (*IpyboxEventFunc)(IpyboxSession *session, const IpyboxEvent *event,
                                gpointer user_data);

/** What keeps the code of cells from the rest of the system. */
typedef enum {
    IPYBOX_SANDBOX_OFF, /**< nothing: it may do what this process may do */
    IPYBOX_SANDBOX_ON, /**< a sandbox: what its configuration does not allow fails. Where none can be made, each cell ends with
                           #IPYBOX_STATUS_LOST and a message that tells what is missing */
} IpyboxSandbox;

/** The newest version of #IpyboxSessionOptions. */
#define IPYBOX_SESSION_OPTIONS_VERSION 1

/** Options of ipybox_session_new(). Initialise with #IPYBOX_SESSION_OPTIONS_INIT; everything but user_data is copied. */
typedef struct {
    unsigned version;      /**< #IPYBOX_SESSION_OPTIONS_VERSION */
    const char *workspace; /**< the kernel's working directory; NULL: the current one */
    const char
        *images_dir; /**< where images are saved, relative to the workspace; NULL: "images" */
    /** "NAME=value" for the kernel, NULL-terminated. It gets little else. May be NULL */
    const char *const *kernel_env;
    const char *const *
        env; /**< the environment for MCP servers and `${NAME}`, NULL-terminated; NULL: this process's.
                                        The workspace's `.env` adds names that it lacks */
    IpyboxApprovalPolicy approval; /**< for calls that no rule names; IPYBOX_APPROVAL_ASK */
    const char *approval_rules;    /**< path of a rules file, see ipybox-rules(5); NULL: no rules */
    const char
        *audit_log; /**< path of a file that gets a JSON line for each decision; NULL: none */
    int64_t approval_timeout_ms; /**< a request not answered in this time is refused; -1: waits */
    IpyboxApprovalFunc on_approval;   /**< asks; NULL: there is nobody to ask */
    IpyboxWithdrawnFunc on_withdrawn; /**< takes questions back; may be NULL */
    IpyboxLogFunc on_log;             /**< may be NULL */
    /** for on_approval, on_withdrawn, on_log and on_event */
    gpointer user_data;
    unsigned connect_timeout_ms; /**< for the start of an MCP server; 0: 30,000 */
    /** For the generators of random, numpy and torch, 0 to 4,294,967,295; -1: a random one */
    int64_t seed;
    IpyboxSandbox sandbox; /**< for the kernel and what it starts; IPYBOX_SANDBOX_OFF */
    const char *
        sandbox_config; /**< path of what the sandbox allows, see ipybox-sandbox-config(5). NULL: writing the workspace, no
                                           network. A file that is not there is an error */
    gboolean
        register_servers; /**< in a sandbox: ipybox_session_register() will be called. "mcptools" is made in the workspace before
                                    the kernel is there, so that the sandbox protects what is generated */
    /** In a sandbox: ipybox_session_install() takes URLs and what runs code of the package to build it */
    gboolean allow_builds;
    const char *
        working_dir; /**< where the kernel begins, and returns to after each cell, with the notice "[ipybox] cwd reset to DIR";
                                   NULL: it begins in the workspace and stays where cells go */
    const char *
        limits; /**< in a sandbox, instead of the configuration's: a JSON object as its "limits", for example
                              `{"memory": "2G", "processes": 64}`; NULL: none */
    gboolean
        approve_shell_cmds; /**< each shell escape asks for approval: of `!cmd`, `x = !cmd` and `%sx` as tool "shell" of the
                                      server "ipybox", of `%%bash` and `%%sh` as "shell_magic", both with {"cmd": …} */
    gboolean
        require_shell_escape; /**< programs that are run by other ways (subprocess, os.system, …) are refused; needs
                                        approve_shell_cmds. Both are hooks inside the kernel and no walls */
    unsigned kernel_init_timeout_ms; /**< from the fork of a kernel until it is ready; 0: 10,000 */
    /** A JSON object `{name: server_params}`: MCP servers that cells may call by exactly these
     * parameters without a registration, as packages made by mcpygen do. Calls by other parameters go
     * through approval in a session without a sandbox, and are refused in one with a sandbox. NULL:
     * none */
    const char *allowed_servers;
    /** Gets the events that belong to no cell, with user_data: #IPYBOX_EVENT_READY each time that a
     * kernel becomes ready, and #IPYBOX_EVENT_START_FAILED. May be NULL */
    IpyboxEventFunc on_event;
} IpyboxSessionOptions;

/** The defaults of #IpyboxSessionOptions. */
#define IPYBOX_SESSION_OPTIONS_INIT                                                                \
    {                                                                                              \
        IPYBOX_SESSION_OPTIONS_VERSION, NULL, NULL, NULL, NULL, IPYBOX_APPROVAL_ASK, NULL, NULL,   \
            -1, NULL, NULL, NULL, NULL, 0, -1, IPYBOX_SANDBOX_OFF, NULL, FALSE, FALSE, NULL, NULL, \
            FALSE, FALSE, 0, NULL, NULL                                                            \
    }

/**
 * @brief Opens a session. No kernel is started yet.
 *
 * It may call the registered MCP servers whose generated packages lie in its workspace.
 *
 * @param runtime the runtime, which the session keeps
 * @param options the options, or NULL for the defaults
 * @param error #IPYBOX_ERROR_NOT_FOUND: no such workspace, no such rules file, or the installation is not whole;
 *     #IPYBOX_ERROR_INVALID: the rules file, the sandbox's configuration, the registry or an option; #IPYBOX_ERROR_LIMIT: one of these
 *     files is too large; #IPYBOX_ERROR_BUSY: the runtime is closed; #IPYBOX_ERROR_SYSTEM
 * @return the session, to be freed with ipybox_session_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxSession *
ipybox_session_new(IpyboxRuntime *runtime, const IpyboxSessionOptions *options, GError **error);

/**
 * @brief Gets a kernel ready in the background, which the first cell does, too.
 *
 * on_event of the session's options then gets #IPYBOX_EVENT_READY or #IPYBOX_EVENT_START_FAILED, also if
 * the kernel is ready already.
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

/** Options of ipybox_session_execute_async(). Initialise with #IPYBOX_EXECUTE_OPTIONS_INIT. */
typedef struct {
    unsigned version; /**< #IPYBOX_EXECUTE_OPTIONS_VERSION */
    /** The cell is interrupted after this time, waits for approvals not counted; 0: never */
    unsigned timeout_ms;
    size_t
        max_text_chars; /**< of the result's text, see ipybox_result_is_truncated(); 0: as much as is kept at all (256 MiB) */
    IpyboxEventFunc on_event; /**< told each event as it comes; may be NULL */
    gpointer user_data;       /**< for on_event */
} IpyboxExecuteOptions;

/** The defaults of #IpyboxExecuteOptions. */
#define IPYBOX_EXECUTE_OPTIONS_INIT                                                                \
    {                                                                                              \
        IPYBOX_EXECUTE_OPTIONS_VERSION, 0, 0, NULL, NULL                                           \
    }

/**
 * @brief Runs code as a cell, after those that wait already.
 *
 * @param session the session
 * @param code Python as IPython takes it, in UTF-8, 32 MiB at most; copied
 * @param options the options, or NULL for the defaults; copied
 * @param cancellable interrupts the cell, or drops it while it waits; the result is #IPYBOX_STATUS_CANCELLED. May be NULL
 * @param callback called in the runtime's context when the cell has ended, after all its events; its source object is NULL. May be
 *     NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_execute_async(IpyboxSession *session, const char *code,
                                                const IpyboxExecuteOptions *options,
                                                GCancellable *cancellable,
                                                GAsyncReadyCallback callback, gpointer user_data);

/**
 * @brief Ends ipybox_session_execute_async().
 *
 * @param session the session
 * @param result as given to the callback
 * @param error why the cell was not taken: #IPYBOX_ERROR_INVALID (no UTF-8), #IPYBOX_ERROR_LIMIT (too large, or too many wait),
 *     #IPYBOX_ERROR_BUSY (the session is closed), #IPYBOX_ERROR_CANCELLED (it was freed). How a cell ended that was taken is in the
 *     result
 * @return the result, to be freed with ipybox_result_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxResult *ipybox_session_execute_finish(IpyboxSession *session,
                                                          GAsyncResult *result, GError **error);

/**
 * @brief Like ipybox_session_execute_async(), but blocks until the cell has ended.
 *
 * @param session the session
 * @param code Python as IPython takes it, in UTF-8, 32 MiB at most
 * @param options the options, or NULL for the defaults
 * @param cancellable interrupts the cell; may be NULL, and may be cancelled from another thread
 * @param error as of ipybox_session_execute_finish(); #IPYBOX_ERROR_BUSY also from within a callback
 * @return the result, to be freed with ipybox_result_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxResult *ipybox_session_execute(IpyboxSession *session, const char *code,
                                                   const IpyboxExecuteOptions *options,
                                                   GCancellable *cancellable, GError **error);

/**
 * @brief Interrupts the running cell, if any, as Ctrl-C does: Python sees a KeyboardInterrupt and the state is kept.
 *
 * A cell that catches it and runs to its end is #IPYBOX_STATUS_OK, else #IPYBOX_STATUS_CANCELLED. If the
 * cell still runs after the grace period, its kernel is killed.
 *
 * @param session the session
 */
IPYBOX_EXPORT void ipybox_session_interrupt(IpyboxSession *session);

/**
 * @brief Back-pressure: while a session is paused, nothing of the kernel's output is read, and a kernel that goes on printing waits.
 *
 * So its cell does not end, not even one that is interrupted, cancelled or out of time, until the session goes on. A reset and the
 * session's end do not wait for that.
 *
 * @param session the session
 * @param paused whether to pause
 */
IPYBOX_EXPORT void ipybox_session_set_paused(IpyboxSession *session, gboolean paused);

/**
 * @brief Throws the kernel away and stops all MCP servers. Running and waiting cells end with #IPYBOX_STATUS_LOST.
 *
 * @param session the session
 * @param callback called in the runtime's context when the servers are gone; its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_reset_async(IpyboxSession *session, GAsyncReadyCallback callback,
                                              gpointer user_data);

/**
 * @brief Ends ipybox_session_reset_async().
 *
 * @param session the session
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_BUSY: the session is closed
 * @return whether it was reset
 */
IPYBOX_EXPORT gboolean ipybox_session_reset_finish(IpyboxSession *session, GAsyncResult *result,
                                                   GError **error);

/**
 * @brief Like ipybox_session_reset_async(), but blocks.
 *
 * @param session the session
 * @param error as of ipybox_session_reset_finish(); #IPYBOX_ERROR_BUSY also from within a callback
 * @return whether it was reset
 */
IPYBOX_EXPORT gboolean ipybox_session_reset(IpyboxSession *session, GError **error);

/* --- MCP servers --- */

/** The newest version of #IpyboxRegisterOptions. */
#define IPYBOX_REGISTER_OPTIONS_VERSION 1

/** What ipybox_session_register_finish() returns of each tool. */
typedef enum {
    IPYBOX_LISTING_MODULES,    /**< the module's name */
    IPYBOX_LISTING_SIGNATURES, /**< one line: how it is called, and what it returns */
    IPYBOX_LISTING_STUBS       /**< its classes and `run` in short Python, some lines */
} IpyboxListing;

/** Options of ipybox_session_register_async(). Initialise with #IPYBOX_REGISTER_OPTIONS_INIT. */
typedef struct {
    unsigned version; /**< #IPYBOX_REGISTER_OPTIONS_VERSION */
    /** Where the package goes, relative to the workspace; NULL: "mcptools", the one that a sandbox protects */
    const char *root_dir;
    gboolean async_api;    /**< the generated functions are coroutines */
    IpyboxListing listing; /**< what is told of each tool */
} IpyboxRegisterOptions;

/** The defaults of #IpyboxRegisterOptions. */
#define IPYBOX_REGISTER_OPTIONS_INIT                                                               \
    {                                                                                              \
        IPYBOX_REGISTER_OPTIONS_VERSION, NULL, FALSE, IPYBOX_LISTING_MODULES                       \
    }

/**
 * @brief Connects to an MCP server, generates a Python package from its tools, registers the server, and lets this session call it.
 *
 * The package is `root_dir/name`, with a module for each tool. What fails leaves the package of before as it was.
 *
 * @param session the session
 * @param name the server's name, a Python identifier
 * @param params_json its parameters, see server.h. `"sandbox": true` in them puts the server into a sandbox of its own
 * @param options the options, or NULL for the defaults; copied
 * @param cancellable gives up; may be NULL
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
 * @param session the session
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_INVALID: the name or the parameters, or the session is in a sandbox and did not say
 *     `register_servers`; #IPYBOX_ERROR_NOT_FOUND: a variable or the command;
 *     #IPYBOX_ERROR_SERVER, #IPYBOX_ERROR_PROTOCOL, #IPYBOX_ERROR_TIMEOUT: the server failed, with its last words;
 *     #IPYBOX_ERROR_REFUSED: it wants a login, or its certificate is not to be trusted; #IPYBOX_ERROR_UNAVAILABLE: it cannot be
 *     reached, or what it needs here is missing; #IPYBOX_ERROR_LIMIT; #IPYBOX_ERROR_BUSY; #IPYBOX_ERROR_CANCELLED;
 *     #IPYBOX_ERROR_SYSTEM
 * @return the names of the generated modules, or what else the options' listing says, NULL-terminated, to be freed with g_strfreev(); NULL with @p error
 */
IPYBOX_EXPORT char **ipybox_session_register_finish(IpyboxSession *session, GAsyncResult *result,
                                                    GError **error);

/**
 * @brief Like ipybox_session_register_async(), but blocks.
 *
 * @param session the session
 * @param name the server's name, a Python identifier
 * @param params_json its parameters, see server.h
 * @param options the options, or NULL for the defaults
 * @param cancellable gives up; may be NULL
 * @param error as of ipybox_session_register_finish(); #IPYBOX_ERROR_BUSY also from within a callback
 * @return the names of the generated modules, or what else the options' listing says, NULL-terminated, to be freed with g_strfreev(); NULL with @p error
 */
IPYBOX_EXPORT char **ipybox_session_register(IpyboxSession *session, const char *name,
                                             const char *params_json,
                                             const IpyboxRegisterOptions *options,
                                             GCancellable *cancellable, GError **error);

/* --- packages --- */

/**
 * @brief Tells a line of an installer's output.
 *
 * @param session the session
 * @param line the line, without its end
 * @param user_data as given with this function
 */
typedef void (*IpyboxInstallFunc)(IpyboxSession *session, const char *line, gpointer user_data);

/**
 * @brief Installs a package for the session's Python; cells can import it at once.
 *
 * @param session the session
 * @param package a requirement as pip takes it: `name`, `name>=1.0`, `git+https://…`
 * @param on_line told each line of the installer's output; may be NULL
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
 * @param session the session
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_INVALID: no requirement; #IPYBOX_ERROR_REFUSED: a URL, in a sandbox without `allow_builds`;
 *     #IPYBOX_ERROR_SERVER: the installer failed, its output is in the message; #IPYBOX_ERROR_BUSY: another installation is under
 *     way, or the session is closed; #IPYBOX_ERROR_TIMEOUT; #IPYBOX_ERROR_CANCELLED; #IPYBOX_ERROR_UNAVAILABLE: no sandbox can be
 *     made for it; #IPYBOX_ERROR_NOT_FOUND, #IPYBOX_ERROR_SYSTEM: the installer cannot be started
 * @return the installer's output, to be freed with g_free(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_install_finish(IpyboxSession *session, GAsyncResult *result,
                                                  GError **error);

/**
 * @brief Like ipybox_session_install_async(), but blocks and tells no lines.
 *
 * @param session the session
 * @param package a requirement as pip takes it
 * @param cancellable ends the installer; may be NULL
 * @param error as of ipybox_session_install_finish(); #IPYBOX_ERROR_BUSY also from within a callback
 * @return the installer's output, to be freed with g_free(); NULL with @p error
 */
IPYBOX_EXPORT char *ipybox_session_install(IpyboxSession *session, const char *package,
                                           GCancellable *cancellable, GError **error);

/* --- end --- */

/**
 * @brief Ends the kernel and the MCP servers in order. Running and waiting cells end with #IPYBOX_STATUS_LOST.
 *
 * @param session the session, which can only be freed afterwards
 * @param callback called in the runtime's context when nothing is left; its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_session_close_async(IpyboxSession *session, GAsyncReadyCallback callback,
                                              gpointer user_data);

/**
 * @brief Ends ipybox_session_close_async().
 *
 * @param session the session
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_BUSY: it is closed already, or being closed
 * @return whether it was closed
 */
IPYBOX_EXPORT gboolean ipybox_session_close_finish(IpyboxSession *session, GAsyncResult *result,
                                                   GError **error);

/**
 * @brief Like ipybox_session_close_async(), but blocks; takes 15 seconds at most.
 *
 * @param session the session
 * @param error as of ipybox_session_close_finish(); #IPYBOX_ERROR_BUSY also from within a callback
 * @return whether it was closed
 */
IPYBOX_EXPORT gboolean ipybox_session_close(IpyboxSession *session, GError **error);

/**
 * @brief Frees a session. What was not closed is killed at once.
 *
 * Operations under way are told #IPYBOX_ERROR_CANCELLED, from the context, after this returns; their `_finish` takes NULL for the
 * session then.
 *
 * @param session the session, or NULL
 */
IPYBOX_EXPORT void ipybox_session_free(IpyboxSession *session);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxSession, ipybox_session_free)

G_END_DECLS
