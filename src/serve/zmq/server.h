/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbZmqServer: one kernel for the front end that started this process, over ZeroMQ: Jupyter's
 * kernel protocol (docs/internals/gateway.md#zeromq). Who signs with the key of the connection file
 * may run code; what is not signed is dropped before it is parsed.
 *
 * Ownership: the owner frees it, after _close if it wants an orderly end.
 */
#pragma once

#include "serve/zmq/connection.h"
#include "session/session.h"

typedef struct IpbZmqServer IpbZmqServer;

typedef struct {
    IpbRuntime *runtime;
    /* of the kernel; on_event and data are replaced */
    const IpbSessionOptions *session;
    const IpbZmqConnection *connection;
    void (*on_log)(const char *level, const char *text, void *data);
    /* Called once: the front end shut the kernel down (@why is NULL), or it has died or could not
     * be started. Close the server. */
    void (*on_end)(const GError *why, void *data);
    void *data;
} IpbZmqServerOptions;

IpbZmqServer *ipb_zmq_server_new(const IpbZmqServerOptions *options, GError **error);
/* Interrupts the running cell, if any. */
void ipb_zmq_server_interrupt(IpbZmqServer *server);
/* @done from the loop. */
void ipb_zmq_server_close(IpbZmqServer *server, void (*done)(void *data), void *data);
void ipb_zmq_server_free(IpbZmqServer *server);
