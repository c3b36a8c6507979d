/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that block, and the callbacks from which they are refused. A call blocks by starting the asynchronous operation and
 * iterating the context until its callback was called:
 *
 *     IpbBlock block;
 *     if (!ipb_block_begin(&block, context, error))
 *         return NULL;
 *     ipybox_session_reset_async(session, ipb_block_on_ready, &block);
 *     g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
 *     return ipybox_session_reset_finish(NULL, result, error);
 *
 * The object may be freed meanwhile, by another source of the context, so it is not looked at afterwards.
 */
#pragma once

#include <stdbool.h>

#include <gio/gio.h>

typedef struct {
    GMainContext *context;
    GAsyncResult *result;
} IpbBlock;

/* False with @error (BUSY) from within a callback, and where another thread iterates @context. */
bool ipb_block_begin(IpbBlock *block, GMainContext *context, GError **error);
/* The callback for the operation; @data is the IpbBlock. */
void ipb_block_on_ready(GObject *source, GAsyncResult *result, gpointer data);
/* Iterates the context until _on_ready was called. The result is the caller's. */
GAsyncResult *ipb_block_wait(IpbBlock *block);

/* Around each call of a function of the program. */
void ipb_block_enter_callback(void);
void ipb_block_leave_callback(void);
bool ipb_block_is_in_callback(void);
