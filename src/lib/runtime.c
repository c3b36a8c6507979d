/* SPDX-License-Identifier: Apache-2.0
 *
 * Runtimes; see <ipybox/runtime.h>.
 */
#include "lib/runtime.h"

#include "base/error.h"
#include "base/thread.h"
#include "lib/block.h"
#include "lib/session.h"
#include "lib/version.h"

static bool
check_options(const IpyboxRuntimeOptions *options, GError **error)
{
    return ipb_lib_check_version(options->version, IPYBOX_RUNTIME_OPTIONS_VERSION,
                                 "IpyboxRuntimeOptions", error);
}

IpyboxRuntime *
ipybox_runtime_new(const IpyboxRuntimeOptions *options, GError **error)
{
    static const IpyboxRuntimeOptions DEFAULTS = IPYBOX_RUNTIME_OPTIONS_INIT;
    if (options == NULL)
        options = &DEFAULTS;
    if (!check_options(options, error) || !ipb_thread_check(error))
        return NULL;
    g_type_ensure(G_TYPE_TASK); /* makes its threads now, not when the first cell has ended */
    g_autoptr(GMainContext) context = options->context != NULL
                                          ? g_main_context_ref(options->context)
                                          : g_main_context_ref_thread_default();
    IpbRuntimeOptions core_options = {
        .python = options->python,
        .preload = options->preload,
        .host_directory = options->kernel_host,
        .state_dir = options->state_dir,
    };
    IpbRuntime *core = ipb_runtime_new(context, &core_options, error);
    if (core == NULL)
        return NULL;
    IpyboxRuntime *runtime = g_new0(IpyboxRuntime, 1);
    runtime->context = g_steal_pointer(&context);
    runtime->core = core;
    runtime->sessions = g_ptr_array_new();
    return runtime;
}

void
ipybox_runtime_start(IpyboxRuntime *runtime)
{
    g_return_if_fail(runtime != NULL);
    if (!runtime->is_closed)
        ipb_runtime_start(runtime->core);
}

const char *
ipybox_runtime_get_python(IpyboxRuntime *runtime)
{
    g_return_val_if_fail(runtime != NULL, NULL);
    return ipb_runtime_python(runtime->core);
}

/* --- the end: sessions, then Python ---------------------------------------------------------- */

static void
finish_close(IpyboxRuntime *runtime, GError *error)
{
    g_autoptr(IpbCall) closing = g_steal_pointer(&runtime->closing);
    g_clear_pointer(&runtime->close_timer, ipb_timer_free);
    if (closing == NULL)
        g_clear_error(&error);
    else if (error != NULL)
        ipb_call_return_error(closing, error);
    else
        ipb_call_return(closing, GINT_TO_POINTER(TRUE), NULL);
}

static void
on_stopped(void *data)
{
    finish_close(data, NULL);
}

static void
on_part_closed(void *data)
{
    IpyboxRuntime *runtime = data;
    if (--runtime->n_closing == 0)
        ipb_runtime_stop(runtime->core, on_stopped, runtime);
}

static void
on_close_timeout(void *data)
{
    IpyboxRuntime *runtime = data;
    finish_close(runtime,
                 g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                             "the runtime had not ended after %d s: free it to kill what is left",
                             IPB_LIB_CLOSE_TIMEOUT_MS / 1000));
}

static void
close_sessions(IpyboxRuntime *runtime)
{
    runtime->n_closing = 1 + runtime->sessions->len;
    for (guint i = 0; i < runtime->sessions->len; i++)
        ipb_lib_session_close(g_ptr_array_index(runtime->sessions, i), on_part_closed, runtime);
    on_part_closed(runtime); /* this function's own part */
}

void
ipybox_runtime_close_async(IpyboxRuntime *runtime, GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(runtime != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(runtime->context, ipybox_runtime_close_async, callback, user_data);
    if (runtime->is_closed) {
        ipb_call_return_error(
            call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the runtime is closed already"));
        return;
    }
    runtime->is_closed = true;
    runtime->closing = g_steal_pointer(&call);
    runtime->close_timer = ipb_timer_new(ipb_runtime_loop(runtime->core), IPB_LIB_CLOSE_TIMEOUT_MS,
                                         on_close_timeout, runtime);
    close_sessions(runtime);
}

gboolean
ipybox_runtime_close_finish(IpyboxRuntime *runtime, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_runtime_close_async, error) != NULL;
}

gboolean
ipybox_runtime_close(IpyboxRuntime *runtime, GError **error)
{
    g_return_val_if_fail(runtime != NULL, FALSE);
    IpbBlock block;
    if (!ipb_block_begin(&block, runtime->context, error))
        return FALSE;
    ipybox_runtime_close_async(runtime, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_runtime_close_finish(NULL, result, error);
}

static void
destroy(gpointer data)
{
    IpyboxRuntime *runtime = data;
    g_clear_pointer(&runtime->close_timer, ipb_timer_free);
    ipb_runtime_unref(runtime->core);
    g_ptr_array_unref(runtime->sessions);
    g_main_context_unref(runtime->context);
    g_free(runtime);
}

static gboolean
on_destroy(gpointer data)
{
    return G_SOURCE_REMOVE; /* then destroy is called */
}

/* After the cores of the sessions, whose sources were attached before. */
static void
destroy_soon(IpyboxRuntime *runtime)
{
    g_autoptr(GSource) source = g_idle_source_new();
    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, on_destroy, runtime, destroy);
    g_source_attach(source, runtime->context);
}

void
ipybox_runtime_free(IpyboxRuntime *runtime)
{
    if (runtime == NULL)
        return;
    runtime->is_closed = true;
    g_autoptr(GPtrArray) sessions = g_steal_pointer(&runtime->sessions);
    runtime->sessions = g_ptr_array_new();
    for (guint i = 0; i < sessions->len; i++)
        ipb_lib_session_lose_runtime(g_ptr_array_index(sessions, i));
    if (runtime->closing != NULL)
        finish_close(runtime,
                     g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the runtime was freed"));
    if (ipb_block_is_in_callback())
        destroy_soon(runtime);
    else
        destroy(runtime);
}
