/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbAcceptor: accepts the connections of a listening socket. If the process has no file
 * descriptors left, it pauses for a moment: the socket stays readable, and the loop would do
 * nothing else.
 *
 * Ownership: the owner frees it.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbAcceptor IpbAcceptor;

/* @fd: the connection, non-blocking and close-on-exec; the callee owns it. May free the
 * acceptor. */
typedef void (*IpbAcceptorFunc)(int fd, void *data);

/* Takes @listener, even if the call fails, and makes it non-blocking. */
IpbAcceptor *ipb_acceptor_new(IpbLoop *loop, int listener, IpbAcceptorFunc func, void *data,
                              GError **error);
void ipb_acceptor_free(IpbAcceptor *acceptor);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbAcceptor, ipb_acceptor_free)
