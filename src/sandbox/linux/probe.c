/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/probe.h"

#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/installed-files.h"
#include "sandbox/linux/cgroup.h"

#define MAX_SETTING_SIZE 64
/* By number: the C library's headers may be older than the kernel. */
#define SYS_LANDLOCK_CREATE_RULESET 444
#define LANDLOCK_VERSION 1
/* The first that allows renames between directories. */
#define MIN_LANDLOCK_ABI 2

/* Returns 0 if there is no Landlock, or it is turned off. */
static int
landlock_abi(void)
{
    long abi = syscall(SYS_LANDLOCK_CREATE_RULESET, NULL, 0, LANDLOCK_VERSION);
    return abi > 0 ? (int) abi : 0;
}

static bool
has_seccomp(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/* Can a filter ask the supervisor (user notification)? Rules for sockets need it. */
static bool
has_notifications(void)
{
    struct seccomp_notif_sizes sizes;
    return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0;
}

/* --- features --------------------------------------------------------------------------------- */

/* Takes @text. */
static void
add_feature(IpbSandboxProbe *probe, const char *name, bool is_available, char *text,
            const char *hint)
{
    IpbSandboxFeature *feature = g_new(IpbSandboxFeature, 1);
    *feature = (IpbSandboxFeature){name, is_available, text, is_available ? NULL : hint};
    g_ptr_array_add(probe->features, feature);
}

static void
add_landlock(IpbSandboxProbe *probe, int abi)
{
    bool is_available = abi >= MIN_LANDLOCK_ABI;
    char *text = is_available ? g_strdup_printf("ABI %d", abi)
                 : abi == 1   ? g_strdup("ABI 1 is not enough: sandboxes go without it")
                              : g_strdup("not there: sandboxes go without it");
    add_feature(probe, "landlock", is_available, text,
                "Linux 5.19 or later, with landlock in the kernel option lsm=");
}

static void
add_seccomp(IpbSandboxProbe *probe)
{
    bool is_available = has_seccomp() && has_notifications();
    add_feature(
        probe, "seccomp", is_available,
        g_strdup(is_available ? "with user notification" : "not there: no sandbox can be made"),
        "Linux 5.0 or later, with CONFIG_SECCOMP_FILTER");
}

static void
add_cgroup(IpbSandboxProbe *probe)
{
    char *cgroup = ipb_cgroup_find_delegated();
    bool is_available = cgroup != NULL;
    add_feature(probe, "cgroup", is_available,
                is_available ? cgroup
                             : g_strdup("not delegated: limits of memory hold for each process"),
                "systemd-run --user --scope -p Delegate=yes ipybox …");
}

void
ipb_linux_probe(IpbSandboxProbe *probe)
{
    int abi = landlock_abi();
    probe->full =
        g_strdup_printf("namespaces, seccomp%s", abi >= MIN_LANDLOCK_ABI ? ", Landlock" : "");
    probe->weaker = "Landlock and seccomp only";
    add_landlock(probe, abi);
    add_seccomp(probe);
    add_cgroup(probe);
}

/* --- user namespaces -------------------------------------------------------------------------- */

/* Returns NULL if the file does not exist or cannot be read. */
static char *
read_text(const char *path, size_t max_size)
{
    char *text = NULL;
    size_t size;
    return ipb_file_read(path, max_size, &text, &size, NULL) ? text : NULL;
}

/* Returns false if the kernel has no such setting. */
static bool
is_setting(const char *path, const char *value)
{
    g_autofree char *text = read_text(path, MAX_SETTING_SIZE);
    return text != NULL && g_str_equal(g_strstrip(text), value);
}

static char *
describe_apparmor(void)
{
    static const char *const PLACES[] = {
        "../share/ipybox/apparmor",
        "../../share/ipybox/apparmor",
        "data/apparmor",
        IPB_INSTALLED_FILES_WHEEL "/apparmor",
        IPB_INSTALLED_FILES_WHEEL_TARGET "/apparmor",
        NULL,
    };
    g_autofree char *profile = ipb_installed_files_find(PLACES, "ipybox", "AppArmor profile", NULL);
    const char *path = profile != NULL ? profile : "data/apparmor/ipybox";
    return g_strdup_printf(
        "AppArmor keeps programs without a profile from user namespaces. Install ours: sudo cp %s "
        "/etc/apparmor.d/ipybox && sudo apparmor_parser -r /etc/apparmor.d/ipybox",
        path);
}

char *
ipb_linux_namespace_obstacle(void)
{
    if (is_setting("/proc/sys/user/max_user_namespaces", "0"))
        return g_strdup("No user namespaces are allowed on this machine. To allow them: sudo "
                        "sysctl user.max_user_namespaces=15000");
    if (geteuid() == 0)
        return NULL;
    if (is_setting("/proc/sys/kernel/unprivileged_userns_clone", "0"))
        return g_strdup("User namespaces are kept for root on this machine. To allow them: sudo "
                        "sysctl kernel.unprivileged_userns_clone=1");
    if (is_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
        return describe_apparmor();
    return NULL;
}
