/* SPDX-License-Identifier: Apache-2.0
 *
 * The native provider; see the header.
 */
#include "kernel/native-provider.h"

#include "kernel/forkserver.h"
#include "kernel/native-kernel.h"
#include "sandbox/sandbox.h"

typedef struct {
    IpbKernelProvider base;
    IpbLoop *loop;
    char *python, *host_directory, **preload;
    IpbForkserver *forkserver;
    IpbForkserver *sandbox_forkserver; /* NULL before the first kernel in a sandbox */
    unsigned n_stopping;
    void (*stopped)(void *data);
    void *stopped_data;
} NativeProvider;

/* Without the library, which an incomplete installation lacks, kernels refuse to be branched and
 * say why. */
static IpbForkserver *
new_forkserver(const NativeProvider *provider, const char *entrance)
{
    g_autofree char *branching = ipb_sandbox_find_entry_library(NULL);
    IpbForkserverOptions options = {
        .python = provider->python,
        .host_directory = provider->host_directory,
        .preload = (const char *const *) provider->preload,
        .entrance = entrance,
        .branching = branching,
    };
    return ipb_forkserver_new(provider->loop, &options);
}

static IpbForkserver *
get_forkserver(NativeProvider *provider, bool is_sandboxed, GError **error)
{
    if (!is_sandboxed)
        return provider->forkserver;
    if (provider->sandbox_forkserver == NULL) {
        g_autofree char *entrance = ipb_sandbox_find_entry_library(error);
        if (entrance != NULL)
            provider->sandbox_forkserver = new_forkserver(provider, entrance);
    }
    return provider->sandbox_forkserver;
}

static IpbKernel *
make_kernel(IpbKernelProvider *base, const IpbKernelOptions *options, IpbEventFunc on_event,
            void *data, GError **error)
{
    NativeProvider *provider = (NativeProvider *) base;
    IpbForkserver *forkserver = get_forkserver(provider, options->sandbox != NULL, error);
    if (forkserver == NULL)
        return NULL;
    return ipb_native_kernel_new(provider->loop, forkserver, options, on_event, data);
}

static void
start(IpbKernelProvider *base)
{
    ipb_forkserver_start(((NativeProvider *) base)->forkserver);
}

static void
on_forkserver_stopped(void *data)
{
    NativeProvider *provider = data;
    if (--provider->n_stopping == 0)
        provider->stopped(provider->stopped_data); /* may free the provider */
}

static void
stop(IpbKernelProvider *base, void (*done)(void *data), void *data)
{
    NativeProvider *provider = (NativeProvider *) base;
    provider->stopped = done;
    provider->stopped_data = data;
    provider->n_stopping = provider->sandbox_forkserver != NULL ? 2 : 1;
    if (provider->sandbox_forkserver != NULL)
        ipb_forkserver_stop(provider->sandbox_forkserver, on_forkserver_stopped, provider);
    ipb_forkserver_stop(provider->forkserver, on_forkserver_stopped, provider);
}

static void
free_provider(IpbKernelProvider *base)
{
    NativeProvider *provider = (NativeProvider *) base;
    ipb_forkserver_unref(provider->forkserver);
    ipb_forkserver_unref(provider->sandbox_forkserver);
    ipb_loop_unref(provider->loop);
    g_free(provider->python);
    g_free(provider->host_directory);
    g_strfreev(provider->preload);
    g_free(provider);
}

IpbKernelProvider *
ipb_native_provider_new(IpbLoop *loop, const IpbNativeProviderOptions *options)
{
    static const IpbKernelProviderOps ops = {
        .name = "native",
        .capabilities = IPB_KERNEL_CAN_BE_SANDBOXED | IPB_KERNEL_CAN_BE_FORKED |
                        IPB_KERNEL_HAS_TOOL_STUBS | IPB_KERNEL_ORDERS_OUTPUT |
                        IPB_KERNEL_TAKES_RULES | IPB_KERNEL_PRELOADS,
        .make_kernel = make_kernel,
        .start = start,
        .stop = stop,
        .free = free_provider,
    };
    NativeProvider *provider = g_new0(NativeProvider, 1);
    provider->base = (IpbKernelProvider){.ops = &ops, .references = 1};
    provider->loop = ipb_loop_ref(loop);
    provider->python = g_strdup(options->python);
    provider->host_directory = g_strdup(options->host_directory);
    provider->preload = g_strdupv((char **) options->preload);
    provider->forkserver = new_forkserver(provider, /* entrance= */ NULL);
    return &provider->base;
}
