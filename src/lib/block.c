/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that block; see the header.
 */
#include "lib/block.h"

#include "base/error.h"

/* How many functions of the program, called by the library, are on this thread's stack. They may
 * belong to several runtimes. */
static _Thread_local unsigned callback_depth;

void
ipb_block_enter_callback(void)
{
    callback_depth++;
}

void
ipb_block_leave_callback(void)
{
    callback_depth--;
}

bool
ipb_block_is_in_callback(void)
{
    return callback_depth > 0;
}

bool
ipb_block_begin(IpbBlock *block, GMainContext *context, GError **error)
{
    if (callback_depth > 0) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "a call that blocks was made from within a callback of ipybox: use "
                            "the one whose name ends in _async");
        return false;
    }
    if (!g_main_context_acquire(context)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "another thread iterates the context of this runtime: call it there");
        return false;
    }
    *block = (IpbBlock){.context = g_main_context_ref(context)};
    return true;
}

void
ipb_block_on_ready(GObject *source, GAsyncResult *result, gpointer data)
{
    IpbBlock *block = data;
    block->result = g_object_ref(result);
}

GAsyncResult *
ipb_block_wait(IpbBlock *block)
{
    while (block->result == NULL)
        g_main_context_iteration(block->context, TRUE);
    g_main_context_release(block->context);
    g_main_context_unref(block->context);
    return block->result;
}
