/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLoop: all fds of one GMainContext behind one epoll fd in one GSource, and timers. GLib's own
 * poll takes time for every fd at every wake-up, and epoll does not. So thousands of idle sessions
 * cost almost no time.
 *
 * Ownership: an IpbLoop is reference-counted; each watch and timer keeps a reference to it. Thread:
 * all functions are called in the thread that runs the loop's context. Callbacks may free any watch
 * or timer, including their own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

typedef struct IpbLoop IpbLoop;
typedef struct IpbWatch IpbWatch;
typedef struct IpbTimer IpbTimer;

/* @events: EPOLLIN, EPOLLOUT. EPOLLERR and EPOLLHUP are always reported. */
typedef void (*IpbWatchFunc)(uint32_t events, void *data);
typedef void (*IpbTimerFunc)(void *data);

/* @context: NULL is the default context. */
IpbLoop *ipb_loop_new(GMainContext *context, GError **error);
IpbLoop *ipb_loop_ref(IpbLoop *loop);
void ipb_loop_unref(IpbLoop *loop);
GMainContext *ipb_loop_context(IpbLoop *loop);
/* Runs @func, which forks, and waits until it returns: in this thread if it is the main thread,
 * else in a thread that lives as long as the loop (IpbParentThread). SYSTEM: no thread can be
 * started. */
bool ipb_loop_run_as_parent(IpbLoop *loop, void (*func)(void *data), void *data, GError **error);
/* The loop keeps one fd in reserve, for when the process has no other left. _give closes it, so
 * that another file can be opened. Close that file before _take opens the spare fd again. _give
 * returns false if it could not be opened again the last time. */
bool ipb_loop_give_spare_fd(IpbLoop *loop);
void ipb_loop_take_spare_fd(IpbLoop *loop);

/* Reaps a child that was killed, when it has ended, and then calls @done. Takes @pidfd. A loop that
 * ends waits for all of them together, for a moment; the context, which outlives it, reaps those
 * that take longer. */
void ipb_loop_reap(IpbLoop *loop, int pidfd, void (*done)(void *data), void *data);

/* Watches @fd (borrowed: it must stay open until the watch is freed). One watch for each fd.
 * Level-triggered. A regular file cannot be watched: an error. */
IpbWatch *ipb_watch_new(IpbLoop *loop, int fd, uint32_t events, IpbWatchFunc func, void *data,
                        GError **error);
/* 0 pauses the watch. Then errors and hang-ups are not reported either. */
void ipb_watch_set_events(IpbWatch *watch, uint32_t events);
void ipb_watch_free(IpbWatch *watch);

/* Calls @func once after @delay_ms. The owner must free the timer, before or after that. */
IpbTimer *ipb_timer_new(IpbLoop *loop, unsigned delay_ms, IpbTimerFunc func, void *data);
void ipb_timer_free(IpbTimer *timer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbLoop, ipb_loop_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbWatch, ipb_watch_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbTimer, ipb_timer_free)
