/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbAcceptor: takes connections off a listening socket. When the process has no fds left it stands still for a moment, since the
 * socket stays readable and the loop would do nothing else.
 *
 * Ownership: the owner frees it.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbAcceptor IpbAcceptor;

/* @fd: accepted, non-blocking, close-on-exec, the receiver's. May free the acceptor. */
typedef void (*IpbAcceptorFunc)(int fd, void *data);

/* @listener: the new object's, whatever becomes of the call; it is made non-blocking. */
IpbAcceptor *ipb_acceptor_new(IpbLoop *loop, int listener, IpbAcceptorFunc func, void *data,
                              GError **error);
void ipb_acceptor_free(IpbAcceptor *acceptor);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbAcceptor, ipb_acceptor_free)
