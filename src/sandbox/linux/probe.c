/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/probe.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/installed-files.h"
#include "sandbox/linux/cgroup.h"

#define MAX_SETTING_SIZE 64
#define MAX_MOUNTS_SIZE (4 * 1024 * 1024)
#define MAX_HIDDEN_NAMED 3
/* By number: the C library's headers may be older than the kernel. */
#define SYS_LANDLOCK_CREATE_RULESET 444
#define LANDLOCK_VERSION 1
/* The first that allows renames between directories. */
#define MIN_LANDLOCK_ABI 2

/* Newer than the oldest headers that we build with. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/* Returns 0 if there is no Landlock, or it is turned off. */
static int
landlock_abi(void)
{
    long abi = syscall(SYS_LANDLOCK_CREATE_RULESET, NULL, 0, LANDLOCK_VERSION);
    return abi > 0 ? (int) abi : 0;
}

bool
ipb_linux_has_landlock(void)
{
    return landlock_abi() >= MIN_LANDLOCK_ABI;
}

static bool
has_seccomp(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/* The kernel checks the flags before it looks for the filter. */
bool
ipb_linux_judges_names(void)
{
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, NULL) < 0 && errno == EFAULT;
}

/* --- the listener ----------------------------------------------------------------------------- */

/* What a filter that asks a supervisor (user notification) can do here. */
typedef struct {
    int problem;     /* errno of loading one; 0: it can be loaded */
    bool is_certain; /* A signal cannot repeat a call that the supervisor performs (Linux 5.19). */
    bool is_quick;   /* The supervisor runs at once when it is asked (Linux 6.6). */
} Listener;

/* A child's exit status: an errno, or these. All errnos of seccomp(2) are smaller. */
enum { LISTENER_IS_THERE = 0x80, LISTENER_IS_CERTAIN = 1, LISTENER_IS_QUICK = 2 };

static int
load_filter(unsigned long flags)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = 1, .filter = &allow};
    return (int) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                         SECCOMP_FILTER_FLAG_NEW_LISTENER | flags, &program);
}

/* Runs in the child, where only system calls are safe. */
static int
try_listener(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return errno;
    int result = LISTENER_IS_THERE | LISTENER_IS_CERTAIN;
    int fd = load_filter(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if (fd < 0 && errno == EINVAL) {
        result = LISTENER_IS_THERE;
        fd = load_filter(0);
    }
    if (fd < 0)
        return errno;
    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) == 0)
        result |= LISTENER_IS_QUICK;
    return result;
}

/* In a child, because a filter cannot be removed. */
static Listener
probe_listener(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(try_listener());
    int status = 0;
    pid_t ended = 0;
    if (child > 0)
        do
            ended = waitpid(child, &status, 0);
        while (ended < 0 && errno == EINTR);
    if (child < 0 || ended < 0)
        return (Listener){.problem = errno};
    if (!WIFEXITED(status))
        return (Listener){.problem = ECHILD};
    int result = WEXITSTATUS(status);
    if ((result & LISTENER_IS_THERE) == 0)
        return (Listener){.problem = result};
    return (Listener){
        .is_certain = (result & LISTENER_IS_CERTAIN) != 0,
        .is_quick = (result & LISTENER_IS_QUICK) != 0,
    };
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

/* Without a listener no sandbox is made whose sockets have rules. */
static void
add_seccomp(IpbSandboxProbe *probe, const Listener *listener)
{
    bool is_available = has_seccomp() && listener->problem == 0;
    const char *text = is_available ? "with user notification"
                       : listener->problem == EBUSY
                           ? "another program answers system calls already: no sandbox can be made"
                           : "not there: no sandbox can be made";
    add_feature(probe, "seccomp", is_available, g_strdup(text),
                listener->problem == EBUSY ? "start the container without seccomp notifications"
                                           : "Linux 5.0 or later, with CONFIG_SECCOMP_FILTER");
}

/* The rules for names need a supervisor that performs calls; see sandbox.h, on_unnamed. */
static void
add_names(IpbSandboxProbe *probe, const Listener *listener)
{
    bool is_available = listener->problem == 0 && listener->is_certain;
    const char *text = listener->problem != 0 ? "not judged: see seccomp"
                       : !is_available        ? "not judged: only files that exist are protected"
                       : listener->is_quick
                           ? "judged at each call"
                           : "judged at each call, more slowly than from Linux 6.6 on";
    add_feature(probe, "names", is_available, g_strdup(text),
                listener->problem != 0 ? NULL : "Linux 5.19 or later");
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

/* --- /proc ------------------------------------------------------------------------------------ */

/* Mount points that a file system of Linux itself has made, which hide nothing. */
static bool
hides_nothing(const char *path)
{
    return g_str_equal(path, "/proc/sys/fs/binfmt_misc") || g_str_equal(path, "/proc/fs/nfsd");
}

/* The mount points below /proc that hide something, as mountinfo has them. */
static GPtrArray *
find_hidden(const char *mounts)
{
    GPtrArray *hidden = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) lines = g_strsplit(mounts, "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
        /* id, parent, device, root, mount point, … */
        g_auto(GStrv) fields = g_strsplit(*line, " ", 6);
        if (g_strv_length(fields) == 6 && g_str_has_prefix(fields[4], "/proc/") &&
            !hides_nothing(fields[4]))
            g_ptr_array_add(hidden, g_strdup(fields[4]));
    }
    return hidden;
}

static char *
describe_hidden(const GPtrArray *hidden)
{
    GString *text = g_string_new("parts are hidden:");
    for (guint i = 0; i < hidden->len && i < MAX_HIDDEN_NAMED; i++)
        g_string_append_printf(text, "%s %s", i > 0 ? "," : "",
                               (const char *) g_ptr_array_index(hidden, i));
    if (hidden->len > MAX_HIDDEN_NAMED)
        g_string_append_printf(text, " and %u more", hidden->len - MAX_HIDDEN_NAMED);
    return g_string_free(text, FALSE);
}

/* A sandbox has a /proc of its own. Linux gives a user namespace no new one if something hides a
 * part of the old one, as containers do. */
static void
add_proc(IpbSandboxProbe *probe)
{
    char *mounts = NULL;
    size_t size;
    g_autoptr(GError) error = NULL;
    if (!ipb_file_read("/proc/self/mountinfo", MAX_MOUNTS_SIZE, &mounts, &size, &error)) {
        add_feature(probe, "proc", false, g_strdup(error->message), NULL);
        return;
    }
    g_autoptr(GPtrArray) hidden = find_hidden(mounts);
    g_free(mounts);
    bool is_available = hidden->len == 0;
    add_feature(probe, "proc", is_available,
                is_available ? g_strdup("nothing is hidden") : describe_hidden(hidden),
                "docker run --security-opt systempaths=unconfined; podman run --security-opt "
                "unmask=ALL; procMount: Unmasked in Kubernetes");
}

void
ipb_linux_probe(IpbSandboxProbe *probe)
{
    int abi = landlock_abi();
    probe->full =
        g_strdup_printf("namespaces, seccomp%s", abi >= MIN_LANDLOCK_ABI ? ", Landlock" : "");
    probe->weaker = "Landlock and seccomp only";
    Listener listener = probe_listener();
    add_landlock(probe, abi);
    add_seccomp(probe, &listener);
    add_names(probe, &listener);
    add_proc(probe);
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
