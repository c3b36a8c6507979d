/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds processes by the variable that the kernel host sets in each kernel; see the header. A
 * process is checked a second time, after its pidfd was opened, because its number may belong to
 * another process by then.
 */
#include "kernel/orphans.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"

#define VARIABLE "IPYBOX_KERNEL_ID="
#define MAX_ENVIRONMENT (4u * 1024 * 1024)
/* Passes that wait for processes to execute their programs. */
#define MAX_UNSURE 20
#define UNSURE_PAUSE_US 1000

static bool
is_wanted(const char *value, const int64_t *ids, size_t n_ids)
{
    char *end;
    errno = 0;
    int64_t id = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0')
        return false;
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* A process has no environment while it executes another program. So has one that was started
 * without variables. Threads of Linux and zombies have no program. */
static bool
may_be_executing(const char *pid)
{
    char target[1];
    g_autofree char *path = g_build_filename("/proc", pid, "exe", NULL);
    return readlink(path, target, sizeof target) > 0;
}

/* *@is_unsure is set to true if it cannot be said now. */
static bool
belongs_to(const char *pid, const int64_t *ids, size_t n_ids, bool *is_unsure)
{
    g_autofree char *path = g_build_filename("/proc", pid, "environ", NULL);
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_file_read(path, MAX_ENVIRONMENT, &text, &size, NULL))
        return false; /* another user's, or gone */
    if (size == 0 && may_be_executing(pid))
        *is_unsure = true;
    for (const char *entry = text; entry < text + size; entry += strlen(entry) + 1)
        if (g_str_has_prefix(entry, VARIABLE) && is_wanted(entry + strlen(VARIABLE), ids, n_ids))
            return true;
    return false;
}

/* One pass over all processes; true if it found any. */
static bool
kill_once(const int64_t *ids, size_t n_ids, bool *is_unsure)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return false;
    bool found = false;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (!g_ascii_isdigit(entry->d_name[0]) || !belongs_to(entry->d_name, ids, n_ids, is_unsure))
            continue;
        ipb_autofd pidfd = ipb_pidfd_open((pid_t) atoi(entry->d_name));
        if (pidfd >= 0 && belongs_to(entry->d_name, ids, n_ids, is_unsure))
            found = ipb_pidfd_signal(pidfd, SIGKILL, NULL) || found;
    }
    closedir(proc);
    return found;
}

void
ipb_orphans_kill(const int64_t *ids, size_t n_ids)
{
    /* Repeat until a pass finds none, because a process may fork during a pass. A killed process
     * has no environment any more, so this ends. */
    unsigned n_unsure = 0;
    for (int passes = 0; passes < 100 && n_ids > 0; passes++) {
        bool is_unsure = false;
        if (kill_once(ids, n_ids, &is_unsure))
            continue;
        if (!is_unsure || ++n_unsure > MAX_UNSURE)
            break;
        g_usleep(UNSURE_PAUSE_US);
    }
}
