/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime; see the header.
 */
#include "session/runtime.h"

#include "session/python.h"

struct IpbRuntime {
    int references;
    IpbLoop *loop;
    IpbForkserver *forkserver;
    IpbRegistry *registry;
    char *python;
};

IpbRuntime *
ipb_runtime_new(GMainContext *context, const IpbRuntimeOptions *options, GError **error)
{
    g_autofree char *python = ipb_python_find(options->python, error);
    if (python == NULL)
        return NULL;
    g_autofree char *host = options->host_directory != NULL ? g_strdup(options->host_directory)
                                                            : ipb_python_find_host(error);
    if (host == NULL)
        return NULL;
    g_autoptr(IpbLoop) loop = ipb_loop_new(context, error);
    if (loop == NULL)
        return NULL;
    IpbRuntime *runtime = g_new0(IpbRuntime, 1);
    runtime->references = 1;
    runtime->loop = g_steal_pointer(&loop);
    runtime->python = g_steal_pointer(&python);
    runtime->registry = ipb_registry_new(options->state_dir);
    runtime->forkserver = ipb_forkserver_new(runtime->loop, &(IpbForkserverOptions){
                                                                .python = runtime->python,
                                                                .host_directory = host,
                                                                .preload = options->preload,
                                                            });
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
    ipb_registry_free(runtime->registry);
    ipb_loop_unref(runtime->loop);
    g_free(runtime->python);
    g_free(runtime);
}

void
ipb_runtime_start(IpbRuntime *runtime)
{
    ipb_forkserver_start(runtime->forkserver);
}

void
ipb_runtime_stop(IpbRuntime *runtime, void (*done)(void *data), void *data)
{
    ipb_forkserver_stop(runtime->forkserver, done, data);
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

IpbForkserver *
ipb_runtime_forkserver(IpbRuntime *runtime)
{
    return runtime->forkserver;
}

const char *
ipb_runtime_python(IpbRuntime *runtime)
{
    return runtime->python;
}
