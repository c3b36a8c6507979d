/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLifeline: the life of a server that a program started for itself: it ends with standard input, if that is a pipe or a socket, and
 * with the process that started it (a child that this one forked may hold the pipe open). Started from a terminal, by an init or
 * with /dev/null it lives until it gets a signal.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbLifeline IpbLifeline;

/* @on_end at most once, from the loop. */
IpbLifeline *ipb_lifeline_new(IpbLoop *loop, void (*on_end)(void *data), void *data,
                              GError **error);
/* Hangs on the process that started us alone: standard input is somebody else's. */
IpbLifeline *ipb_lifeline_new_of_parent(IpbLoop *loop, void (*on_end)(void *data), void *data,
                                        GError **error);
void ipb_lifeline_free(IpbLifeline *lifeline);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbLifeline, ipb_lifeline_free)
