/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief A runtime: what the sessions of a program share.
 *
 * Its sessions share a warm Python, which has loaded IPython and from which kernels are forked, and
 * the registry of MCP servers.
 *
 * **Threads.** A runtime, its sessions and everything that comes from them belong to the one thread
 * that iterates the runtime's GMainContext. Runtimes share nothing, so each thread may have its
 * own. A child that the program forks must neither use nor free them, because they belong to its
 * parent.
 *
 * **Calls that take time** have two forms: `_async` with `_finish`, and a function of the plain
 * name that blocks. A function that blocks iterates the runtime's context until it is done, so
 * other sources of that context are dispatched while it waits. In a callback of this library it
 * fails with #IPYBOX_ERROR_BUSY.
 *
 * **Callbacks** are called only while the context is iterated, by the program or by a function that
 * blocks. Only the log lines of ipybox_session_new() come during that call itself. A callback must
 * not iterate the context.
 *
 * **Ownership.** A pointer that a function returns is borrowed from the object that it was got
 * from, unless the description says how to free it. Arguments are copied or used only during the
 * call, unless the description says something else.
 *
 * Relative paths in options start at the current directory of the time of the call, unless their
 * description says something else.
 *
 * @code
 * IpyboxRuntimeOptions options = IPYBOX_RUNTIME_OPTIONS_INIT;
 * options.preload = (const char *const[]){"numpy", "pandas", NULL};
 * g_autoptr(IpyboxRuntime) runtime = ipybox_runtime_new(&options, &error);
 * @endcode
 */
#pragma once

#include <gio/gio.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** See the description of this file. Opaque; free it with ipybox_runtime_free(). */
typedef struct IpyboxRuntime IpyboxRuntime;

/** The newest version of #IpyboxRuntimeOptions. */
#define IPYBOX_RUNTIME_OPTIONS_VERSION 1

/**
 * @brief Options of ipybox_runtime_new().
 *
 * Initialise them with #IPYBOX_RUNTIME_OPTIONS_INIT. Everything is copied; the runtime keeps a
 * reference to the context.
 */
typedef struct {
    /** #IPYBOX_RUNTIME_OPTIONS_VERSION. */
    unsigned version;
    /** The interpreter for kernels: a path, or a name in PATH. NULL: the first that exists of
     * IPYBOX_PYTHON, the environment that ipybox is installed in, VIRTUAL_ENV, the environment of
     * `ipybox doctor --setup`, and python3. */
    const char *python;
    /** Modules to import once, before the first kernel is forked; NULL-terminated, or NULL. */
    const char *const *preload;
    /** The directory of the registry of MCP servers. NULL: `$XDG_STATE_HOME/ipybox`. */
    const char *state_dir;
    /** The directory of the kernel host, if the program has its own. NULL: the installed one. */
    const char *kernel_host;
    /** The context that everything runs in. NULL: the thread's default context at the time of the
     * call. */
    GMainContext *context;
} IpyboxRuntimeOptions;

/* clang-format off */
/** The defaults of #IpyboxRuntimeOptions. */
#define IPYBOX_RUNTIME_OPTIONS_INIT                                                                \
    {                                                                                              \
        IPYBOX_RUNTIME_OPTIONS_VERSION,                                                            \
        /* python */ NULL, /* preload */ NULL, /* state_dir */ NULL, /* kernel_host */ NULL,       \
        /* context */ NULL                                                                         \
    }
/* clang-format on */

/**
 * @brief Creates a runtime. No process is started yet.
 *
 * @param options the options; NULL: the defaults
 * @param error #IPYBOX_ERROR_NOT_FOUND: there is no Python, or the installation is incomplete;
 *     #IPYBOX_ERROR_INVALID: this library does not know the version of @p options
 * @return the runtime, to be freed with ipybox_runtime_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxRuntime *ipybox_runtime_new(const IpyboxRuntimeOptions *options,
                                                GError **error);

/**
 * @brief Starts the warm Python in the background. Otherwise the first cell starts it.
 *
 * Sandboxed sessions use another one, which ipybox_session_start() starts.
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
 * @brief Closes all sessions in order, then ends Python.
 *
 * @param runtime the runtime, which can only be freed afterwards
 * @param callback called in the runtime's context when everything has ended; its source object is
 *     NULL. May be NULL
 * @param user_data for @p callback
 */
IPYBOX_EXPORT void ipybox_runtime_close_async(IpyboxRuntime *runtime, GAsyncReadyCallback callback,
                                              gpointer user_data);

/**
 * @brief Ends ipybox_runtime_close_async().
 *
 * @param runtime the runtime; NULL if it was freed
 * @param result as given to the callback
 * @param error #IPYBOX_ERROR_BUSY: it is closed already, or being closed; #IPYBOX_ERROR_TIMEOUT: it
 *     took more than 15 seconds, and ipybox_runtime_free() kills the rest; #IPYBOX_ERROR_CANCELLED:
 *     it was freed
 * @return whether it was closed
 */
IPYBOX_EXPORT gboolean ipybox_runtime_close_finish(IpyboxRuntime *runtime, GAsyncResult *result,
                                                   GError **error);

/**
 * @brief Like ipybox_runtime_close_async(), but blocks, for at most 15 seconds.
 *
 * @param runtime the runtime
 * @param error as for ipybox_runtime_close_finish(); also #IPYBOX_ERROR_BUSY if this is called from
 *     a callback
 * @return whether it was closed
 */
IPYBOX_EXPORT gboolean ipybox_runtime_close(IpyboxRuntime *runtime, GError **error);

/**
 * @brief Frees a runtime. If it was not closed, its processes are killed at once.
 *
 * Its sessions can only be freed afterwards.
 *
 * Operations under way end with #IPYBOX_ERROR_CANCELLED; their callbacks are called from the
 * context after this returns. If this is called from a callback, processes are killed in the
 * context's next iteration.
 *
 * @param runtime the runtime, or NULL
 */
IPYBOX_EXPORT void ipybox_runtime_free(IpyboxRuntime *runtime);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxRuntime, ipybox_runtime_free)

G_END_DECLS
