/* SPDX-License-Identifier: Apache-2.0
 *
 * The files are described in the kernel's Documentation/admin-guide/cgroup-v2.rst.
 */
#include "sandbox/linux/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"

#define MOUNT "/sys/fs/cgroup"
#define CORE "ipybox.core"
#define PATTERN "ipybox-XXXXXX"
#define PREFIX "ipybox-"
#define MAX_FILE_SIZE ((size_t) 1 << 20)
/* A forkserver may fork while its group is emptied; the next round moves its children. */
#define MAX_MOVES 5
/* Levels of parents that are checked: process trees of ours are not deeper. */
#define MAX_DEPTH 16
/* Pid 1 of a sandbox belongs to us, not to the processes that its limit counts. */
#define N_OWN_PROCESSES 1

struct IpbCgroup {
    char *path;
    int join_fd;
};

static const char *const CONTROLLERS[] = {"memory", "pids"};

/* --- files ------------------------------------------------------------------------------------ */

/* Returns NULL if the file does not exist or cannot be read. */
static char *
read_file(const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    char *text = NULL;
    size_t size;
    return ipb_file_read(path, MAX_FILE_SIZE, &text, &size, NULL) ? text : NULL;
}

/* Writes all in one call, which the kernel takes as one command. Returns 0 or an errno. */
static int
write_file(const char *directory, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    ipb_autofd fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return errno;
    return 0;
}

static bool
may_write(const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    return access(path, W_OK) == 0;
}

static bool
has_word(const char *directory, const char *name, const char *word)
{
    g_autofree char *text = read_file(directory, name);
    if (text == NULL)
        return false;
    g_auto(GStrv) words = g_strsplit_set(text, " \n", -1);
    return g_strv_contains((const char *const *) words, word);
}

/* --- what was delegated ----------------------------------------------------------------------- */

static pid_t
find_parent(pid_t pid)
{
    g_autofree char *directory = g_strdup_printf("/proc/%d", (int) pid);
    g_autofree char *stat = read_file(directory, "stat");
    const char *end = stat != NULL ? strrchr(stat, ')') : NULL;
    int parent = 0;
    return end != NULL && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static bool
is_ours(pid_t pid)
{
    pid_t self = getpid();
    for (int i = 0; i < MAX_DEPTH && pid > 1; i++) {
        if (pid == self)
            return true;
        pid = find_parent(pid);
    }
    return false;
}

/* A process that has ended since the file was read does not count. */
static bool
has_others(const char *directory)
{
    g_autofree char *text = read_file(directory, "cgroup.procs");
    if (text == NULL)
        return true;
    g_auto(GStrv) pids = g_strsplit(text, "\n", -1);
    for (char **pid = pids; *pid != NULL; pid++) {
        pid_t number = (pid_t) atoi(*pid);
        if (**pid == '\0' || is_ours(number))
            continue;
        /* EPERM: a process of another user. */
        if (number == 0 || kill(number, 0) == 0 || errno == EPERM)
            return true;
    }
    return false;
}

static bool
is_divided(const char *directory)
{
    for (size_t i = 0; i < G_N_ELEMENTS(CONTROLLERS); i++)
        if (!has_word(directory, "cgroup.subtree_control", CONTROLLERS[i]))
            return false;
    return true;
}

static bool
is_delegated(const char *directory)
{
    for (size_t i = 0; i < G_N_ELEMENTS(CONTROLLERS); i++)
        if (!has_word(directory, "cgroup.controllers", CONTROLLERS[i]))
            return false;
    return may_write(directory, "cgroup.procs") && may_write(directory, "cgroup.subtree_control") &&
           may_write(directory, "") && (is_divided(directory) || !has_others(directory));
}

char *
ipb_cgroup_find_delegated_at(const char *mount, const char *membership)
{
    g_auto(GStrv) lines = g_strsplit(membership, "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
        if (!g_str_has_prefix(*line, "0::/"))
            continue;
        g_autofree char *group = g_build_filename(mount, *line + strlen("0::"), NULL);
        /* An earlier run has divided the group already. */
        char *delegated =
            g_str_has_suffix(group, "/" CORE) ? g_path_get_dirname(group) : g_steal_pointer(&group);
        if (is_delegated(delegated))
            return delegated;
        g_free(delegated);
        return NULL;
    }
    return NULL;
}

char *
ipb_cgroup_find_delegated(void)
{
    g_autofree char *membership = read_file("/proc/self", "cgroup");
    return membership != NULL ? ipb_cgroup_find_delegated_at(MOUNT, membership) : NULL;
}

/* --- making it ours --------------------------------------------------------------------------- */

/* Removes groups of a core that was killed. Groups that still contain processes remain. */
static void
sweep(const char *delegated)
{
    g_autoptr(GDir) directory = g_dir_open(delegated, 0, NULL);
    const char *name;
    while (directory != NULL && (name = g_dir_read_name(directory)) != NULL) {
        g_autofree char *path = g_build_filename(delegated, name, NULL);
        if (g_str_has_prefix(name, PREFIX))
            rmdir(path);
    }
}

static void
move_all(const char *from, const char *to)
{
    g_autofree char *text = read_file(from, "cgroup.procs");
    g_auto(GStrv) pids = g_strsplit(text != NULL ? text : "", "\n", -1);
    for (char **pid = pids; *pid != NULL; pid++)
        if (**pid != '\0')
            write_file(to, "cgroup.procs", *pid);
}

/* Enables limits in the groups below. The group itself must not contain processes then. */
static bool
divide(const char *delegated)
{
    if (is_divided(delegated))
        return true;
    g_autofree char *core = g_build_filename(delegated, CORE, NULL);
    if (mkdir(core, 0755) < 0 && errno != EEXIST)
        return false;
    sweep(delegated);
    for (int i = 0; i < MAX_MOVES; i++) {
        move_all(delegated, core);
        int problem = write_file(delegated, "cgroup.subtree_control", "+memory +pids");
        if (problem != EBUSY)
            return problem == 0;
    }
    return false;
}

static bool
write_limit(const char *group, const char *name, uint64_t value)
{
    g_autofree char *text = g_strdup_printf("%" PRIu64, value);
    return value == 0 || write_file(group, name, text) == 0;
}

static bool
set_limits(const char *group, const IpbSandboxLimits *limits)
{
    /* The file is missing without swap; then nothing can be swapped. */
    if (limits->memory_bytes > 0)
        write_file(group, "memory.swap.max", "0");
    uint64_t processes = limits->processes > 0 ? limits->processes + N_OWN_PROCESSES : 0;
    return write_limit(group, "memory.max", limits->memory_bytes) &&
           write_limit(group, "pids.max", processes);
}

IpbCgroup *
ipb_cgroup_new_at(const char *delegated, const IpbSandboxLimits *limits)
{
    if (!divide(delegated))
        return NULL;
    g_autofree char *path = g_build_filename(delegated, PATTERN, NULL);
    if (mkdtemp(path) == NULL)
        return NULL;
    g_autofree char *procs = g_build_filename(path, "cgroup.procs", NULL);
    int fd = open(procs, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || !set_limits(path, limits)) {
        ipb_fd_close(&fd);
        rmdir(path);
        return NULL;
    }
    IpbCgroup *cgroup = g_new0(IpbCgroup, 1);
    cgroup->path = g_steal_pointer(&path);
    cgroup->join_fd = fd;
    return cgroup;
}

IpbCgroup *
ipb_cgroup_new(const IpbSandboxLimits *limits)
{
    g_autofree char *delegated = ipb_cgroup_find_delegated();
    return delegated != NULL ? ipb_cgroup_new_at(delegated, limits) : NULL;
}

/* --- its use ---------------------------------------------------------------------------------- */

int
ipb_cgroup_join_fd(const IpbCgroup *cgroup)
{
    return cgroup->join_fd;
}

bool
ipb_cgroup_add(const IpbCgroup *cgroup, pid_t pid, GError **error)
{
    g_autofree char *text = g_strdup_printf("%d", (int) pid);
    int problem = write_file(cgroup->path, "cgroup.procs", text);
    if (problem == 0 || problem == ESRCH)
        return true;
    return ipb_error_set_errno(error, problem, "cannot put the process into its cgroup");
}

bool
ipb_cgroup_has_run_out(const IpbCgroup *cgroup)
{
    g_autofree char *events = read_file(cgroup->path, "memory.events");
    const char *line = events != NULL ? strstr(events, "\noom_kill ") : NULL;
    return line != NULL && atoi(line + strlen("\noom_kill ")) > 0;
}

void
ipb_cgroup_free(IpbCgroup *cgroup)
{
    if (cgroup == NULL)
        return;
    ipb_fd_close(&cgroup->join_fd);
    /* The processes in it were killed before, but may still be ending. */
    write_file(cgroup->path, "cgroup.kill", "1");
    rmdir(cgroup->path);
    g_free(cgroup->path);
    g_free(cgroup);
}
