/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbZmqConnection: a connection file of Jupyter, which says where a kernel listens, and the key of
 * its messages. Plain struct; the caller clears it.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef enum {
    IPB_ZMQ_SHELL,
    IPB_ZMQ_IOPUB,
    IPB_ZMQ_STDIN,
    IPB_ZMQ_CONTROL,
    IPB_ZMQ_HEARTBEAT,
    IPB_ZMQ_N_CHANNELS,
} IpbZmqChannel;

typedef struct {
    char *addresses[IPB_ZMQ_N_CHANNELS]; /* "tcp://127.0.0.1:5555", "ipc:///path-1" */
    char *key;
} IpbZmqConnection;

/* Reads the file, which is the front end's. Errors: NOT_FOUND, INVALID (another scheme than
 * hmac-sha256, no key, no address), LIMIT. */
bool ipb_zmq_connection_read(const char *path, IpbZmqConnection *ret_connection, GError **error);
void ipb_zmq_connection_clear(IpbZmqConnection *connection);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbZmqConnection, ipb_zmq_connection_clear)
