/* SPDX-License-Identifier: Apache-2.0
 *
 * Connecting; see the header. A thread cannot be stopped: after a cancellation it continues until
 * its deadline, and a socket that it has then is closed.
 */
#include "http/tcp-connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"

#define CONNECT_TIMEOUT_MS (20 * 1000)

typedef struct {
    char *host;
    char port[8];
} Target;

static void
free_target(void *data)
{
    Target *target = data;
    g_free(target->host);
    g_free(target);
}

static void
free_fd(void *data)
{
    int *fd = data;
    ipb_fd_close(fd);
    g_free(fd);
}

/* -1: errno says why. */
static int
try_address(const struct addrinfo *address, gint64 deadline)
{
    ipb_autofd fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
        return ipb_fd_steal(&fd);
    if (errno != EINPROGRESS)
        return -1;
    gint64 left_ms = (deadline - g_get_monotonic_time()) / 1000;
    if (left_ms <= 0 || !ipb_fd_wait(fd, POLLOUT, (unsigned) left_ms)) {
        errno = ETIMEDOUT;
        return -1;
    }
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) < 0)
        return -1;
    errno = failure;
    return failure == 0 ? ipb_fd_steal(&fd) : -1;
}

/* In a thread of its own. */
static void
connect_to_target(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    const Target *target = data;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    gint64 deadline = g_get_monotonic_time() + CONNECT_TIMEOUT_MS * INT64_C(1000);
    struct addrinfo *list = NULL;
    int result = getaddrinfo(target->host, target->port, &hints, &list);
    if (result != 0) {
        g_task_return_new_error(task, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                                "%s does not resolve: %s", target->host,
                                result == EAI_SYSTEM ? g_strerror(errno) : gai_strerror(result));
        return;
    }
    int fd = -1;
    for (const struct addrinfo *item = list;
         item != NULL && fd < 0 && !g_cancellable_is_cancelled(cancellable); item = item->ai_next)
        fd = try_address(item, deadline);
    int failure = errno;
    freeaddrinfo(list);
    if (fd < 0) {
        g_task_return_new_error(
            task, IPYBOX_ERROR,
            failure == ETIMEDOUT ? IPYBOX_ERROR_TIMEOUT : IPYBOX_ERROR_UNAVAILABLE,
            "cannot connect to %s port %s: %s", target->host, target->port, g_strerror(failure));
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    int *made = g_new(int, 1);
    *made = fd;
    g_task_return_pointer(task, made, free_fd);
}

void
ipb_tcp_connect(const char *host, unsigned port, GMainContext *context, GCancellable *cancellable,
                GAsyncReadyCallback func, void *data)
{
    Target *target = g_new0(Target, 1);
    target->host = g_strdup(host);
    snprintf(target->port, sizeof target->port, "%u", port);
    /* A task calls back in the context that is the thread's default when it is created. */
    g_main_context_push_thread_default(context);
    g_autoptr(GTask) task = g_task_new(NULL, cancellable, func, data);
    g_main_context_pop_thread_default(context);
    g_task_set_task_data(task, target, free_target);
    g_task_set_return_on_cancel(task, TRUE);
    g_task_run_in_thread(task, connect_to_target);
}

int
ipb_tcp_connect_finish(GAsyncResult *result, GError **error)
{
    int *made = g_task_propagate_pointer(G_TASK(result), error);
    if (made == NULL)
        return -1;
    int fd = ipb_fd_steal(made);
    g_free(made);
    return fd;
}
