/* SPDX-License-Identifier: Apache-2.0
 *
 * There is one row for each step. If namespaces are refused, probe.c finds out why.
 */
#include "sandbox/linux/step-error.h"

#include <errno.h>

#include "base/error.h"
#include "sandbox/linux/mount-list.h"
#include "sandbox/linux/probe.h"

typedef enum { ABOUT_NOTHING, ABOUT_SOURCE, ABOUT_TARGET, ABOUT_LISTENER } About;

typedef struct {
    const char *text;
    About about;
} Row;

static const Row ROWS[IPB_STEP_LAST + 1] = {
    [IPB_STEP_BLOB] = {"cannot read the plan (do ipybox and ipybox-sandbox-init come from one "
                       "installation?)"},
    [IPB_STEP_PREPARE] = {"cannot prepare"},
    [IPB_STEP_CGROUP] = {"cannot enter the sandbox's cgroup"},
    [IPB_STEP_ID_MAP_HELPER] = {"cannot make the id map for", ABOUT_SOURCE},
    [IPB_STEP_SOURCE] = {"cannot open", ABOUT_SOURCE},
    [IPB_STEP_ID_MAP_MOUNT] = {"cannot mount with an id map", ABOUT_SOURCE},
    [IPB_STEP_NAMESPACES] = {"cannot make namespaces"},
    [IPB_STEP_ID_MAPS] = {"cannot map the user's ids"},
    [IPB_STEP_IDS] = {"cannot become the inner user"},
    [IPB_STEP_HOSTNAME] = {"cannot set the host name"},
    [IPB_STEP_COUNTER] = {"cannot limit in /proc/sys/user what is counted for each user"},
    [IPB_STEP_LOOPBACK] = {"cannot set the loopback device up"},
    [IPB_STEP_ROUTE] = {"cannot make every address local"},
    [IPB_STEP_LISTENER] = {"cannot listen inside on port", ABOUT_LISTENER},
    [IPB_STEP_DIAG] = {"cannot open the socket that lists sockets"},
    [IPB_STEP_PRIVATE] = {"cannot make mounts private"},
    [IPB_STEP_ROOT] = {"cannot make the read-only root"},
    [IPB_STEP_PIVOT] = {"cannot change the root"},
    [IPB_STEP_TARGET] = {"cannot find or create the mount point", ABOUT_TARGET},
    [IPB_STEP_MOUNT] = {"cannot mount", ABOUT_TARGET},
    [IPB_STEP_DEVICE] = {"cannot create the devices in", ABOUT_TARGET},
    [IPB_STEP_PROC] = {"cannot mount a /proc of its own at", ABOUT_TARGET},
    [IPB_STEP_OVERLAY] = {"cannot make an overlay of the workspace (for root it takes Linux 5.19; "
                          "the file system of the layer must support extended attributes of users, "
                          "and not be an overlay itself: --staging-dir chooses another place) with "
                          "the layer in",
                          ABOUT_SOURCE},
    [IPB_STEP_DETACH] = {"cannot detach the host's root"},
    [IPB_STEP_FORK] = {"cannot fork inside"},
    [IPB_STEP_SESSION] = {"cannot make a session for the command"},
    [IPB_STEP_OOM] = {"cannot set oom_score_adj"},
    [IPB_STEP_LIMIT] = {"cannot set a resource limit"},
    [IPB_STEP_CWD] = {"cannot enter the command's working directory"},
    [IPB_STEP_CAPABILITIES] = {"cannot drop capabilities"},
    [IPB_STEP_NO_NEW_PRIVILEGES] = {"cannot set no_new_privs"},
    [IPB_STEP_LANDLOCK] = {"cannot set up Landlock"},
    [IPB_STEP_SECCOMP] = {"cannot load the seccomp filter"},
    [IPB_STEP_LISTEN] = {"cannot ask ipybox about system calls (seccomp notifications)"},
    [IPB_STEP_EXEC] = {"cannot execute"},
    [IPB_STEP_CONTROL] = {"cannot report"},
    [IPB_STEP_JOIN] = {"cannot join the namespaces"},
};

static char *
describe_object(About about, uint32_t index, const IpbStepContext *context)
{
    if (about == ABOUT_LISTENER && index < context->plan->listeners->len)
        return g_strdup_printf(
            " %u", g_array_index(context->plan->listeners, IpbPlanListener, index).port);
    if ((about != ABOUT_SOURCE && about != ABOUT_TARGET) || context->mounts == NULL ||
        index >= context->mounts->len)
        return g_strdup("");
    const IpbMount *mount = g_ptr_array_index(context->mounts, index);
    const char *path =
        about == ABOUT_SOURCE && mount->source != NULL ? mount->source : mount->target;
    return g_strdup_printf(" %s (%s)", path, mount->reason != NULL ? mount->reason : "planned");
}

/* Are namespaces forbidden, or given without rights in them, as AppArmor does? */
static bool
is_refused_namespace(const IpbStepError *failure)
{
    switch (failure->step) {
    case IPB_STEP_NAMESPACES:
        return true;
    case IPB_STEP_ID_MAP_HELPER:
    case IPB_STEP_ID_MAPS:
    case IPB_STEP_IDS:
    case IPB_STEP_HOSTNAME:
    case IPB_STEP_LOOPBACK:
    case IPB_STEP_ROUTE:
    case IPB_STEP_PRIVATE:
        return failure->saved_errno == EPERM || failure->saved_errno == EACCES;
    default:
        return false;
    }
}

static char *
hint_about_namespaces(const IpbStepError *failure)
{
    /* Our own filter denies clone3 with this errno. */
    if (failure->saved_errno == ENOSYS && g_getenv("SANDBOX_RUNTIME") != NULL)
        return g_strdup(". This process is in a sandbox already, and sandboxes cannot be nested");
    g_autofree char *obstacle = ipb_linux_namespace_obstacle();
    if (obstacle != NULL)
        return g_strconcat(". ", obstacle, NULL);
    /* Docker's filter denies clone3 with ENOSYS. */
    if (failure->saved_errno == EPERM || failure->saved_errno == EACCES ||
        failure->saved_errno == ENOSYS)
        return g_strdup(". A container (its seccomp filter, its AppArmor profile) or a chroot may "
                        "forbid namespaces: for docker and podman, --security-opt seccomp=FILE "
                        "with the docker/seccomp.json of ipybox, and where AppArmor is used "
                        "--security-opt apparmor=ipybox-container");
    if (failure->saved_errno == ENOSPC || failure->saved_errno == EUSERS)
        return g_strdup(". There are too many namespaces already: sudo sysctl "
                        "user.max_user_namespaces=15000 allows for more");
    return g_strdup("");
}

/* Returns what the user can do about it, or "" if that is not known. */
static const char *
hint(const IpbStepError *failure)
{
    int number = failure->saved_errno;
    if (failure->step == IPB_STEP_ID_MAP_MOUNT && number == EINVAL)
        return ". As root, what a sandbox writes must be on a file system that can be mounted with "
               "an id map: ext4, xfs, btrfs or (from Linux 6.3 on) tmpfs, not overlayfs (a "
               "container's own layer). Use a volume, or run ipybox as an ordinary user";
    if ((failure->step == IPB_STEP_ID_MAP_MOUNT || failure->step == IPB_STEP_SOURCE) &&
        number == EPERM)
        return ". This root may not mount (it is root of a container only). Run ipybox as an "
               "ordinary "
               "user, or give the container CAP_SYS_ADMIN";
    /* The counters are in another new /proc, if that of the container is read-only. */
    if ((failure->step == IPB_STEP_PROC || failure->step == IPB_STEP_COUNTER) && number == EPERM)
        return ". A container hides parts of its /proc, so the kernel gives no other one. Unhide "
               "them: docker run --security-opt systempaths=unconfined, podman run --security-opt "
               "unmask=ALL, procMount: Unmasked in Kubernetes. If nothing is hidden, its AppArmor "
               "profile forbids mounts: --security-opt apparmor=ipybox-container";
    if (failure->step == IPB_STEP_LISTEN && number == EBUSY)
        return ". Another program answers system calls of this process already: a container's "
               "runtime, or an outer sandbox. Linux allows only one. Start the container without "
               "seccomp notifications";
    if (failure->step == IPB_STEP_LANDLOCK && (number == EOPNOTSUPP || number == ENOSYS))
        return ". Landlock needs Linux 5.19 or later, with landlock in the kernel option lsm=";
    if (number == ENOSYS)
        return ". The kernel is too old: Linux 5.12 or later is needed";
    if (failure->step == IPB_STEP_TARGET && (number == ELOOP || number == ENOENT))
        return ". It has changed since the plan was made";
    return "";
}

static int
code_of(const IpbStepError *failure)
{
    if (failure->step == IPB_STEP_EXEC && failure->saved_errno == EACCES)
        return IPYBOX_ERROR_REFUSED;
    if (failure->step == IPB_STEP_EXEC || failure->step == IPB_STEP_CWD)
        return failure->saved_errno == ENOENT ? IPYBOX_ERROR_NOT_FOUND : IPYBOX_ERROR_SYSTEM;
    if (failure->saved_errno == ENOSYS || *hint(failure) != '\0' || is_refused_namespace(failure))
        return IPYBOX_ERROR_UNAVAILABLE;
    return IPYBOX_ERROR_SYSTEM;
}

void
ipb_step_error_set(GError **error, const IpbStepError *failure, const IpbStepContext *context)
{
    if (failure->step == IPB_STEP_NONE || failure->step > IPB_STEP_LAST) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "the sandbox cannot be made: unknown step %u failed", failure->step);
        return;
    }
    const Row *row = &ROWS[failure->step];
    if (failure->step == IPB_STEP_EXEC) {
        g_set_error(error, IPYBOX_ERROR, code_of(failure), "cannot execute %s in the sandbox: %s",
                    context->command, g_strerror(failure->saved_errno));
        return;
    }
    g_autofree char *object = describe_object(row->about, failure->index, context);
    g_autofree char *advice =
        is_refused_namespace(failure) ? hint_about_namespaces(failure) : g_strdup(hint(failure));
    g_set_error(error, IPYBOX_ERROR, code_of(failure), "the sandbox cannot be made: %s%s: %s%s",
                row->text, object, g_strerror(failure->saved_errno), advice);
}
