/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <sys/epoll.h>
#include <unistd.h>

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

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/loop/free-in-callback", test_free_in_callback);
    g_test_add_func("/base/loop/pause", test_pause);
    g_test_add_func("/base/loop/timer-frees-itself", test_timer_frees_itself);
    return g_test_run();
}
