/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief What the sessions of a program share: a warm Python that kernels are forked from, and the registry of MCP servers.
 *
 * Thread: a runtime, its sessions and everything that comes from them belong to the one thread that iterates the runtime's
 * GMainContext. Runtimes share nothing, so each thread may have its own. A child that the program forks must not use them, nor free
 * them: what they hold is its parent's.
 *
 * Every operation that takes time comes twice: `_async` with `_finish`, and a call of the plain name that blocks. One that
 * blocks iterates the runtime's context until it is done, so other sources of that context are dispatched meanwhile. It must
 * not be called from a callback of this library: it ends with #IPYBOX_ERROR_BUSY there. Callbacks come from the context, never
 * from within a call that the program makes, but for what ipybox_session_new() logs; they must not iterate the context themselves.
 *
 * Relative paths in options start from the directory that is current at the time of the call, unless they say otherwise.
 */
#pragma once

#include <gio/gio.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** See the file's head. Opaque. */
typedef struct IpyboxRuntime IpyboxRuntime;

/** The newest version of #IpyboxRuntimeOptions. */
#define IPYBOX_RUNTIME_OPTIONS_VERSION 1

/** Options of ipybox_runtime_new(). Initialise with #IPYBOX_RUNTIME_OPTIONS_INIT; everything is copied. */
typedef struct {
    unsigned version; /**< #IPYBOX_RUNTIME_OPTIONS_VERSION */
    const char *
        python; /**< interpreter for kernels: a path, or a name in PATH. NULL: IPYBOX_PYTHON, that of the
                                     environment ipybox is installed in, VIRTUAL_ENV, that of
                                     `ipybox doctor --setup`, python3 */
    /** Modules to import once, before the first kernel is forked; NULL-terminated, or NULL */
    const char *const *preload;
    /** Where the registry of MCP servers is kept. NULL: `$XDG_STATE_HOME/ipybox` */
    const char *state_dir;
    /** Folder of the kernel host, for a program that carries its own. NULL: the installed one */
    const char *kernel_host;
    /** What everything runs in. NULL: the thread's default context at the time of the call */
    GMainContext *context;
} IpyboxRuntimeOptions;

/** The defaults of #IpyboxRuntimeOptions. */
#define IPYBOX_RUNTIME_OPTIONS_INIT                                                                \
    {                                                                                              \
        IPYBOX_RUNTIME_OPTIONS_VERSION, NULL, NULL, NULL, NULL, NULL                               \
    }

/**
 * @brief Makes a runtime. Starts no process yet.
 *
 * @param options the options, or NULL for the defaults
 * @param error #IPYBOX_ERROR_NOT_FOUND: no Python, or the installation is not whole; #IPYBOX_ERROR_INVALID: a version of
 *     @p options that this library does not know
 * @return the runtime, to be freed with ipybox_runtime_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxRuntime *ipybox_runtime_new(const IpyboxRuntimeOptions *options,
                                                GError **error);

/**
 * @brief Warms Python up in the background, which the first cell does, too.
 *
 * That of sandboxes is another one, which ipybox_session_start() warms up.
 *
 * @param runtime the runtime
 */
IPYBOX_EXPORT void ipybox_runtime_start(IpyboxRuntime *runtime);

/**
 * @brief The interpreter that runs kernels.
 *
 * @param runtime the runtime
 * @return its path; owned by the runtime
 */
IPYBOX_EXPORT const char *ipybox_runtime_get_python(IpyboxRuntime *runtime);

/**
 * @brief Ends Python and every kernel in order. Sessions that are still open are closed, too.
 *
 * @param runtime the runtime, which can only be freed afterwards
 * @param callback called in the runtime's context when nothing is left; its source object is NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_runtime_close_async(IpyboxRuntime *runtime, GAsyncReadyCallback callback,
                                              gpointer user_data);

/**
 * @brief Ends ipybox_runtime_close_async().
 *
 * @param runtime the runtime
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_BUSY: it is closed already, or being closed; #IPYBOX_ERROR_TIMEOUT: it took more than 15 seconds, and
 *     freeing it kills what is left; #IPYBOX_ERROR_CANCELLED: it was freed
 * @return whether it was closed
 */
IPYBOX_EXPORT gboolean ipybox_runtime_close_finish(IpyboxRuntime *runtime, GAsyncResult *result,
                                                   GError **error);

/**
 * @brief Like ipybox_runtime_close_async(), but blocks; takes 15 seconds at most.
 *
 * @param runtime the runtime
 * @param error as of ipybox_runtime_close_finish(); #IPYBOX_ERROR_BUSY also from within a callback
 * @return whether it was closed
 */
IPYBOX_EXPORT gboolean ipybox_runtime_close(IpyboxRuntime *runtime, GError **error);

/**
 * @brief Frees a runtime. What was not closed is killed at once; sessions that are still there end with it and can only be freed.
 *
 * Operations under way are told #IPYBOX_ERROR_CANCELLED, from the context, after this returns. From within a callback, what is
 * killed goes in the context's next turn.
 *
 * @param runtime the runtime, or NULL
 */
IPYBOX_EXPORT void ipybox_runtime_free(IpyboxRuntime *runtime);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxRuntime, ipybox_runtime_free)

G_END_DECLS
