/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepting connections; see the header.
 */
#include "base/acceptor.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"

/* Connections accepted in one wake-up. The rest is accepted in the next. */
#define MAX_ACCEPTS 64
#define RETRY_MS 100

struct IpbAcceptor {
    IpbLoop *loop;
    int listener;
    IpbWatch *watch;
    IpbTimer *retry; /* NULL: not paused */
    IpbAcceptorFunc func;
    void *data;
    bool *is_freed; /* set to true if the acceptor is freed while it accepts */
};

static void
on_retry(void *data)
{
    IpbAcceptor *acceptor = data;
    g_clear_pointer(&acceptor->retry, ipb_timer_free);
    ipb_watch_set_events(acceptor->watch, EPOLLIN);
}

static void
stand_still(IpbAcceptor *acceptor)
{
    ipb_watch_set_events(acceptor->watch, 0);
    acceptor->retry = ipb_timer_new(acceptor->loop, RETRY_MS, on_retry, acceptor);
}

static void
on_acceptable(uint32_t events, void *data)
{
    IpbAcceptor *acceptor = data;
    bool is_freed = false;
    acceptor->is_freed = &is_freed;
    for (int i = 0; i < MAX_ACCEPTS; i++) {
        int fd = accept4(acceptor->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            acceptor->func(fd, acceptor->data);
            if (is_freed)
                return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            stand_still(acceptor);
            break;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            break;
        }
    }
    acceptor->is_freed = NULL;
}

IpbAcceptor *
ipb_acceptor_new(IpbLoop *loop, int listener, IpbAcceptorFunc func, void *data, GError **error)
{
    g_autoptr(IpbAcceptor) acceptor = g_new0(IpbAcceptor, 1);
    acceptor->loop = ipb_loop_ref(loop);
    acceptor->listener = listener;
    acceptor->func = func;
    acceptor->data = data;
    if (!ipb_fd_set_nonblocking(listener, true, error))
        return NULL;
    acceptor->watch = ipb_watch_new(loop, listener, EPOLLIN, on_acceptable, acceptor, error);
    return acceptor->watch != NULL ? g_steal_pointer(&acceptor) : NULL;
}

void
ipb_acceptor_free(IpbAcceptor *acceptor)
{
    if (acceptor == NULL)
        return;
    if (acceptor->is_freed != NULL)
        *acceptor->is_freed = true;
    ipb_timer_free(acceptor->retry);
    ipb_watch_free(acceptor->watch);
    ipb_fd_close(&acceptor->listener);
    ipb_loop_unref(acceptor->loop);
    g_free(acceptor);
}
