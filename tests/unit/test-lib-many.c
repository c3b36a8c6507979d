/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that opens 200 sessions, uses each and closes them is afterwards what it was before:
 * the same fds, threads, processes and files, and no more memory; and so is the Python that the
 * kernels were forked from.
 */
#include "lib-fixture.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sanitizer.h"

#define N_SESSIONS 200
#define N_SANDBOXES 60 /* they take longer */
/* The first round fills caches, pools and the heap's holes, here and in Python. */
#define N_ROUNDS 3
/* So often a session calls a tool, too, whose server is a process of its own. */
#define TOOL_EVERY 40
/* How much more memory the process may hold than after the first round: 1 KiB for each session of a
 * round, although there were two rounds since. What is free in the heap is given back before
 * (malloc_trim), but whole pages only, and that is what is allowed for; the figure moves by 50 KiB
 * or so in both directions. */
#define ALLOWED_KIB N_SESSIONS
/* Python's own allocator keeps arenas of 1 MiB. */
#define ALLOWED_PYTHON_KIB 1024

/* AddressSanitizer keeps freed memory, and finds leaks in another way. */
#define IS_MEMORY_MEASURED (!HAS_ADDRESS_SANITIZER)

/* What a process has. */
typedef struct {
    unsigned n_fds, n_threads, n_children;
    long memory_kib;
} Holdings;

typedef struct {
    IpyboxSession *session;
    Answer used, closed;
} User;

static unsigned
count_entries(const char *path)
{
    unsigned n = 0;
    DIR *dir = opendir(path);
    g_assert_nonnull(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

/* The value of a line of /proc/PID/status. */
static long
read_status(pid_t pid, const char *name)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status", pid);
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    const char *line = strstr(text, name);
    g_assert_nonnull(line);
    return strtol(line + strlen(name), NULL, 10);
}

/* Children of all its threads; *ret_last is one of them. */
static unsigned
count_children(pid_t pid, pid_t *ret_last)
{
    unsigned n = 0;
    g_autofree char *tasks = g_strdup_printf("/proc/%d/task", pid);
    g_autoptr(GDir) dir = g_dir_open(tasks, 0, NULL);
    for (const char *name; (name = g_dir_read_name(dir)) != NULL;) {
        g_autofree char *path = g_build_filename(tasks, name, "children", NULL);
        g_autofree char *text = NULL;
        g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
        g_auto(GStrv) pids = g_strsplit(g_strstrip(text), " ", -1);
        for (char **item = pids; *item != NULL; item++) {
            *ret_last = atoi(*item);
            n++;
        }
    }
    return n;
}

static Holdings
measure(pid_t pid)
{
    pid_t child;
    g_autofree char *fds = g_strdup_printf("/proc/%d/fd", pid);
    return (Holdings){
        .n_fds = count_entries(fds),
        .n_threads = (unsigned) read_status(pid, "\nThreads:"),
        .n_children = count_children(pid, &child),
        .memory_kib = read_status(pid, "\nRssAnon:"),
    };
}

static void
use(User *user, unsigned number)
{
    g_autofree char *tool = call_tool("echo");
    g_autofree char *code =
        g_strdup_printf("%s\nx = %u\nprint(x + 1)", number % TOOL_EVERY == 0 ? tool : "", number);
    ipybox_session_execute_async(user->session, code, NULL, NULL, on_answer, &user->used);
}

static void
check_use(User *user, unsigned number)
{
    wait_for(&user->used);
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute_finish(user->session, user->used.result, &error);
    g_assert_no_error(error);
    g_autofree char *expected = g_strdup_printf("%u", number + 1);
    const char *text = ipybox_result_get_text(result);
    if (!g_str_has_suffix(text, expected))
        g_error("session %u: %s%s", number, text, ipybox_result_get_traceback(result));
    answer_clear(&user->used);
}

/* All of them are open at the same time. */
static void
run_round(Fixture *fixture, unsigned n, IpyboxSandbox sandbox)
{
    g_autofree User *users = g_new0(User, n);
    for (unsigned i = 0; i < n; i++) {
        IpyboxSessionOptions options = session_options(fixture);
        options.approval = IPYBOX_APPROVAL_ALLOW;
        options.sandbox = sandbox;
        users[i].session = new_session(fixture, &options);
        use(&users[i], i);
    }
    for (unsigned i = 0; i < n; i++)
        check_use(&users[i], i);
    for (unsigned i = 0; i < n; i++)
        ipybox_session_close_async(users[i].session, on_answer, &users[i].closed);
    for (unsigned i = 0; i < n; i++) {
        g_autoptr(GError) error = NULL;
        wait_for(&users[i].closed);
        g_assert_true(
            ipybox_session_close_finish(users[i].session, users[i].closed.result, &error));
        g_assert_no_error(error);
        answer_clear(&users[i].closed);
        ipybox_session_free(users[i].session);
    }
    while (g_main_context_iteration(NULL, FALSE))
        ;
    malloc_trim(0);
}

static void
assert_same(const char *who, const Holdings *before, const Holdings *after, long allowed_kib)
{
    g_test_message("%s: %u fds, %u threads, %u children, %ld KiB, %ld KiB more", who, after->n_fds,
                   after->n_threads, after->n_children, after->memory_kib,
                   after->memory_kib - before->memory_kib);
    g_assert_cmpuint(after->n_fds, ==, before->n_fds);
    g_assert_cmpuint(after->n_threads, ==, before->n_threads);
    g_assert_cmpuint(after->n_children, ==, before->n_children);
    if (IS_MEMORY_MEASURED)
        g_assert_cmpint(after->memory_kib - before->memory_kib, <=, allowed_kib);
}

static void
check_rounds(unsigned n, IpyboxSandbox sandbox)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    register_fake_server(fixture.session);
    run_round(&fixture, n, sandbox);
    pid_t python = -1;
    g_assert_cmpuint(count_children(getpid(), &python), ==, 1);
    unsigned n_files = count_entries(g_getenv("TMPDIR"));
    Holdings ours = measure(getpid()), pythons = measure(python);
    for (int i = 1; i < N_ROUNDS; i++) {
        run_round(&fixture, n, sandbox);
        Holdings ours_now = measure(getpid()), pythons_now = measure(python);
        assert_same("the program", &ours, &ours_now, ALLOWED_KIB);
        assert_same("Python", &pythons, &pythons_now, ALLOWED_PYTHON_KIB);
    }
    g_assert_cmpuint(count_entries(g_getenv("TMPDIR")), ==, n_files);
}

static void
test_two_hundred(void)
{
    check_rounds(N_SESSIONS, IPYBOX_SANDBOX_OFF);
}

static void
test_sandboxes(void)
{
    check_rounds(N_SANDBOXES, IPYBOX_SANDBOX_ON);
}

/* Many systems allow 1,024 descriptors at first, which is too few, and more on request. */
static void
raise_fd_limit(void)
{
    struct rlimit limit;
    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    limit.rlim_cur = limit.rlim_max;
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
}

int
main(int argc, char **argv)
{
    raise_fd_limit();
    char tmp[] = "/tmp/ipybox-test-XXXXXX";
    g_assert_nonnull(mkdtemp(tmp));
    g_setenv("TMPDIR", tmp, TRUE);
    g_test_init(&argc, &argv, NULL);
    add_test("/lib/many/two-hundred", test_two_hundred);
    add_test("/lib/many/sandboxes", test_sandboxes);
    int status = g_test_run();
    g_assert_cmpint(rmdir(tmp), ==, 0);
    return status;
}
