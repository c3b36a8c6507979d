/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the sockets that a server listens on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

/* A name may have several addresses. */
#define IPB_LISTENER_MAX 4

/* Listens on every address of @host, on one port: @port, or a free one if it is 0. "localhost" is
 * 127.0.0.1 and, if there is IPv6, ::1; an empty name is every address. The caller closes the fds.
 * @ret_is_public: can other machines reach them? */
bool ipb_http_listener_open(const char *host, unsigned port, int ret_fds[IPB_LISTENER_MAX],
                            size_t *ret_n_fds, unsigned *ret_port, bool *ret_is_public,
                            GError **error);

/* What a listening socket is that another program opened. */
typedef struct {
    bool is_unix;
    bool is_public; /* other machines can reach it */
    unsigned port;  /* 0: of a Unix socket */
} IpbListenerInfo;

/* INVALID: @fd is no listening stream socket of TCP or Unix. */
bool ipb_http_listener_examine(int fd, IpbListenerInfo *ret_info, GError **error);
