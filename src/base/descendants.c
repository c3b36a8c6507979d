/* SPDX-License-Identifier: Apache-2.0
 *
 * Descendants of a process; see the header. Each search visits the processes of the tree, the root
 * first. A descriptor of /proc/PID belongs to one process: after
 * the process has ended, opening files through it fails, even if the process id is used again. A
 * child counts only if it names its parent while the parent still exists.
 */
#include "base/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include "base/fd.h"

/* Of a search for a socket. */
#define MAX_PROCESSES 512
#define MAX_THREADS 2048
#define MAX_FILES 16384
/* Of a search for processes to kill, of which there may be as many as a user may have. */
#define MAX_KILLED 65536
#define MAX_KILLED_THREADS 262144
#define MAX_PASSES 100
#define MAX_GENERATIONS 32
/* Bytes of a list of children; the rest of the list is not searched. That of a process to kill has
 * room for all that may be killed: those that were killed stay in the list until it ends. */
#define MAX_CHILDREN_TEXT ((size_t) 8192)
#define MAX_KILLED_TEXT ((size_t) MAX_KILLED * 8)
#define MAX_STAT 1024

typedef struct Search Search;
struct Search {
    /* Returns true if the search is over. */
    bool (*visit)(int process, pid_t pid, Search *search);
    unsigned max_processes, max_threads;
    size_t max_text;
    unsigned n_processes, n_threads, n_files;
    char wanted[64]; /* the target of the link of the socket */
    pid_t root;
    GHashTable *killed; /* the process ids of those that got the signal */
    bool is_any_new;
};

static int
open_process(pid_t pid)
{
    char path[32];
    g_snprintf(path, sizeof path, "/proc/%d", (int) pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool
has_ended(int pidfd)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) != 0;
}

/* Reads a file into @text, which then ends in NUL. */
static bool
read_file(int directory, const char *name, char *text, size_t size)
{
    ipb_autofd fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t filled = 0;
    ssize_t n;
    while (filled < size - 1 && (n = read(fd, text + filled, size - 1 - filled)) > 0)
        filled += (size_t) n;
    text[filled] = '\0';
    return filled > 0;
}

/* The caller frees it. */
static char *
read_children(int process, const char *thread, size_t max_size)
{
    char name[64];
    g_snprintf(name, sizeof name, "task/%s/children", thread);
    for (size_t size = MAX_CHILDREN_TEXT;; size *= 2) {
        g_autofree char *text = g_malloc(MIN(size, max_size));
        if (!read_file(process, name, text, MIN(size, max_size)))
            return NULL;
        if (size >= max_size || strlen(text) < size - 1)
            return g_steal_pointer(&text);
    }
}

static DIR *
open_list(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (list == NULL && fd >= 0)
        close(fd);
    return list;
}

/* Returns 0 if the process has ended. */
static pid_t
get_parent(int process)
{
    char text[MAX_STAT];
    int parent;
    if (!read_file(process, "stat", text, sizeof text))
        return 0;
    /* "PID (NAME) STATE PARENT …", where NAME may hold any characters. */
    const char *end = strrchr(text, ')');
    return end != NULL && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static bool
holds_socket(int process, pid_t pid, Search *search)
{
    DIR *files = open_list(process, "fd");
    if (files == NULL)
        return false;
    const struct dirent *file;
    bool is_found = false;
    while (!is_found && search->n_files < MAX_FILES && (file = readdir(files)) != NULL) {
        char link[sizeof search->wanted];
        ssize_t size = readlinkat(dirfd(files), file->d_name, link, sizeof link - 1);
        search->n_files++;
        if (size <= 0)
            continue;
        link[size] = '\0';
        is_found = strcmp(link, search->wanted) == 0;
    }
    closedir(files);
    return is_found;
}

static bool search_process(int process, pid_t pid, unsigned generation, Search *search);

static bool
search_children(int process, pid_t pid, const char *thread, unsigned generation, Search *search)
{
    g_autofree char *text = read_children(process, thread, search->max_text);
    if (text == NULL)
        return false;
    char *end;
    for (const char *at = text; search->n_processes < search->max_processes; at = end) {
        pid_t child_pid = (pid_t) strtol(at, &end, 10);
        if (end == at || *end == '\0') /* the last number may be incomplete */
            return false;
        ipb_autofd child = open_process(child_pid);
        /* Check that the parent exists last: as long as it does, no other process has its id. */
        if (child >= 0 && get_parent(child) == pid && get_parent(process) != 0 &&
            search_process(child, child_pid, generation + 1, search))
            return true;
    }
    return false;
}

static bool
search_process(int process, pid_t pid, unsigned generation, Search *search)
{
    search->n_processes++;
    if (search->visit(process, pid, search))
        return true;
    DIR *threads = generation < MAX_GENERATIONS ? open_list(process, "task") : NULL;
    if (threads == NULL)
        return false;
    const struct dirent *thread;
    bool is_found = false;
    while (!is_found && search->n_processes < search->max_processes &&
           search->n_threads < search->max_threads && (thread = readdir(threads)) != NULL) {
        if (thread->d_name[0] == '.')
            continue;
        search->n_threads++;
        is_found = search_children(process, pid, thread->d_name, generation, search);
    }
    closedir(threads);
    return is_found;
}

bool
ipb_descendants_have_socket(pid_t root, int pidfd, uint64_t inode)
{
    Search search = {
        .visit = holds_socket,
        .max_processes = MAX_PROCESSES,
        .max_threads = MAX_THREADS,
        .max_text = MAX_CHILDREN_TEXT,
    };
    g_snprintf(search.wanted, sizeof search.wanted, "socket:[%" PRIu64 "]", inode);
    ipb_autofd process = open_process(root);
    return process >= 0 && !has_ended(pidfd) && search_process(process, root, 0, &search);
}

/* Each process is killed once. What it forks later does not exist: a process with a signal to end
 * cannot fork. */
static bool
kill_new(int process, pid_t pid, Search *search)
{
    if (pid == search->root || g_hash_table_contains(search->killed, GINT_TO_POINTER(pid)))
        return false;
    ipb_autofd pidfd = ipb_pidfd_open(pid);
    /* As long as @process exists, the pidfd is of no other process. */
    if (pidfd < 0 || get_parent(process) == 0)
        return false;
    ipb_pidfd_signal(pidfd, SIGKILL, NULL);
    g_hash_table_add(search->killed, GINT_TO_POINTER(pid));
    search->is_any_new = true;
    return false;
}

void
ipb_descendants_kill(pid_t root, int pidfd)
{
    g_autoptr(GHashTable) killed = g_hash_table_new(NULL, NULL);
    Search search = {.root = root, .killed = killed, .is_any_new = true};
    ipb_autofd process = open_process(root);
    if (process < 0 || has_ended(pidfd) || !ipb_pidfd_signal(pidfd, SIGSTOP, NULL))
        return;
    for (int i = 0; i < MAX_PASSES && search.is_any_new; i++) {
        search = (Search){
            .visit = kill_new,
            .max_processes = MAX_KILLED,
            .max_threads = MAX_KILLED_THREADS,
            .max_text = MAX_KILLED_TEXT,
            .root = root,
            .killed = killed,
        };
        search_process(process, root, 0, &search);
    }
    ipb_pidfd_signal(pidfd, SIGKILL, NULL);
}
