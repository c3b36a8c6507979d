/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the system's kernel; see the header.
 */
#include "sandbox/probe.h"

#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/installed-files.h"

#define MAX_SETTING_SIZE 64
/* By number: the C library's headers may be older than the kernel. */
#define SYS_LANDLOCK_CREATE_RULESET 444
#define LANDLOCK_VERSION 1

int
ipb_probe_landlock_abi(void)
{
    long abi = syscall(SYS_LANDLOCK_CREATE_RULESET, NULL, 0, LANDLOCK_VERSION);
    return abi > 0 ? (int) abi : 0;
}

bool
ipb_probe_has_seccomp(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

bool
ipb_probe_has_notifications(void)
{
    struct seccomp_notif_sizes sizes;
    return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0;
}

/* NULL: it is not there, or cannot be read. */
static char *
read_text(const char *path, size_t max_size)
{
    char *text = NULL;
    size_t size;
    return ipb_file_read(path, max_size, &text, &size, NULL) ? text : NULL;
}

/* --- user namespaces --------------------------------------------------------------------------- */

/* False where the system's kernel has no such setting. */
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
ipb_probe_namespace_obstacle(void)
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
