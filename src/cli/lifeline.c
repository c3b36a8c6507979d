/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server's life hangs on; see the header.
 */
#include "cli/lifeline.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

struct IpbLifeline {
    void (*on_end)(void *data);
    void *data;
    int input;  /* a duplicate of standard input; -1: none is watched */
    int parent; /* pidfd; -1: none is watched */
    IpbWatch *input_watch, *parent_watch;
};

static void
end(IpbLifeline *lifeline)
{
    g_clear_pointer(&lifeline->input_watch, ipb_watch_free);
    g_clear_pointer(&lifeline->parent_watch, ipb_watch_free);
    lifeline->on_end(lifeline->data);
}

/* What comes is thrown away. */
static void
on_input(uint32_t events, void *data)
{
    IpbLifeline *lifeline = data;
    char bytes[4096];
    ssize_t n = read(lifeline->input, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        end(lifeline);
}

static void
on_parent_end(uint32_t events, void *data)
{
    end(data);
}

static bool
watch_input(IpbLifeline *lifeline, IpbLoop *loop, GError **error)
{
    struct stat status;
    if (fstat(STDIN_FILENO, &status) < 0 ||
        (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode)))
        return true;
    lifeline->input = ipb_fd_duplicate(STDIN_FILENO, 3);
    if (lifeline->input < 0)
        return true;
    lifeline->input_watch =
        ipb_watch_new(loop, lifeline->input, EPOLLIN, on_input, lifeline, error);
    return lifeline->input_watch != NULL;
}

/* A parent in another pid namespace has no number here (0), and cannot be watched; init never ends. */
static bool
watch_parent(IpbLifeline *lifeline, IpbLoop *loop, GError **error)
{
    pid_t parent = getppid();
    if (parent <= 1)
        return true;
    lifeline->parent = ipb_pidfd_open(parent);
    if (lifeline->parent < 0 || getppid() != parent) {
        /* It has ended already: then the end of input must do. */
        ipb_fd_close(&lifeline->parent);
        return true;
    }
    lifeline->parent_watch =
        ipb_watch_new(loop, lifeline->parent, EPOLLIN, on_parent_end, lifeline, error);
    return lifeline->parent_watch != NULL;
}

static IpbLifeline *
make_lifeline(void (*on_end)(void *data), void *data)
{
    IpbLifeline *lifeline = g_new0(IpbLifeline, 1);
    lifeline->on_end = on_end;
    lifeline->data = data;
    lifeline->input = lifeline->parent = -1;
    return lifeline;
}

IpbLifeline *
ipb_lifeline_new(IpbLoop *loop, void (*on_end)(void *data), void *data, GError **error)
{
    g_autoptr(IpbLifeline) lifeline = make_lifeline(on_end, data);
    if (!watch_input(lifeline, loop, error))
        return NULL;
    /* Without standard input to end, the parent may be a shell that starts what is to outlive it. */
    if (lifeline->input >= 0 && !watch_parent(lifeline, loop, error))
        return NULL;
    return g_steal_pointer(&lifeline);
}

IpbLifeline *
ipb_lifeline_new_of_parent(IpbLoop *loop, void (*on_end)(void *data), void *data, GError **error)
{
    g_autoptr(IpbLifeline) lifeline = make_lifeline(on_end, data);
    return watch_parent(lifeline, loop, error) ? g_steal_pointer(&lifeline) : NULL;
}

void
ipb_lifeline_free(IpbLifeline *lifeline)
{
    if (lifeline == NULL)
        return;
    ipb_watch_free(lifeline->input_watch);
    ipb_watch_free(lifeline->parent_watch);
    ipb_fd_close(&lifeline->input);
    ipb_fd_close(&lifeline->parent);
    g_free(lifeline);
}
