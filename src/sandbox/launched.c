/* SPDX-License-Identifier: Apache-2.0
 *
 * A child by its pidfd; see the header.
 *
 * Pid 1 of a sandbox is gone only when everything inside is, kernels included, which their forkserver must reap. So nobody waits long for
 * it: who is late is followed from the main context, which outlives the loop.
 */
#include "sandbox/launched.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <glib-unix.h>

#include "base/fd.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static bool
reap(int pidfd)
{
    siginfo_t info = {0};
    int result;
    do
        result = waitid(P_PIDFD, (id_t) pidfd, &info, WEXITED | WNOHANG);
    while (result < 0 && errno == EINTR);
    /* ECHILD: the application around us reaps what it does not know. */
    return result < 0 || info.si_pid != 0;
}

static void
on_ended(uint32_t events, void *data)
{
    IpbLaunched *launched = data;
    if (!reap(launched->pidfd))
        return;
    g_clear_pointer(&launched->watch, ipb_watch_free);
    ipb_fd_close(&launched->pidfd);
    launched->on_end(launched->data);
}

bool
ipb_launched_watch(IpbLaunched *launched, IpbLoop *loop, int pidfd, void (*on_end)(void *data),
                   void *data, GError **error)
{
    launched->pidfd = pidfd;
    launched->on_end = on_end;
    launched->data = data;
    launched->watch = ipb_watch_new(loop, pidfd, EPOLLIN, on_ended, launched, error);
    return launched->watch != NULL;
}

void
ipb_launched_kill(const IpbLaunched *launched)
{
    if (launched->pidfd >= 0)
        ipb_pidfd_signal(launched->pidfd, SIGKILL, NULL);
}

/* --- who is late ------------------------------------------------------------------------------- */

typedef struct {
    int pidfd;
    IpbCgroup *cgroup; /* or NULL */
} Straggler;

static gboolean
on_straggler_ended(int pidfd, GIOCondition condition, void *data)
{
    return reap(pidfd) ? G_SOURCE_REMOVE : G_SOURCE_CONTINUE;
}

static void
free_straggler(void *data)
{
    Straggler *straggler = data;
    ipb_fd_close(&straggler->pidfd);
    ipb_cgroup_free(straggler->cgroup);
    g_free(straggler);
}

static void
follow_straggler(IpbLoop *loop, int pidfd, IpbCgroup *cgroup)
{
    Straggler *straggler = g_new(Straggler, 1);
    *straggler = (Straggler){pidfd, cgroup};
    g_autoptr(GSource) source = g_unix_fd_source_new(pidfd, G_IO_IN);
    /* The source's own type of callback, as GLib has it. */
    g_source_set_callback(source, G_SOURCE_FUNC(on_straggler_ended), straggler, free_straggler);
    g_source_attach(source, ipb_loop_context(loop));
}

void
ipb_launched_end(IpbLaunched *launched, IpbLoop *loop, IpbCgroup **cgroup)
{
    g_clear_pointer(&launched->watch, ipb_watch_free);
    if (launched->pidfd < 0)
        return;
    ipb_launched_kill(launched);
    if (ipb_fd_wait(launched->pidfd, POLLIN, IPB_LAUNCHED_END_TIMEOUT_MS) &&
        reap(launched->pidfd)) {
        ipb_fd_close(&launched->pidfd);
        return;
    }
    follow_straggler(loop, ipb_fd_steal(&launched->pidfd), g_steal_pointer(cgroup));
}
