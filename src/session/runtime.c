/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime; see the header.
 */
#include "session/runtime.h"

#include "sandbox/launch.h"
#include "session/python.h"

struct IpbRuntime {
    int references;
    IpbLoop *loop;
    IpbForkserver *forkserver;
    IpbForkserver *sandbox_forkserver; /* NULL before the first session that is sandboxed */
    IpbRegistry *registry;
    IpbMcpEras *eras;
    char *python, *host_directory, *state_dir, **preload;
    unsigned n_stopping;
    void (*stopped)(void *data);
    void *stopped_data;
};

static IpbForkserver *
make_forkserver(const IpbRuntime *runtime, const char *entrance)
{
    IpbForkserverOptions options = {
        .python = runtime->python,
        .host_directory = runtime->host_directory,
        .preload = (const char *const *) runtime->preload,
        .entrance = entrance,
    };
    return ipb_forkserver_new(runtime->loop, &options);
}

IpbRuntime *
ipb_runtime_new(GMainContext *context, const IpbRuntimeOptions *options, GError **error)
{
    g_autofree char *python = ipb_python_find(options->python, error);
    if (python == NULL)
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
    runtime->state_dir = options->state_dir != NULL
                             ? g_canonicalize_filename(options->state_dir, NULL)
                             : g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    runtime->registry = ipb_registry_new(runtime->state_dir);
    runtime->eras = ipb_mcp_eras_new();
    runtime->preload = g_strdupv((char **) options->preload);
    runtime->forkserver = make_forkserver(runtime, NULL);
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
    ipb_forkserver_unref(runtime->forkserver);
    g_clear_pointer(&runtime->sandbox_forkserver, ipb_forkserver_unref);
    ipb_registry_free(runtime->registry);
    ipb_mcp_eras_unref(runtime->eras);
    ipb_loop_unref(runtime->loop);
    g_free(runtime->python);
    g_free(runtime->host_directory);
    g_free(runtime->state_dir);
    g_strfreev(runtime->preload);
    g_free(runtime);
}

void
ipb_runtime_start(IpbRuntime *runtime)
{
    ipb_forkserver_start(runtime->forkserver);
}

static void
on_forkserver_stopped(void *data)
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
    runtime->n_stopping = runtime->sandbox_forkserver != NULL ? 2 : 1;
    if (runtime->sandbox_forkserver != NULL)
        ipb_forkserver_stop(runtime->sandbox_forkserver, on_forkserver_stopped, runtime);
    ipb_forkserver_stop(runtime->forkserver, on_forkserver_stopped, runtime);
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

IpbMcpEras *
ipb_runtime_eras(IpbRuntime *runtime)
{
    return runtime->eras;
}

IpbForkserver *
ipb_runtime_forkserver(IpbRuntime *runtime, bool is_sandboxed, GError **error)
{
    if (!is_sandboxed)
        return runtime->forkserver;
    if (runtime->sandbox_forkserver == NULL) {
        g_autofree char *entrance = ipb_sandbox_find_entrance(error);
        if (entrance == NULL)
            return NULL;
        runtime->sandbox_forkserver = make_forkserver(runtime, entrance);
    }
    return runtime->sandbox_forkserver;
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
