/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define LIMIT 1000

typedef struct {
    char *path;
    int fd;
    struct rlimit before;
} Fixture;

/* Files of this process may have LIMIT bytes. Both signals have their default action, so either of
 * them would end the test. */
static void
set_up(Fixture *fixture, const void *unused)
{
    fixture->fd = g_file_open_tmp("ipybox-test-XXXXXX", &fixture->path, NULL);
    g_assert_cmpint(fixture->fd, >=, 0);
    getrlimit(RLIMIT_FSIZE, &fixture->before);
    struct rlimit limit = {LIMIT, fixture->before.rlim_max};
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    setrlimit(RLIMIT_FSIZE, &fixture->before);
    unlink(fixture->path);
    ipb_fd_close(&fixture->fd);
    g_free(fixture->path);
}

static bool
is_pending(int number)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, number);
}

static void
test_too_large(Fixture *fixture, const void *unused)
{
    static const char bytes[LIMIT + 1];
    g_autoptr(GError) error = NULL;
    g_assert_true(ipb_fd_write_all(fixture->fd, bytes, LIMIT, &error));
    g_assert_no_error(error);
    g_assert_cmpint(ipb_fd_explain_short_write(fixture->fd), ==, EFBIG);
    g_assert_false(ipb_fd_write_all(fixture->fd, bytes, 1, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
    g_assert_nonnull(strstr(error->message, "files of this process may have 1000 bytes"));
    g_assert_nonnull(strstr(error->message, "ulimit -f"));
    g_assert_cmpint(ipb_fd_write(fixture->fd, bytes, 1), ==, -1);
    g_assert_cmpint(errno, ==, EFBIG);
    g_assert_false(is_pending(SIGXFSZ));
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    g_assert_false(sigismember(&blocked, SIGXFSZ) || sigismember(&blocked, SIGPIPE));
}

static void
test_no_reader(Fixture *fixture, const void *unused)
{
    int fds[2];
    g_assert_true(ipb_fd_pipe(fds, NULL));
    ipb_fd_close(&fds[0]);
    g_assert_cmpint(ipb_fd_write(fds[1], "x", 1), ==, -1);
    g_assert_cmpint(errno, ==, EPIPE);
    g_assert_false(is_pending(SIGPIPE));
    ipb_fd_close(&fds[1]);
}

/* A pending signal that the application has blocked is not removed. */
static void
test_pending_before(Fixture *fixture, const void *unused)
{
    static const char bytes[LIMIT + 1];
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    pthread_kill(pthread_self(), SIGXFSZ);
    g_assert_false(ipb_fd_write_all(fixture->fd, bytes, sizeof bytes, NULL));
    g_assert_true(is_pending(SIGXFSZ));
    g_assert_cmpint(sigtimedwait(&signals, NULL, &(struct timespec){0}), ==, SIGXFSZ);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void
test_full_disk_is_no_limit(Fixture *fixture, const void *unused)
{
    g_assert_cmpint(ipb_fd_explain_short_write(fixture->fd), ==, ENOSPC);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/fd/too-large", Fixture, NULL, set_up, test_too_large, tear_down);
    g_test_add("/fd/no-reader", Fixture, NULL, set_up, test_no_reader, tear_down);
    g_test_add("/fd/pending-before", Fixture, NULL, set_up, test_pending_before, tear_down);
    g_test_add("/fd/full-disk", Fixture, NULL, set_up, test_full_disk_is_no_limit, tear_down);
    return g_test_run();
}
