/* SPDX-License-Identifier: Apache-2.0
 *
 * One GSource that polls one epoll fd, and one for all timers, which are in a heap. GLib asks every
 * source in every turn of the loop. A source for each timer would cost time in each turn for every
 * connection and every session.
 *
 * Linux limits the watches of epoll for each user (fs.epoll.max_user_watches). If other programs of
 * the user have taken them all, a new watch gets a GSource of its own, which GLib polls. That is
 * slower with many watches, and needs nothing that could run out.
 *
 * A watch that is freed while events are dispatched may still be in the batch that epoll_wait
 * returned. So it is marked (fd -1) and freed after the batch.
 */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include <glib-unix.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/thread.h"

/* Events handled in one wake-up. The rest is handled in the next, so that other sources get a
 * turn. */
#define MAX_EVENTS 64
/* How long the end of a loop waits for all children that were killed. */
#define REAP_TIMEOUT_MS 500

typedef struct {
    GSource source;
    IpbLoop *loop;
} LoopSource;

struct IpbLoop {
    int references;
    GMainContext *context;
    LoopSource *source;
    LoopSource *timer_source;
    /* IpbTimer, borrowed: a binary heap, the one that is due first at the top */
    GPtrArray *timers;
    uint64_t n_made_timers;
    int epoll_fd;
    int spare_fd;
    int dispatch_depth;
    GPtrArray *freed;        /* IpbWatch, freed during a dispatch */
    GPtrArray *killed;       /* Killed, borrowed: the context owns them */
    IpbParentThread *parent; /* NULL: not needed so far */
};

typedef struct {
    GSource source;
    IpbWatch *watch;
    void *tag; /* of the fd; NULL: paused */
} PollSource;

struct IpbWatch {
    IpbLoop *loop;
    int fd; /* -1: freed */
    uint32_t events;
    bool is_added;      /* to the epoll fd */
    PollSource *polled; /* NULL unless epoll had no watch left */
    IpbWatchFunc func;
    void *data;
};

/* A child that has not ended yet. */
typedef struct {
    IpbLoop *loop; /* NULL: it has ended */
    int pidfd;
    GSource *source; /* owns this; borrowed */
    void (*done)(void *data);
    void *data;
} Killed;

/* Events are passed on as they are. */
G_STATIC_ASSERT((int) EPOLLIN == G_IO_IN && (int) EPOLLOUT == G_IO_OUT);
G_STATIC_ASSERT((int) EPOLLERR == G_IO_ERR && (int) EPOLLHUP == G_IO_HUP);

struct IpbTimer {
    IpbLoop *loop;
    /* µs of monotonic time */
    int64_t due;
    /* Timers that are due at the same time fire in the order in which they were made. */
    uint64_t number;
    guint index; /* in the heap */
    bool is_waiting;
    IpbTimerFunc func;
    void *data;
};

static void
flush_freed(IpbLoop *loop)
{
    if (loop->dispatch_depth == 0 && loop->freed->len > 0)
        g_ptr_array_set_size(loop->freed, 0);
}

static gboolean
on_epoll_ready(GSource *source, GSourceFunc callback, gpointer data)
{
    IpbLoop *loop = ipb_loop_ref(((LoopSource *) source)->loop);
    struct epoll_event events[MAX_EVENTS];
    int n = epoll_wait(loop->epoll_fd, events, MAX_EVENTS, 0);
    loop->dispatch_depth++;
    for (int i = 0; i < n; i++) {
        IpbWatch *watch = events[i].data.ptr;
        /* A callback earlier in this batch may have paused or freed it. */
        if (watch->fd >= 0 && watch->events != 0)
            watch->func(events[i].events, watch->data);
    }
    loop->dispatch_depth--;
    flush_freed(loop);
    ipb_loop_unref(loop);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs epoll_source_funcs = {.dispatch = on_epoll_ready};

static gboolean
on_poll_ready(GSource *source, GSourceFunc callback, gpointer data)
{
    PollSource *polled = (PollSource *) source;
    IpbWatch *watch = polled->watch;
    IpbLoop *loop = ipb_loop_ref(watch->loop);
    /* It may have been paused since the poll, or paused and continued. */
    GIOCondition events =
        polled->tag != NULL ? g_source_query_unix_fd(source, polled->tag) : (GIOCondition) 0;
    loop->dispatch_depth++;
    if (events != 0)
        watch->func((uint32_t) events, watch->data);
    loop->dispatch_depth--;
    flush_freed(loop);
    ipb_loop_unref(loop);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs poll_source_funcs = {.dispatch = on_poll_ready};

/* A paused fd is not polled at all: poll() always reports errors and hang-ups. */
static void
poll_for(IpbWatch *watch)
{
    GSource *source = &watch->polled->source;
    if (watch->polled->tag != NULL)
        g_source_remove_unix_fd(source, watch->polled->tag);
    watch->polled->tag = watch->events != 0
                             ? g_source_add_unix_fd(source, watch->fd, (GIOCondition) watch->events)
                             : NULL;
}

static void
poll_instead(IpbWatch *watch)
{
    GSource *source = g_source_new(&poll_source_funcs, sizeof(PollSource));
    g_source_set_name(source, "ipybox poll");
    watch->polled = (PollSource *) source;
    watch->polled->watch = watch;
    poll_for(watch);
    g_source_attach(source, watch->loop->context);
}

/* --- timers ----------------------------------------------------------------------------------- */

static bool
is_before(const IpbTimer *a, const IpbTimer *b)
{
    return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static IpbTimer *
get_timer(const IpbLoop *loop, guint index)
{
    return g_ptr_array_index(loop->timers, index);
}

static void
put_timer(IpbLoop *loop, IpbTimer *timer, guint index)
{
    g_ptr_array_index(loop->timers, index) = timer;
    timer->index = index;
}

static void
move_up(IpbLoop *loop, IpbTimer *timer)
{
    guint index = timer->index;
    while (index > 0 && is_before(timer, get_timer(loop, (index - 1) / 2))) {
        put_timer(loop, get_timer(loop, (index - 1) / 2), index);
        index = (index - 1) / 2;
    }
    put_timer(loop, timer, index);
}

static void
move_down(IpbLoop *loop, IpbTimer *timer)
{
    guint index = timer->index;
    for (;;) {
        guint child = 2 * index + 1;
        if (child + 1 < loop->timers->len &&
            is_before(get_timer(loop, child + 1), get_timer(loop, child)))
            child++;
        if (child >= loop->timers->len || !is_before(get_timer(loop, child), timer))
            break;
        put_timer(loop, get_timer(loop, child), index);
        index = child;
    }
    put_timer(loop, timer, index);
}

static void
remove_timer(IpbLoop *loop, IpbTimer *timer)
{
    IpbTimer *last = get_timer(loop, loop->timers->len - 1);
    timer->is_waiting = false;
    g_ptr_array_set_size(loop->timers, (gint) loop->timers->len - 1);
    if (last == timer)
        return;
    put_timer(loop, last, timer->index);
    move_up(loop, last);
    move_down(loop, last);
}

static gboolean
check_timers(GSource *source)
{
    const IpbLoop *loop = ((LoopSource *) source)->loop;
    return loop->timers->len > 0 && get_timer(loop, 0)->due <= g_source_get_time(source);
}

static gboolean
prepare_timers(GSource *source, gint *ret_timeout_ms)
{
    const IpbLoop *loop = ((LoopSource *) source)->loop;
    *ret_timeout_ms = -1;
    if (loop->timers->len == 0)
        return FALSE;
    int64_t left_us = get_timer(loop, 0)->due - g_source_get_time(source);
    *ret_timeout_ms = (gint) CLAMP((left_us + 999) / 1000, 0, G_MAXINT);
    return left_us <= 0;
}

/* A timer that a callback makes waits for the loop's next turn, even if it has no delay. */
static gboolean
on_timers_due(GSource *source, GSourceFunc callback, gpointer data)
{
    IpbLoop *loop = ipb_loop_ref(((LoopSource *) source)->loop);
    int64_t now = g_source_get_time(source);
    uint64_t n_made = loop->n_made_timers;
    while (loop->timers->len > 0) {
        IpbTimer *timer = get_timer(loop, 0);
        if (timer->due > now || timer->number > n_made)
            break;
        remove_timer(loop, timer);
        timer->func(timer->data); /* may free the timer */
    }
    ipb_loop_unref(loop);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs timer_source_funcs = {
    .prepare = prepare_timers,
    .check = check_timers,
    .dispatch = on_timers_due,
};

IpbTimer *
ipb_timer_new(IpbLoop *loop, unsigned delay_ms, IpbTimerFunc func, void *data)
{
    IpbTimer *timer = g_new(IpbTimer, 1);
    *timer = (IpbTimer){
        .loop = ipb_loop_ref(loop),
        .due = g_get_monotonic_time() + delay_ms * INT64_C(1000),
        .number = ++loop->n_made_timers,
        .index = loop->timers->len,
        .is_waiting = true,
        .func = func,
        .data = data,
    };
    g_ptr_array_add(loop->timers, timer);
    move_up(loop, timer);
    return timer;
}

void
ipb_timer_free(IpbTimer *timer)
{
    if (timer == NULL)
        return;
    if (timer->is_waiting)
        remove_timer(timer->loop, timer);
    ipb_loop_unref(timer->loop);
    g_free(timer);
}

/* --- children that were killed ---------------------------------------------------------------- */

static gboolean
on_killed_ended(int pidfd, GIOCondition condition, void *data)
{
    return ipb_pidfd_reap(pidfd) ? G_SOURCE_REMOVE : G_SOURCE_CONTINUE;
}

static void
free_killed(void *data)
{
    Killed *killed = data;
    if (killed->loop != NULL)
        g_ptr_array_remove_fast(killed->loop->killed, killed);
    ipb_fd_close(&killed->pidfd);
    killed->done(killed->data);
    g_free(killed);
}

void
ipb_loop_reap(IpbLoop *loop, int pidfd, void (*done)(void *data), void *data)
{
    Killed *killed = g_new(Killed, 1);
    g_autoptr(GSource) source = g_unix_fd_source_new(pidfd, G_IO_IN);
    *killed = (Killed){loop, pidfd, source, done, data};
    g_ptr_array_add(loop->killed, killed);
    /* GLib casts to the type of callback that the source calls. */
    g_source_set_callback(source, G_SOURCE_FUNC(on_killed_ended), killed, free_killed);
    g_source_attach(source, loop->context);
}

static void
await_killed(IpbLoop *loop)
{
    int64_t over = g_get_monotonic_time() + REAP_TIMEOUT_MS * INT64_C(1000);
    while (loop->killed->len > 0) {
        Killed *killed = g_ptr_array_steal_index_fast(loop->killed, loop->killed->len - 1);
        int64_t left_ms = MAX(over - g_get_monotonic_time(), 0) / 1000;
        killed->loop = NULL;
        if (ipb_fd_wait(killed->pidfd, POLLIN, (unsigned) left_ms) && ipb_pidfd_reap(killed->pidfd))
            g_source_destroy(killed->source); /* frees it */
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

IpbLoop *
ipb_loop_new(GMainContext *context, GError **error)
{
    ipb_autofd epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) {
        ipb_error_set_errno(error, errno, "cannot make an epoll fd");
        return NULL;
    }
    IpbLoop *loop = g_new0(IpbLoop, 1);
    loop->references = 1;
    loop->context = g_main_context_ref(context != NULL ? context : g_main_context_default());
    loop->freed = g_ptr_array_new_with_free_func(g_free);
    loop->killed = g_ptr_array_new();
    loop->source = (LoopSource *) g_source_new(&epoll_source_funcs, sizeof(LoopSource));
    loop->source->loop = loop;
    loop->epoll_fd = ipb_fd_steal(&epoll_fd);
    loop->spare_fd = -1;
    ipb_loop_take_spare_fd(loop);
    g_source_set_name(&loop->source->source, "ipybox epoll");
    g_source_add_unix_fd(&loop->source->source, loop->epoll_fd, G_IO_IN);
    g_source_attach(&loop->source->source, loop->context);
    loop->timers = g_ptr_array_new();
    loop->timer_source = (LoopSource *) g_source_new(&timer_source_funcs, sizeof(LoopSource));
    loop->timer_source->loop = loop;
    /* A callback may run the context, and timers fire there, too. */
    g_source_set_can_recurse(&loop->timer_source->source, TRUE);
    g_source_set_name(&loop->timer_source->source, "ipybox timers");
    g_source_attach(&loop->timer_source->source, loop->context);
    return loop;
}

IpbLoop *
ipb_loop_ref(IpbLoop *loop)
{
    loop->references++;
    return loop;
}

void
ipb_loop_unref(IpbLoop *loop)
{
    if (loop == NULL || --loop->references > 0)
        return;
    await_killed(loop);
    g_ptr_array_unref(loop->killed);
    g_source_destroy(&loop->timer_source->source);
    g_source_unref(&loop->timer_source->source);
    g_ptr_array_unref(loop->timers);
    g_source_destroy(&loop->source->source);
    g_source_unref(&loop->source->source);
    ipb_fd_close(&loop->epoll_fd);
    ipb_fd_close(&loop->spare_fd);
    ipb_parent_thread_free(loop->parent);
    g_ptr_array_unref(loop->freed);
    g_main_context_unref(loop->context);
    g_free(loop);
}

GMainContext *
ipb_loop_context(IpbLoop *loop)
{
    return loop->context;
}

bool
ipb_loop_run_as_parent(IpbLoop *loop, void (*func)(void *data), void *data, GError **error)
{
    if (ipb_parent_thread_is_main()) {
        func(data);
        return true;
    }
    if (loop->parent == NULL)
        loop->parent = ipb_parent_thread_new(error);
    if (loop->parent == NULL)
        return false;
    ipb_parent_thread_run(loop->parent, func, data);
    return true;
}

bool
ipb_loop_give_spare_fd(IpbLoop *loop)
{
    bool is_there = loop->spare_fd >= 0;
    ipb_fd_close(&loop->spare_fd);
    return is_there;
}

void
ipb_loop_take_spare_fd(IpbLoop *loop)
{
    if (loop->spare_fd < 0)
        loop->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* epoll reports errors and hang-ups even if no events are requested. Edge-triggered, it reports
 * them once for a paused fd, and on_epoll_ready ignores them. Removing the fd from epoll instead
 * would need memory when it is added again. */
static uint32_t
epoll_events(uint32_t events)
{
    return events != 0 ? events : EPOLLET;
}

IpbWatch *
ipb_watch_new(IpbLoop *loop, int fd, uint32_t events, IpbWatchFunc func, void *data, GError **error)
{
    IpbWatch *watch = g_new0(IpbWatch, 1);
    struct epoll_event event = {.events = epoll_events(events), .data.ptr = watch};
    /* Added even without events to wait for, because adding it later could fail for lack of memory.
     * An fd that is only written may be a file, which epoll refuses and which is always ready. */
    bool is_added = epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
    bool is_used_up = !is_added && errno == ENOSPC;
    if (!is_added && !is_used_up && (events != 0 || errno != EPERM)) {
        ipb_error_set_errno(error, errno, "cannot watch fd %d", fd);
        g_free(watch);
        return NULL;
    }
    *watch = (IpbWatch){ipb_loop_ref(loop), fd, events, is_added, NULL, func, data};
    if (is_used_up)
        poll_instead(watch);
    return watch;
}

void
ipb_watch_set_events(IpbWatch *watch, uint32_t events)
{
    if (watch->events == events)
        return;
    struct epoll_event event = {.events = epoll_events(events), .data.ptr = watch};
    watch->events = events;
    if (watch->polled != NULL)
        poll_for(watch);
    else if (!watch->is_added ||
             epoll_ctl(watch->loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) < 0)
        g_critical("epoll_ctl on fd %d: %s", watch->fd,
                   g_strerror(errno)); /* a file, or an fd closed too early: a bug */
}

void
ipb_watch_free(IpbWatch *watch)
{
    if (watch == NULL)
        return;
    IpbLoop *loop = watch->loop;
    if (watch->is_added)
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    if (watch->polled != NULL) {
        g_source_destroy(&watch->polled->source);
        g_source_unref(&watch->polled->source);
    }
    watch->events = 0;
    watch->fd = -1;
    if (loop->dispatch_depth > 0)
        g_ptr_array_add(loop->freed, watch);
    else
        g_free(watch);
    ipb_loop_unref(loop);
}
