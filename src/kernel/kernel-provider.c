/* SPDX-License-Identifier: Apache-2.0
 *
 * What all providers have in common: references, and the check of options against capabilities.
 */
#include "kernel/kernel-provider.h"

#include "base/error.h"

IpbKernelProvider *
ipb_kernel_provider_ref(IpbKernelProvider *provider)
{
    provider->references++;
    return provider;
}

void
ipb_kernel_provider_unref(IpbKernelProvider *provider)
{
    if (provider != NULL && --provider->references == 0)
        provider->ops->free(provider);
}

const char *
ipb_kernel_provider_name(const IpbKernelProvider *provider)
{
    return provider->ops->name;
}

IpbKernelCapabilities
ipb_kernel_provider_capabilities(const IpbKernelProvider *provider)
{
    return provider->ops->capabilities;
}

bool
ipb_kernel_provider_check(const IpbKernelProvider *provider, IpbKernelCapabilities capability,
                          const char *what, GError **error)
{
    if ((provider->ops->capabilities & capability) != 0)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "kernels of the kind \"%s\" cannot %s: leave the option out, or use another kind",
                provider->ops->name, what);
    return false;
}

/* A kernel that ignores a rule or a sandbox would be less safe than its owner believes. */
static bool
check_options(const IpbKernelProvider *provider, const IpbKernelOptions *options, GError **error)
{
    const IpbKernelRules *rules = &options->rules;
    const struct {
        bool is_needed;
        IpbKernelCapabilities capability;
        const char *what;
    } needs[] = {
        {options->sandbox != NULL, IPB_KERNEL_CAN_BE_SANDBOXED, "run in a sandbox"},
        {rules->approves_shell_cmds, IPB_KERNEL_TAKES_RULES, "approve shell commands"},
        {rules->requires_shell_escape, IPB_KERNEL_TAKES_RULES, "require shell escapes"},
        {rules->returns_to_cwd, IPB_KERNEL_TAKES_RULES, "return to a working directory"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(needs); i++)
        if (needs[i].is_needed &&
            !ipb_kernel_provider_check(provider, needs[i].capability, needs[i].what, error))
            return false;
    return true;
}

IpbKernel *
ipb_kernel_provider_make_kernel(IpbKernelProvider *provider, const IpbKernelOptions *options,
                                IpbEventFunc on_event, void *data, GError **error)
{
    if (!check_options(provider, options, error))
        return NULL;
    return provider->ops->make_kernel(provider, options, on_event, data, error);
}

void
ipb_kernel_provider_start(IpbKernelProvider *provider)
{
    provider->ops->start(provider);
}

void
ipb_kernel_provider_stop(IpbKernelProvider *provider, void (*done)(void *data), void *data)
{
    provider->ops->stop(provider, done, data);
}
