/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/fd.h"

typedef struct {
    IpbWatch *watch;
    IpbWatch *other; /* freed by the first callback of either */
    int calls;
} Watched;

static void
on_free_other(uint32_t events, void *data)
{
    Watched *watched = data;
    watched->calls++;
    g_clear_pointer(&watched->watch, ipb_watch_free);
    g_clear_pointer(&watched->other, ipb_watch_free);
}

/* Both fds are ready in one batch. The first callback frees both, and the other is not called. */
static void
test_free_in_callback(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    int a[2], b[2];
    g_assert_true(ipb_fd_pipe(a, NULL) && ipb_fd_pipe(b, NULL));
    Watched watched = {0};
    watched.watch = ipb_watch_new(loop, a[0], EPOLLIN, on_free_other, &watched, NULL);
    watched.other = ipb_watch_new(loop, b[0], EPOLLIN, on_free_other, &watched, NULL);
    g_assert_cmpint(write(a[1], "x", 1) + write(b[1], "x", 1), ==, 2);
    while (watched.calls == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_false(g_main_context_iteration(NULL, FALSE));
    g_assert_cmpint(watched.calls, ==, 1);
    for (int i = 0; i < 2; i++) {
        ipb_fd_close(&a[i]);
        ipb_fd_close(&b[i]);
    }
}

static void
on_count(uint32_t events, void *data)
{
    ++*(int *) data;
}

static void
test_pause(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    int ends[2];
    g_assert_true(ipb_fd_pipe(ends, NULL));
    int calls = 0;
    IpbWatch *watch = ipb_watch_new(loop, ends[0], EPOLLIN, on_count, &calls, NULL);
    ipb_watch_set_events(watch, 0);
    ipb_fd_close(
        /* a hang-up is not reported while paused, and does not wake up the loop again and again */
        &ends[1]);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    g_assert_cmpint(calls, ==, 0);
    ipb_watch_set_events(watch, EPOLLIN);
    g_main_context_iteration(NULL, TRUE);
    g_assert_cmpint(calls, ==, 1);
    ipb_watch_free(watch);
    ipb_fd_close(&ends[0]);
}

static void
on_pause_both(uint32_t events, void *data)
{
    Watched *watched = data;
    g_assert_cmpuint(events & EPOLLIN, ==, EPOLLIN);
    watched->calls++;
    ipb_watch_set_events(watched->other, 0);
    ipb_watch_set_events(watched->watch, 0);
}

/* The first callback pauses both. The other, which is ready in the same batch, is not called before
 * it continues. */
static void
test_pause_in_callback(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    int a[2], b[2];
    g_assert_true(ipb_fd_pipe(a, NULL) && ipb_fd_pipe(b, NULL));
    Watched watched = {0};
    watched.watch = ipb_watch_new(loop, a[0], EPOLLIN, on_pause_both, &watched, NULL);
    watched.other = ipb_watch_new(loop, b[0], EPOLLIN, on_pause_both, &watched, NULL);
    g_assert_cmpint(write(a[1], "x", 1) + write(b[1], "x", 1), ==, 2);
    while (watched.calls == 0)
        g_main_context_iteration(NULL, TRUE);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    g_assert_cmpint(watched.calls, ==, 1);
    ipb_watch_set_events(watched.other, EPOLLIN);
    g_main_context_iteration(NULL, TRUE);
    g_assert_cmpint(watched.calls, ==, 2);
    ipb_watch_free(watched.watch);
    ipb_watch_free(watched.other);
    for (int i = 0; i < 2; i++) {
        ipb_fd_close(&a[i]);
        ipb_fd_close(&b[i]);
    }
}

static void
on_writable(uint32_t events, void *data)
{
    *(uint32_t *) data = events;
}

static void
test_events(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    int ends[2];
    g_assert_true(ipb_fd_pipe(ends, NULL));
    uint32_t events = 0;
    IpbWatch *watch = ipb_watch_new(loop, ends[1], 0, on_writable, &events, NULL);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    g_assert_cmpuint(events, ==, 0);
    ipb_watch_set_events(watch, EPOLLOUT);
    g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(events, ==, EPOLLOUT);
    ipb_fd_close(&ends[0]);
    g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(events, ==, EPOLLOUT | EPOLLERR);
    ipb_watch_free(watch);
    ipb_fd_close(&ends[1]);
}

static void
on_timer(void *data)
{
    IpbTimer **timer = data;
    g_clear_pointer(timer, ipb_timer_free);
}

static void
test_timer_frees_itself(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    IpbTimer *timer = NULL, *later = NULL;
    timer = ipb_timer_new(loop, 0, on_timer, &timer);
    later = ipb_timer_new(loop, 1, on_timer, &later);
    while (timer != NULL || later != NULL)
        g_main_context_iteration(NULL, TRUE);
}

typedef struct {
    IpbTimer *timer;
    unsigned delay_ms;
    guint fired; /* the how many-th one; 0: not yet */
    guint *n_fired;
} Timed;

static void
on_timed(void *data)
{
    Timed *timed = data;
    g_assert_nonnull(timed->timer);
    g_assert_cmpuint(timed->fired, ==, 0);
    timed->fired = ++*timed->n_fired;
    g_clear_pointer(&timed->timer, ipb_timer_free);
}

/* Of two timers, the one that was made first with no longer a delay fires first. Freed ones do not
 * fire. */
static void
test_order_of_timers(void)
{
    enum { N = 400 };
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    Timed timed[N];
    guint n_fired = 0, n_freed = 0;
    for (guint i = 0; i < N; i++) {
        timed[i] =
            (Timed){.delay_ms = (unsigned) g_test_rand_int_range(0, 12), .n_fired = &n_fired};
        timed[i].timer = ipb_timer_new(loop, timed[i].delay_ms, on_timed, &timed[i]);
        Timed *other = &timed[g_test_rand_int_range(0, (gint32) i + 1)];
        if (i % 3 == 0 && other->timer != NULL) {
            g_clear_pointer(&other->timer, ipb_timer_free);
            n_freed++;
        }
    }
    while (n_fired + n_freed < N)
        g_main_context_iteration(NULL, TRUE);
    guint n_compared = 0;
    for (guint i = 0; i < N; i++) {
        for (guint j = i + 1; j < N; j++) {
            if (timed[i].fired == 0 || timed[j].fired == 0 || timed[i].delay_ms > timed[j].delay_ms)
                continue;
            g_assert_cmpuint(timed[i].fired, <, timed[j].fired);
            n_compared++;
        }
    }
    g_assert_cmpuint(n_compared, >, N);
    g_assert_false(g_main_context_iteration(NULL, FALSE));
}

typedef struct {
    IpbLoop *loop;
    IpbTimer *timer;
    int calls;
} Again;

static void
on_again(void *data)
{
    Again *again = data;
    ipb_timer_free(again->timer);
    again->timer = ipb_timer_new(again->loop, 0, on_again, again);
    again->calls++;
}

/* A timer that its own callback makes again waits for the loop's next turn. */
static void
test_timer_that_is_made_again(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    Again again = {.loop = loop};
    again.timer = ipb_timer_new(loop, 0, on_again, &again);
    for (int i = 1; i <= 3; i++) {
        while (again.calls < i)
            g_main_context_iteration(NULL, TRUE);
        g_assert_cmpint(again.calls, ==, i);
    }
    ipb_timer_free(again.timer);
}

typedef struct {
    IpbTimer *timer, *inner;
} Nested;

static void
on_nested(void *data)
{
    Nested *nested = data;
    while (nested->inner != NULL)
        g_main_context_iteration(NULL, TRUE);
    g_clear_pointer(&nested->timer, ipb_timer_free);
}

/* A callback runs the context until another timer has fired. */
static void
test_timer_within_a_callback(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    Nested nested = {0};
    nested.timer = ipb_timer_new(loop, 0, on_nested, &nested);
    nested.inner = ipb_timer_new(loop, 1, on_timer, &nested.inner);
    while (nested.timer != NULL)
        g_main_context_iteration(NULL, TRUE);
}

/* --- children that were killed ---------------------------------------------------------------- */

static void
on_done(void *data)
{
    *(bool *) data = true;
}

/* A child that waits to be killed, which the loop is to reap. */
static pid_t
make_child(IpbLoop *loop, bool *ret_is_done)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    g_assert_cmpint(pid, >, 0);
    *ret_is_done = false;
    ipb_loop_reap(loop, ipb_pidfd_open(pid), on_done, ret_is_done);
    return pid;
}

static void
test_reap(void)
{
    IpbLoop *loop = ipb_loop_new(NULL, NULL);
    bool is_done;
    pid_t child = make_child(loop, &is_done);
    g_assert_cmpint(kill(child, SIGKILL), ==, 0);
    while (!is_done)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpint(waitpid(child, NULL, WNOHANG), ==, -1); /* it is reaped */
    g_assert_cmpint(errno, ==, ECHILD);
    ipb_loop_unref(loop);
}

/* The end of the loop waits for all of them, but not for ever. */
static void
test_reap_at_the_end(void)
{
    IpbLoop *loop = ipb_loop_new(NULL, NULL);
    bool are_done[3], is_late_done;
    pid_t late = make_child(loop, &is_late_done);
    for (size_t i = 0; i < G_N_ELEMENTS(are_done); i++)
        g_assert_cmpint(kill(make_child(loop, &are_done[i]), SIGKILL), ==, 0);
    ipb_loop_unref(loop);
    for (size_t i = 0; i < G_N_ELEMENTS(are_done); i++)
        g_assert_true(are_done[i]);
    g_assert_false(is_late_done);
    g_assert_cmpint(kill(late, SIGKILL), ==, 0);
    while (!is_late_done)
        g_main_context_iteration(NULL, TRUE);
}

/* --- without watches of epoll ----------------------------------------------------------------- */

/* From now on epoll_ctl fails in this process as if other programs of the user had all watches. */
static void
use_up_watches(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_ctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {G_N_ELEMENTS(rows), rows};
    g_assert_cmpint(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), ==, 0);
    g_assert_cmpint(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), ==, 0);
    struct epoll_event event = {.events = EPOLLIN};
    ipb_autofd epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    g_assert_cmpint(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &event), ==, -1);
    g_assert_cmpint(errno, ==, ENOSPC);
}

static const struct {
    const char *name;
    void (*func)(void);
} TESTS[] = {
    {"free-in-callback", test_free_in_callback},
    {"pause", test_pause},
    {"pause-in-callback", test_pause_in_callback},
    {"events", test_events},
    {"timer-frees-itself", test_timer_frees_itself},
    {"order-of-timers", test_order_of_timers},
    {"timer-that-is-made-again", test_timer_that_is_made_again},
    {"timer-within-a-callback", test_timer_within_a_callback},
    {"reap", test_reap},
    {"reap-at-the-end", test_reap_at_the_end},
};

static void
test_without_watches(const void *data)
{
    if (!g_test_subprocess()) {
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        return;
    }
    use_up_watches();
    TESTS[GPOINTER_TO_SIZE(data)].func();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(TESTS); i++) {
        g_autofree char *path = g_strconcat("/base/loop/", TESTS[i].name, NULL);
        g_autofree char *polled = g_strconcat("/base/loop/without-watches/", TESTS[i].name, NULL);
        g_test_add_func(path, TESTS[i].func);
        g_test_add_data_func(polled, GSIZE_TO_POINTER(i), test_without_watches);
    }
    return g_test_run();
}
