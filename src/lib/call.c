/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations under way; see the header.
 */
#include "lib/call.h"

#include "lib/block.h"

IpbCall *
ipb_call_new(GMainContext *context, void *tag, GAsyncReadyCallback callback, gpointer user_data)
{
    IpbCall *call = g_new0(IpbCall, 1);
    call->references = 1;
    call->context = g_main_context_ref(context);
    call->tag = tag;
    call->callback = callback;
    call->user_data = user_data;
    return call;
}

IpbCall *
ipb_call_ref(IpbCall *call)
{
    call->references++;
    return call;
}

static void
stop_watching(IpbCall *call)
{
    if (call->cancel_source == NULL)
        return;
    g_source_destroy(call->cancel_source);
    g_clear_pointer(&call->cancel_source, g_source_unref);
}

void
ipb_call_unref(IpbCall *call)
{
    if (--call->references > 0)
        return;
    stop_watching(call);
    if (call->free_data != NULL)
        call->free_data(call->data);
    g_main_context_unref(call->context);
    g_free(call);
}

static gboolean
on_cancelled(GCancellable *cancellable, gpointer data)
{
    g_autoptr(IpbCall) call = ipb_call_ref(data);
    call->on_cancel(call); /* may end it */
    return G_SOURCE_REMOVE;
}

void
ipb_call_watch(IpbCall *call, GCancellable *cancellable, void (*on_cancel)(IpbCall *call))
{
    if (cancellable == NULL)
        return;
    call->on_cancel = on_cancel;
    call->cancel_source = g_cancellable_source_new(cancellable);
    g_source_set_callback(call->cancel_source, G_SOURCE_FUNC(on_cancelled), call, NULL);
    g_source_attach(call->cancel_source, call->context);
}

static void
on_task_ready(GObject *source, GAsyncResult *result, gpointer data)
{
    IpbCall *call = data;
    if (call->callback != NULL) {
        ipb_block_enter_callback();
        call->callback(NULL, result, call->user_data);
        ipb_block_leave_callback();
    }
    ipb_call_unref(call);
}

/* The task that reports the end; NULL: the call has ended already. A task belongs to the context
 * that is the thread's default when it is created. If it is created and returned in one iteration
 * of the loop, it reports in the next one. */
static GTask *
make_task(IpbCall *call)
{
    if (call->has_ended)
        return NULL;
    call->has_ended = true;
    stop_watching(call);
    g_main_context_push_thread_default(call->context);
    GTask *task = g_task_new(NULL, NULL, on_task_ready, ipb_call_ref(call));
    g_main_context_pop_thread_default(call->context);
    g_task_set_source_tag(task, call->tag);
    return task;
}

void
ipb_call_return(IpbCall *call, gpointer value, GDestroyNotify free_value)
{
    g_autoptr(GTask) task = make_task(call);
    if (task != NULL)
        g_task_return_pointer(task, value, free_value);
    else if (free_value != NULL)
        free_value(value);
}

void
ipb_call_return_error(IpbCall *call, GError *error)
{
    g_autoptr(GTask) task = make_task(call);
    if (task != NULL)
        g_task_return_error(task, error);
    else
        g_error_free(error);
}

void
ipb_call_return_copy(IpbCall *call, const GError *error)
{
    ipb_call_return_error(call, g_error_copy(error));
}

gpointer
ipb_call_finish(GAsyncResult *result, void *tag, GError **error)
{
    g_return_val_if_fail(g_task_is_valid(result, NULL), NULL);
    g_return_val_if_fail(g_async_result_is_tagged(result, tag), NULL);
    return g_task_propagate_pointer(G_TASK(result), error);
}
