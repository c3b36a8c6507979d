/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that block. Such a call starts the asynchronous operation, then iterates the context until
 * the operation's callback was called. It is refused from within a callback of the library.
 *
 *     IpbBlock block;
 *     if (!ipb_block_begin(&block, context, error))
 *         return NULL;
 *     ipybox_session_reset_async(session, ipb_block_on_ready, &block);
 *     g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
 *     return ipybox_session_reset_finish(NULL, result, error);
 *
 * Another source of the context may free the object while the call waits, so the call does not use
 * the object afterwards.
 */
#pragma once

#include <stdbool.h>

#include <gio/gio.h>

typedef struct {
    GMainContext *context;
    GAsyncResult *result;
} IpbBlock;

/* False with @error (BUSY): this is called from a callback, or another thread iterates @context. */
bool ipb_block_begin(IpbBlock *block, GMainContext *context, GError **error);
/* The callback for the operation; @data is the IpbBlock. */
void ipb_block_on_ready(GObject *source, GAsyncResult *result, gpointer data);
/* Iterates the context until _on_ready was called. The result is the caller's. */
GAsyncResult *ipb_block_wait(IpbBlock *block);

/* Call these around each call of a function of the program. */
void ipb_block_enter_callback(void);
void ipb_block_leave_callback(void);
bool ipb_block_is_in_callback(void);
