/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls the backend of this system; see the header.
 */
#include "sandbox/sandbox.h"

#include "sandbox/backend.h"

IpbSandbox *
ipb_sandbox_new(IpbLoop *loop, const IpbSandboxOptions *options, GError **error)
{
    IpbSandbox *sandbox = IPB_SANDBOX_BACKEND.prepare(loop, options, error);
    if (sandbox != NULL && !IPB_SANDBOX_BACKEND.start(sandbox, error))
        g_clear_pointer(&sandbox, ipb_sandbox_free);
    return sandbox;
}

void
ipb_sandbox_free(IpbSandbox *sandbox)
{
    if (sandbox != NULL)
        IPB_SANDBOX_BACKEND.stop(sandbox);
}

bool
ipb_sandbox_kill(IpbSandbox *sandbox)
{
    return IPB_SANDBOX_BACKEND.kill(sandbox);
}

bool
ipb_sandbox_is_weaker(const IpbSandbox *sandbox)
{
    return IPB_SANDBOX_BACKEND.is_weaker(sandbox);
}

void
ipb_sandbox_signal(IpbSandbox *sandbox, int signal_number)
{
    IPB_SANDBOX_BACKEND.signal(sandbox, signal_number);
}

void
ipb_sandbox_report_denials(IpbSandbox *sandbox)
{
    IPB_SANDBOX_BACKEND.report_denials(sandbox);
}

const GError *
ipb_sandbox_failure(const IpbSandbox *sandbox)
{
    return IPB_SANDBOX_BACKEND.failure(sandbox);
}

char *
ipb_sandbox_describe_limit(const IpbSandbox *sandbox, int wait_status)
{
    return IPB_SANDBOX_BACKEND.describe_limit(sandbox, wait_status);
}

/* --- entering --------------------------------------------------------------------------------- */

char *
ipb_sandbox_find_entry_library(GError **error)
{
    return IPB_SANDBOX_BACKEND.find_entry_library(error);
}

IpbSandboxEntry
ipb_sandbox_entry(const IpbSandbox *sandbox)
{
    return IPB_SANDBOX_BACKEND.entry(sandbox);
}

bool
ipb_sandbox_add_process(const IpbSandbox *sandbox, pid_t pid, GError **error)
{
    return IPB_SANDBOX_BACKEND.add_process(sandbox, pid, error);
}

bool
ipb_sandbox_adopt(IpbSandbox *sandbox, pid_t pid_inside, GError **error)
{
    return IPB_SANDBOX_BACKEND.adopt(sandbox, pid_inside, error);
}

/* --- what this machine offers ----------------------------------------------------------------- */

static void
free_feature(IpbSandboxFeature *feature)
{
    g_free(feature->text);
    g_free(feature);
}

IpbSandboxProbe *
ipb_sandbox_probe_new(void)
{
    IpbSandboxProbe *probe = g_new0(IpbSandboxProbe, 1);
    probe->features = g_ptr_array_new_with_free_func((GDestroyNotify) free_feature);
    IPB_SANDBOX_BACKEND.probe(probe);
    return probe;
}

void
ipb_sandbox_probe_free(IpbSandboxProbe *probe)
{
    if (probe == NULL)
        return;
    g_free(probe->full);
    g_ptr_array_unref(probe->features);
    g_free(probe);
}

const char *const *
ipb_sandbox_weaker_gaps(void)
{
    return IPB_SANDBOX_BACKEND.weaker_gaps;
}

int
ipb_sandbox_open_workspace(const IpbSandbox *sandbox, IpbLayerUser *ret_user, GError **error)
{
    return IPB_SANDBOX_BACKEND.open_workspace(sandbox, ret_user, error);
}
