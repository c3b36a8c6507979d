/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/weaker.h"

#include "base/error.h"
#include "sandbox/identity.h"

const char *const IPB_WEAKER_LIMITS[] = {
    "what is never writable elsewhere (.git/hooks, .env, .bashrc, …) can be written in writable "
    "directories",
    "everything that the user can read can be read",
    "other processes of the user can be seen and, before Linux 6.12, signalled",
    "/tmp, /run and /dev/shm are the host's, and not writable",
    "there is no network at all, no terminal of its own, and no Unix socket can be connected to",
    "limits.processes does not hold",
    "a process that kills the sandbox's first one can outlive it",
    NULL,
};

static bool
refuse(GError **error, const char *why)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "the weaker sandbox %s", why);
    return false;
}

bool
ipb_weaker_check(const IpbSandboxPlan *plan, GError **error)
{
    if (ipb_identity_choose().is_root_mapped)
        return refuse(error, "is not for root, whose secrets it could not protect");
    if (plan->listeners->len > 0)
        return refuse(error, "has no network: network.allowedDomains must be empty");
    if (plan->policy->deny_read[0] != NULL)
        return refuse(error, "cannot hide anything: filesystem.denyRead must be empty");
    if (plan->policy->deny_write[0] != NULL)
        return refuse(error, "cannot protect anything within a writable directory: "
                             "filesystem.denyWrite must be empty");
    return true;
}
