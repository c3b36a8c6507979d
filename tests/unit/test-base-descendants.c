/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descendants.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib.h>

#include "base/fd.h"

static uint64_t
inode_of(int fd)
{
    struct stat status;
    g_assert_cmpint(fstat(fd, &status), ==, 0);
    return status.st_ino;
}

static int
make_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(fd, >=, 0);
    return fd;
}

typedef struct {
    pid_t root; /* also the process group */
    int pidfd;
    uint64_t inode; /* of a socket of the last process in the chain */
} Tree;

/* A chain of @depth processes below the root. */
static Tree
start(unsigned depth)
{
    int report[2];
    g_assert_cmpint(pipe(report), ==, 0);
    Tree tree = {.root = fork()};
    g_assert_cmpint(tree.root, >=, 0);
    if (tree.root == 0) {
        setpgid(0, 0);
        while (depth-- > 0) {
            pid_t child = fork();
            if (child != 0) {
                waitpid(child, NULL, 0);
                _exit(0);
            }
        }
        uint64_t inode = inode_of(make_socket());
        if (write(report[1], &inode, sizeof inode) == sizeof inode)
            pause();
        _exit(0);
    }
    close(report[1]);
    g_assert_cmpint(read(report[0], &tree.inode, sizeof tree.inode), ==, sizeof tree.inode);
    close(report[0]);
    tree.pidfd = (int) syscall(SYS_pidfd_open, tree.root, 0);
    g_assert_cmpint(tree.pidfd, >=, 0);
    return tree;
}

static void
stop(Tree *tree)
{
    kill(-tree->root, SIGKILL);
    waitpid(tree->root, NULL, 0);
    close(tree->pidfd);
}

static bool
has(const Tree *tree, uint64_t inode)
{
    return ipb_descendants_have_socket(tree->root, tree->pidfd, inode);
}

static void
test_generations(void)
{
    static const struct {
        unsigned depth;
        bool is_found;
    } ROWS[] = {{0, true}, {1, true}, {5, true}, {32, true}, {33, false}};
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        Tree tree = start(ROWS[i].depth);
        g_assert_true(has(&tree, tree.inode) == ROWS[i].is_found);
        stop(&tree);
    }
}

/* Sockets of this process, which is the parent, and of a sister. */
static void
test_others(void)
{
    Tree first = start(1), second = start(1);
    ipb_autofd own = make_socket();
    g_assert_false(has(&first, inode_of(own)));
    g_assert_false(has(&first, second.inode));
    g_assert_false(has(&second, first.inode));
    g_assert_false(has(&first, 0));
    stop(&first);
    stop(&second);
}

/* If the pidfd says that the process has ended, a process with the same id does not count. */
static void
test_ended(void)
{
    Tree ended = start(0);
    kill(ended.root, SIGKILL);
    siginfo_t info;
    g_assert_cmpint(waitid(P_PID, (id_t) ended.root, &info, WEXITED | WNOWAIT), ==, 0);
    g_assert_false(has(&ended, ended.inode));
    Tree alive = start(0);
    g_assert_true(has(&alive, alive.inode));
    g_assert_false(ipb_descendants_have_socket(alive.root, ended.pidfd, alive.inode));
    stop(&alive);
    stop(&ended);
}

static void *
run_thread(void *data)
{
    Tree *tree = data;
    *tree = start(1);
    return NULL;
}

/* A process that was started by a thread other than the first is a child as well. */
static void
test_threads(void)
{
    Tree tree;
    g_thread_join(g_thread_new("starter", run_thread, &tree));
    int pidfd = (int) syscall(SYS_pidfd_open, getpid(), 0);
    g_assert_true(ipb_descendants_have_socket(getpid(), pidfd, tree.inode));
    close(pidfd);
    stop(&tree);
}

/* A Python with @n_threads threads, and one more that has started a process with a socket. */
static Tree
start_threads(const char *n_threads)
{
    static const char CODE[] =
        "import os, socket, subprocess, sys, threading\n"
        "threading.stack_size(131072)\n" /* the least on arm64 */
        "forever = threading.Event()\n"
        "for _ in range(int(sys.argv[1])):\n"
        "    threading.Thread(target=forever.wait).start()\n"
        "def start():\n"
        "    own = socket.socket()\n"
        "    inode = os.fstat(own.fileno()).st_ino\n"
        "    subprocess.Popen(['sleep', 'infinity'], pass_fds=[own.fileno()])\n"
        "    own.close()\n"
        "    print(inode, flush=True)\n"
        "    forever.wait()\n"
        "threading.Thread(target=start).start()\n";
    int report[2];
    char text[32] = "";
    g_assert_cmpint(pipe(report), ==, 0);
    Tree tree = {.root = fork()};
    g_assert_cmpint(tree.root, >=, 0);
    if (tree.root == 0) {
        setpgid(0, 0);
        dup2(report[1], STDOUT_FILENO);
        execlp("python3", "python3", "-I", "-S", "-c", CODE, n_threads, NULL);
        _exit(127);
    }
    close(report[1]);
    g_assert_cmpint(read(report[0], text, sizeof text - 1), >, 0);
    close(report[0]);
    tree.inode = g_ascii_strtoull(text, NULL, 10);
    tree.pidfd = (int) syscall(SYS_pidfd_open, tree.root, 0);
    g_assert_cmpint(tree.pidfd, >=, 0);
    return tree;
}

/* The search reads a file for each thread, so it must stop after a bounded number of them. */
static void
test_many_threads(void)
{
    Tree some = start_threads("100"), many = start_threads("2100");
    bool has_some = has(&some, some.inode), has_many = has(&many, many.inode);
    /* First, because processes left by a failure would keep its output open. */
    stop(&some);
    stop(&many);
    g_assert_true(has_some);
    g_assert_false(has_many);
}

/* More processes than the search reads. */
static void
test_bounded(void)
{
    Tree tree = start(0);
    int pidfd = (int) syscall(SYS_pidfd_open, getpid(), 0);
    ipb_autofd own = make_socket();
    g_assert_true(ipb_descendants_have_socket(getpid(), pidfd, inode_of(own)));
    enum { MANY = 600 };
    pid_t children[MANY];
    for (int i = 0; i < MANY; i++) {
        children[i] = fork();
        g_assert_cmpint(children[i], >=, 0);
        if (children[i] == 0) {
            pause();
            _exit(0);
        }
    }
    Tree last = start(0);
    /* Six hundred sisters come before it, and the search reads 512 processes. */
    g_assert_false(ipb_descendants_have_socket(getpid(), pidfd, last.inode));
    g_assert_true(ipb_descendants_have_socket(getpid(), pidfd, tree.inode));
    stop(&last);
    for (int i = 0; i < MANY; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    close(pidfd);
    stop(&tree);
}

/* A subreaper with @n children, each with a child. All write a byte into *@ret_pipe when they are
 * there; it ends when they all have ended. */
static Tree
start_many(unsigned n, int *ret_pipe)
{
    int ends[2];
    char byte = 0;
    g_assert_cmpint(pipe(ends), ==, 0);
    Tree tree = {.root = fork()};
    g_assert_cmpint(tree.root, >=, 0);
    if (tree.root == 0) {
        setpgid(0, 0);
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        for (unsigned i = 0; i < n; i++)
            if (fork() == 0) {
                fork();
                break;
            }
        if (write(ends[1], &byte, 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(ends[1]);
    for (unsigned i = 0; i < 2 * n + 1; i++)
        g_assert_cmpint(read(ends[0], &byte, 1), ==, 1);
    tree.pidfd = (int) syscall(SYS_pidfd_open, tree.root, 0);
    *ret_pipe = ends[0];
    return tree;
}

/* Has every process of the tree ended? */
static bool
is_closed(int fd, int timeout_ms)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    return poll(&end, 1, timeout_ms) == 1;
}

static void
set_true(void *data)
{
    *(bool *) data = true;
}

/* A turn of the loop looks at a bounded number of processes: what has to be done in between is
 * not kept waiting by thousands. */
static void
test_kill_in_turns(void)
{
    enum { MANY = 3 * IPB_DESCENDANTS_TURN };
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, &error);
    g_assert_no_error(error);
    int alive;
    Tree tree = start_many(MANY, &alive);
    bool is_done = false;
    IpbDescendantsKill *kill =
        ipb_descendants_kill_new(loop, tree.root, tree.pidfd, set_true, &is_done);
    unsigned n_turns = 0;
    while (!is_done) {
        g_main_context_iteration(ipb_loop_context(loop), TRUE);
        n_turns++;
    }
    g_assert_cmpuint(n_turns, >=, 2 * MANY / IPB_DESCENDANTS_TURN);
    ipb_descendants_kill_free(kill);
    g_assert_true(is_closed(alive, -1));
    close(alive);
    stop(&tree);
}

/* Freed early, it kills the rest at once, and reports nothing. */
static void
test_kill_that_is_freed(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, &error);
    int alive;
    Tree tree = start_many(100, &alive), ended = start(0);
    bool is_done = false;
    g_assert_false(is_closed(alive, 0));
    ipb_descendants_kill_free(
        ipb_descendants_kill_new(loop, tree.root, tree.pidfd, set_true, &is_done));
    g_assert_true(is_closed(alive, -1));
    g_assert_false(is_done);
    close(alive);
    stop(&tree);
    /* Of a process that has ended, nothing is left to kill. */
    kill(ended.root, SIGKILL);
    siginfo_t info;
    g_assert_cmpint(waitid(P_PID, (id_t) ended.root, &info, WEXITED | WNOWAIT), ==, 0);
    IpbDescendantsKill *late =
        ipb_descendants_kill_new(loop, ended.root, ended.pidfd, set_true, &is_done);
    while (!is_done)
        g_main_context_iteration(ipb_loop_context(loop), TRUE);
    ipb_descendants_kill_free(late);
    stop(&ended);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/descendants/generations", test_generations);
    g_test_add_func("/base/descendants/others", test_others);
    g_test_add_func("/base/descendants/ended", test_ended);
    g_test_add_func("/base/descendants/threads", test_threads);
    g_test_add_func("/base/descendants/many-threads", test_many_threads);
    g_test_add_func("/base/descendants/bounded", test_bounded);
    g_test_add_func("/base/descendants/kill-in-turns", test_kill_in_turns);
    g_test_add_func("/base/descendants/kill-that-is-freed", test_kill_that_is_freed);
    return g_test_run();
}
