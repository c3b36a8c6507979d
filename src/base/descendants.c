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

/* A process whose children are searched. */
typedef struct {
    int process; /* of /proc/PID */
    pid_t pid;
    DIR *threads;   /* NULL: not begun */
    char *children; /* of one of its threads; NULL: the next thread's are to be read */
    char *at;       /* the rest of @children */
} Level;

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
    Level levels[MAX_GENERATIONS]; /* from the root down */
    unsigned n_levels;
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

/* Takes @process. Returns true if the search is over. */
static bool
enter(Search *search, int process, pid_t pid)
{
    search->n_processes++;
    bool is_over = search->visit(process, pid, search);
    if (is_over || search->n_levels == MAX_GENERATIONS) {
        close(process);
        return is_over;
    }
    search->levels[search->n_levels++] = (Level){.process = process, .pid = pid};
    return false;
}

static void
leave(Search *search)
{
    Level *level = &search->levels[--search->n_levels];
    close(level->process);
    if (level->threads != NULL)
        closedir(level->threads);
    g_free(level->children);
}

static void
clear_search(Search *search)
{
    while (search->n_levels > 0)
        leave(search);
}

/* False: there is no other thread, or too many. */
static bool
read_next_thread(Search *search, Level *level)
{
    const struct dirent *thread;
    if (level->threads == NULL)
        level->threads = open_list(level->process, "task");
    do
        thread = level->threads != NULL && search->n_threads < search->max_threads
                     ? readdir(level->threads)
                     : NULL;
    while (thread != NULL && thread->d_name[0] == '.');
    if (thread == NULL)
        return false;
    search->n_threads++;
    level->children = read_children(level->process, thread->d_name, search->max_text);
    level->at = level->children;
    return true;
}

/* 0: the list of the thread's children ends. */
static pid_t
next_child(Level *level)
{
    char *end;
    pid_t pid = (pid_t) strtol(level->at, &end, 10);
    if (end == level->at || *end == '\0') { /* the last number may be incomplete */
        g_clear_pointer(&level->children, g_free);
        return 0;
    }
    level->at = end;
    return pid;
}

/* Goes to the next child or thread. Returns true if the search is over. */
static bool
step(Search *search)
{
    Level *level = &search->levels[search->n_levels - 1];
    if (search->n_processes >= search->max_processes ||
        (level->children == NULL && !read_next_thread(search, level))) {
        leave(search);
        return search->n_levels == 0;
    }
    pid_t pid = level->children != NULL ? next_child(level) : 0;
    if (pid == 0)
        return false;
    int child = open_process(pid);
    /* Check that the parent exists last: as long as it does, no other process has its id. */
    if (child >= 0 && get_parent(child) == level->pid && get_parent(level->process) != 0)
        return enter(search, child, pid);
    ipb_fd_close(&child);
    return false;
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
    int process = open_process(root);
    if (process < 0 || has_ended(pidfd)) {
        ipb_fd_close(&process);
        return false;
    }
    bool is_found = enter(&search, process, root);
    bool is_over = is_found;
    while (!is_over) {
        is_over = step(&search);
        is_found = is_over && search.n_levels > 0;
    }
    clear_search(&search);
    return is_found;
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

struct IpbDescendantsKill {
    IpbLoop *loop;
    IpbTimer *timer;
    pid_t root;
    int pidfd;
    GHashTable *killed;
    Search search;
    unsigned n_passes;
    bool has_ended; /* all got the signal */
    void (*done)(void *data);
    void *data;
};

static void
begin_pass(IpbDescendantsKill *kill)
{
    int process = open_process(kill->root);
    kill->n_passes++;
    kill->search = (Search){
        .visit = kill_new,
        .max_processes = MAX_KILLED,
        .max_threads = MAX_KILLED_THREADS,
        .max_text = MAX_KILLED_TEXT,
        .root = kill->root,
        .killed = kill->killed,
    };
    if (process >= 0 && !has_ended(kill->pidfd))
        enter(&kill->search, process, kill->root);
    else
        ipb_fd_close(&process);
}

/* What was there when a pass began may have forked since. The root ends last, because a process
 * whose parent ends becomes its child. */
static void
continue_killing(IpbDescendantsKill *kill)
{
    if (kill->search.n_levels > 0 && !step(&kill->search))
        return;
    if (kill->search.is_any_new && kill->n_passes < MAX_PASSES) {
        begin_pass(kill);
        return;
    }
    ipb_pidfd_signal(kill->pidfd, SIGKILL, NULL);
    kill->has_ended = true;
}

static void
on_turn(void *data)
{
    IpbDescendantsKill *kill = data;
    g_clear_pointer(&kill->timer, ipb_timer_free);
    for (int i = 0; i < IPB_DESCENDANTS_TURN && !kill->has_ended; i++)
        continue_killing(kill);
    if (kill->has_ended)
        kill->done(kill->data); /* may free it */
    else
        kill->timer = ipb_timer_new(kill->loop, 0, on_turn, kill);
}

IpbDescendantsKill *
ipb_descendants_kill_new(IpbLoop *loop, pid_t root, int pidfd, void (*done)(void *data), void *data)
{
    IpbDescendantsKill *kill = g_new0(IpbDescendantsKill, 1);
    kill->loop = ipb_loop_ref(loop);
    kill->root = root;
    kill->pidfd = pidfd;
    kill->killed = g_hash_table_new(NULL, NULL);
    kill->done = done;
    kill->data = data;
    if (has_ended(pidfd) || !ipb_pidfd_signal(pidfd, SIGSTOP, NULL))
        kill->has_ended = true;
    else
        begin_pass(kill);
    kill->timer = ipb_timer_new(loop, 0, on_turn, kill);
    return kill;
}

void
ipb_descendants_kill_free(IpbDescendantsKill *kill)
{
    if (kill == NULL)
        return;
    while (!kill->has_ended)
        continue_killing(kill);
    clear_search(&kill->search);
    ipb_timer_free(kill->timer);
    g_hash_table_unref(kill->killed);
    ipb_loop_unref(kill->loop);
    g_free(kill);
}
