/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime; see the header.
 */
#include "session/runtime.h"

#include "kernel/native-provider.h"
#include "session/python.h"

struct IpbRuntime {
    int references;
    IpbLoop *loop;
    GPtrArray *kernel_providers; /* the first is the default */
    IpbRegistry *registry;
    IpbLegacyServers *legacy_servers;
    char *python, *host_directory, *state_dir;
    char *warning; /* or NULL */
    IpbCheckpointTotals checkpoint_totals;
    unsigned n_stopping;
    void (*stopped)(void *data);
    void *stopped_data;
};

IpbRuntime *
ipb_runtime_new(GMainContext *context, const IpbRuntimeOptions *options, GError **error)
{
    IpbPythonOrigin origin;
    g_autofree char *warning = NULL;
    g_autofree char *python = ipb_python_find(options->python, &origin, error);
    g_autofree char *state_dir = options->state_dir != NULL
                                     ? g_canonicalize_filename(options->state_dir, NULL)
                                     : g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    if (python == NULL || !ipb_known_paths_check_python(state_dir, python, origin, &warning, error))
        return NULL;
    g_autofree char *host = ipb_python_find_host(options->host_directory, error);
    if (host == NULL)
        return NULL;
    g_autoptr(IpbLoop) loop = ipb_loop_new(context, error);
    if (loop == NULL)
        return NULL;
    IpbRuntime *runtime = g_new0(IpbRuntime, 1);
    runtime->references = 1;
    runtime->loop = g_steal_pointer(&loop);
    runtime->python = g_steal_pointer(&python);
    runtime->host_directory = g_steal_pointer(&host);
    runtime->state_dir = g_steal_pointer(&state_dir);
    runtime->warning = g_steal_pointer(&warning);
    runtime->registry = ipb_registry_new(runtime->state_dir);
    runtime->legacy_servers = ipb_legacy_servers_new();
    runtime->kernel_providers =
        g_ptr_array_new_with_free_func((GDestroyNotify) ipb_kernel_provider_unref);
    g_autoptr(IpbKernelProvider) native =
        ipb_native_provider_new(runtime->loop, &(IpbNativeProviderOptions){
                                                   .python = runtime->python,
                                                   .host_directory = runtime->host_directory,
                                                   .preload = options->preload,
                                               });
    ipb_runtime_add_kernel_provider(runtime, native);
    return runtime;
}

IpbRuntime *
ipb_runtime_ref(IpbRuntime *runtime)
{
    runtime->references++;
    return runtime;
}

void
ipb_runtime_unref(IpbRuntime *runtime)
{
    if (runtime == NULL || --runtime->references > 0)
        return;
    g_ptr_array_unref(runtime->kernel_providers);
    ipb_registry_free(runtime->registry);
    ipb_legacy_servers_unref(runtime->legacy_servers);
    ipb_loop_unref(runtime->loop);
    g_free(runtime->python);
    g_free(runtime->host_directory);
    g_free(runtime->state_dir);
    g_free(runtime->warning);
    g_free(runtime);
}

void
ipb_runtime_start(IpbRuntime *runtime)
{
    ipb_kernel_provider_start(ipb_runtime_kernel_provider(runtime));
}

static void
on_provider_stopped(void *data)
{
    IpbRuntime *runtime = data;
    if (--runtime->n_stopping == 0)
        runtime->stopped(runtime->stopped_data); /* may free the runtime */
}

void
ipb_runtime_stop(IpbRuntime *runtime, void (*done)(void *data), void *data)
{
    runtime->stopped = done;
    runtime->stopped_data = data;
    runtime->n_stopping = runtime->kernel_providers->len;
    for (guint i = 0; i < runtime->kernel_providers->len; i++)
        ipb_kernel_provider_stop(g_ptr_array_index(runtime->kernel_providers, i),
                                 on_provider_stopped, runtime);
}

IpbLoop *
ipb_runtime_loop(IpbRuntime *runtime)
{
    return runtime->loop;
}

IpbRegistry *
ipb_runtime_registry(IpbRuntime *runtime)
{
    return runtime->registry;
}

IpbLegacyServers *
ipb_runtime_legacy_servers(IpbRuntime *runtime)
{
    return runtime->legacy_servers;
}

void
ipb_runtime_add_kernel_provider(IpbRuntime *runtime, IpbKernelProvider *provider)
{
    g_ptr_array_add(runtime->kernel_providers, ipb_kernel_provider_ref(provider));
}

IpbKernelProvider *
ipb_runtime_kernel_provider(IpbRuntime *runtime)
{
    return g_ptr_array_index(runtime->kernel_providers, 0);
}

const char *
ipb_runtime_python(IpbRuntime *runtime)
{
    return runtime->python;
}

const char *
ipb_runtime_host_directory(IpbRuntime *runtime)
{
    return runtime->host_directory;
}

const char *
ipb_runtime_state_dir(IpbRuntime *runtime)
{
    return runtime->state_dir;
}

const char *
ipb_runtime_warning(const IpbRuntime *runtime)
{
    return runtime->warning;
}

IpbCheckpointTotals *
ipb_runtime_checkpoint_totals(IpbRuntime *runtime)
{
    return &runtime->checkpoint_totals;
}
