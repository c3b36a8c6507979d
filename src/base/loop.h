/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLoop: all fds of one GMainContext behind one epoll fd in one GSource, and timers. GLib's own
 * poll costs time for every fd at every wake-up; this does not, so thousands of sessions can idle.
 *
 * Ownership: an IpbLoop is reference-counted; each watch and timer keeps a reference to it.
 * Thread: everything here is called in the thread that runs the loop's context.
 * Callbacks may free any watch or timer, their own included.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

typedef struct IpbLoop IpbLoop;
typedef struct IpbWatch IpbWatch;
typedef struct IpbTimer IpbTimer;

/* @events: EPOLLIN, EPOLLOUT; EPOLLERR and EPOLLHUP are always told. */
typedef void (*IpbWatchFunc)(uint32_t events, void *data);
typedef void (*IpbTimerFunc)(void *data);

/* @context: NULL is the default context. */
IpbLoop *ipb_loop_new(GMainContext *context, GError **error);
IpbLoop *ipb_loop_ref(IpbLoop *loop);
void ipb_loop_unref(IpbLoop *loop);
GMainContext *ipb_loop_context(IpbLoop *loop);
/* Runs @func, which forks, and waits for its end: here in the main thread, else in a thread that lasts as long as the loop
 * (base/thread.h). SYSTEM: there can be no such thread. */
bool ipb_loop_run_as_parent(IpbLoop *loop, void (*func)(void *data), void *data, GError **error);
/* An fd number that is kept for the moment when the process has no other left: closes what holds it. What was opened
 * instead must be closed before it is taken back. False: it could not be taken back the last time. */
bool ipb_loop_give_spare_fd(IpbLoop *loop);
void ipb_loop_take_spare_fd(IpbLoop *loop);

/* Watches @fd (borrowed: it must stay open until the watch is freed). One watch per fd.
 * Level-triggered. A regular file cannot be watched: an error. */
IpbWatch *ipb_watch_new(IpbLoop *loop, int fd, uint32_t events, IpbWatchFunc func, void *data,
                        GError **error);
/* 0 pauses the watch; then not even errors and hang-ups are told. */
void ipb_watch_set_events(IpbWatch *watch, uint32_t events);
void ipb_watch_free(IpbWatch *watch);

/* Calls @func once after @delay_ms; the timer must be freed by its owner, before or after. */
IpbTimer *ipb_timer_new(IpbLoop *loop, unsigned delay_ms, IpbTimerFunc func, void *data);
void ipb_timer_free(IpbTimer *timer);

/* For _clear functions and autoptr. */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbLoop, ipb_loop_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbWatch, ipb_watch_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbTimer, ipb_timer_free)
