/* SPDX-License-Identifier: Apache-2.0
 *
 * The cells of a session; see <ipybox/session.h>.
 */
#include "base/error.h"
#include "lib/block.h"
#include "lib/lib-private.h"

/* What a call of this kind carries. */
typedef struct {
    IpyboxEventFunc on_event;
    gpointer user_data;
    IpbLibCollector *collector;
} Cell;

static void
free_cell(void *data)
{
    Cell *cell = data;
    ipb_lib_collector_free(cell->collector);
    g_free(cell);
}

static void
on_event(const IpbEvent *event, void *data)
{
    IpbCall *call = data;
    IpyboxSession *session = call->owner;
    Cell *cell = call->data;
    if (!call->is_told)
        ipb_lib_tell_event(session, event, cell->on_event, cell->user_data);
    IpyboxResult *result = ipb_lib_collector_add(cell->collector, event);
    if (result == NULL)
        return;
    ipb_call_return(call, result, (GDestroyNotify) ipybox_result_free);
    ipb_lib_session_forget(session, call);
}

static void
on_cancel(IpbCall *call)
{
    IpyboxSession *session = call->owner;
    ipb_session_cancel(session->core, call->number);
}

static void
start(IpyboxSession *session, IpbCall *call, const char *code, unsigned timeout_ms,
      GCancellable *cancellable)
{
    if (!ipb_lib_session_begin(session, call))
        return;
    g_autoptr(GError) error = NULL;
    if (cancellable != NULL && g_cancellable_is_cancelled(cancellable))
        ipb_call_return(call, ipb_lib_result_new_cancelled(), (GDestroyNotify) ipybox_result_free);
    else
        call->number = ipb_session_execute(session->core, code, timeout_ms, on_event, call, &error);
    if (error != NULL)
        ipb_call_return_copy(call, error);
    if (call->number == 0)
        ipb_lib_session_forget(session, call);
    else
        ipb_call_watch(call, cancellable, on_cancel);
}

void
ipybox_session_execute_async(IpyboxSession *session, const char *code,
                             const IpyboxExecuteOptions *options, GCancellable *cancellable,
                             GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL && code != NULL);
    static const IpyboxExecuteOptions DEFAULTS = IPYBOX_EXECUTE_OPTIONS_INIT;
    if (options == NULL)
        options = &DEFAULTS;
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_execute_async, callback, user_data);
    g_autoptr(GError) error = NULL;
    if (!ipb_lib_check_version(options->version, IPYBOX_EXECUTE_OPTIONS_VERSION,
                               "IpyboxExecuteOptions", &error)) {
        ipb_call_return_copy(call, error);
        return;
    }
    Cell *cell = g_new(Cell, 1);
    *cell = (Cell){
        .on_event = options->on_event,
        .user_data = options->user_data,
        .collector = ipb_lib_collector_new(options->max_text_chars),
    };
    call->data = cell;
    call->free_data = free_cell;
    start(session, call, code, options->timeout_ms, cancellable);
}

IpyboxResult *
ipybox_session_execute_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_execute_async, error);
}

IpyboxResult *
ipybox_session_execute(IpyboxSession *session, const char *code,
                       const IpyboxExecuteOptions *options, GCancellable *cancellable,
                       GError **error)
{
    g_return_val_if_fail(session != NULL && code != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_execute_async(session, code, options, cancellable, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_execute_finish(NULL, result, error);
}
