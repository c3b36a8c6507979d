/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/proc-guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of other processes: what every user of a system may read. */
static const char *const PUBLIC[] = {
    "cgroup",    "cmdline",   "comm", "loginuid", "oom_adj", "oom_score", "oom_score_adj",
    "schedstat", "sessionid", "stat", "statm",    "status",  "task",
};
/* Of the caller's own process. Not oom_score_adj, which a process could lower: then others would
 * be killed before it. */
static const char *const WRITABLE[] = {"clear_refs", "comm", "coredump_filter", "mem"};

/* They show what belongs to the process that opens them: its keys, or its namespaces, which are
 * those of the host. */
static const char *const OF_READER[] = {"key-users",     "keys",    "sysvipc",
                                        "sys/fs/mqueue", "sys/net", "sys/user"};

static bool
contains(const char *const *list, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0)
            return true;
    return false;
}

/* Takes "task/12/" away from the front. */
static const char *
skip_thread(const char *rest)
{
    if (strncmp(rest, "task/", 5) != 0)
        return rest;
    const char *slash = strchr(rest + 5, '/');
    return slash != NULL ? slash + 1 : "task";
}

static bool
is_of_reader(const char *file)
{
    for (size_t i = 0; i < sizeof OF_READER / sizeof *OF_READER; i++) {
        size_t size = strlen(OF_READER[i]);
        if (strncmp(file, OF_READER[i], size) == 0 && (file[size] == '\0' || file[size] == '/'))
            return true;
    }
    return false;
}

int
ipb_proc_guard_judge(const IpbCaller *caller, const IpbCallerPath *path, bool is_for_writing)
{
    if (!ipb_caller_path_is_in_proc(path))
        return 0;
    /* A procfs of the host, at another place. */
    if (strcmp(path->real, "/proc") != 0 && strncmp(path->real, "/proc/", 6) != 0)
        return EACCES;
    const char *first = path->real + (path->real[5] == '/' ? 6 : 5);
    char *rest;
    long pid = strtol(first, &rest, 10);
    /* Not about a process: of that nothing can be written, and much is public. */
    if (rest == first || (*rest != '/' && *rest != '\0'))
        return is_for_writing || is_of_reader(first) ? EACCES : 0;
    const char *file = skip_thread(rest + strspn(rest, "/"));
    /* A link to one of the caller's descriptors: what it leads to is judged. */
    if (pid == caller->inner_group && strncmp(file, "fd/", 3) == 0)
        return 0;
    if (pid != caller->inner_group)
        return !is_for_writing &&
                       (*file == '\0' || contains(PUBLIC, sizeof PUBLIC / sizeof *PUBLIC, file))
                   ? 0
                   : EACCES;
    return !is_for_writing || contains(WRITABLE, sizeof WRITABLE / sizeof *WRITABLE, file) ? 0
                                                                                           : EACCES;
}
