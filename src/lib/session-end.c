/* SPDX-License-Identifier: Apache-2.0
 *
 * The ends of a session: closed in order, freed at once, freed from within a callback; see <ipybox/session.h> and
 * lib/lib-private.h.
 */
#include "base/error.h"
#include "lib/block.h"
#include "lib/lib-private.h"

/* --- turns of the context ---------------------------------------------------------------------- */

typedef struct {
    IpyboxSession *session;
    IpbLibTurnFunc func;
    void *data;
    GDestroyNotify free_data;
} Turn;

static void
free_turn(gpointer data)
{
    Turn *turn = data;
    if (turn->free_data != NULL)
        turn->free_data(turn->data);
    ipb_lib_session_unref(turn->session);
    g_free(turn);
}

static gboolean
on_turn(gpointer data)
{
    Turn *turn = data;
    turn->func(turn->session, turn->data);
    return G_SOURCE_REMOVE;
}

void
ipb_lib_session_run_soon(IpyboxSession *session, IpbLibTurnFunc func, void *data,
                         GDestroyNotify free_data)
{
    session->references++;
    Turn *turn = g_new(Turn, 1);
    *turn = (Turn){session, func, data, free_data};
    g_autoptr(GSource) source = g_idle_source_new();
    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, on_turn, turn, free_turn);
    g_source_attach(source, session->context);
}

/* --- the end ----------------------------------------------------------------------------------- */

/* The core goes, and with it what it still had to tell. */
static void
drop_core(IpyboxSession *session)
{
    g_clear_pointer(&session->close_timer, ipb_timer_free);
    g_clear_pointer(&session->core, ipb_session_free);
    g_ptr_array_set_size(session->calls, 0);
    if (session->runtime != NULL)
        g_ptr_array_remove_fast(session->runtime->sessions, session);
    if (session->runtime != NULL && session->is_runtime_waiting)
        ipb_lib_runtime_session_closed(session->runtime);
    session->is_runtime_waiting = false;
    session->runtime = NULL; /* which may end before the program frees the session */
}

static void
on_drop_turn(IpyboxSession *session, void *data)
{
    drop_core(session);
}

static GError *
make_cancelled(const IpyboxSession *session)
{
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "%s was freed",
                       session->is_freed ? "the session" : "the runtime of the session");
}

void
ipb_lib_session_end(IpyboxSession *session)
{
    if (session->core == NULL)
        return;
    session->is_closed = true;
    ipb_lib_drop_approvals(session);
    for (guint i = 0; i < session->calls->len; i++)
        ipb_call_return_error(g_ptr_array_index(session->calls, i), make_cancelled(session));
    if (session->closing != NULL)
        ipb_call_return_error(session->closing, make_cancelled(session));
    g_clear_pointer(&session->closing, ipb_call_unref);
    if (ipb_block_is_in_callback())
        ipb_lib_session_run_soon(session, on_drop_turn, NULL, NULL);
    else
        drop_core(session);
}

/* The end in order is over: from the loop, and nothing of the core is on the stack. */
static void
finish_close(IpyboxSession *session, GError *error)
{
    IpbCall *closing = g_steal_pointer(&session->closing);
    session->references++;
    ipb_lib_drop_approvals(session);
    drop_core(session);
    if (closing != NULL && error != NULL)
        ipb_call_return_error(closing, error);
    else if (closing != NULL)
        ipb_call_return(closing, GINT_TO_POINTER(TRUE), NULL);
    else
        g_clear_error(&error);
    g_clear_pointer(&closing, ipb_call_unref);
    ipb_lib_session_unref(session);
}

static void
on_closed_turn(void *data)
{
    finish_close(data, NULL);
}

static void
on_core_closed(void *data)
{
    IpyboxSession *session = data;
    if (session->runtime == NULL) /* freed meanwhile, and the core goes with it */
        return;
    ipb_timer_free(session->close_timer);
    session->close_timer =
        ipb_timer_new(ipb_runtime_loop(session->runtime->core), 0, on_closed_turn, session);
}

static void
on_close_timeout(void *data)
{
    finish_close(data, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                                   "the session had not ended after %d s: what was left was killed",
                                   IPB_LIB_CLOSE_TIMEOUT_MS / 1000));
}

void
ipb_lib_session_close(IpyboxSession *session)
{
    session->is_closed = true;
    session->close_timer = ipb_timer_new(ipb_runtime_loop(session->runtime->core),
                                         IPB_LIB_CLOSE_TIMEOUT_MS, on_close_timeout, session);
    ipb_session_close(session->core, on_core_closed, session);
}

void
ipybox_session_close_async(IpyboxSession *session, GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_close_async, callback, user_data);
    if (!ipb_lib_session_is_open(session)) {
        ipb_call_return_error(
            call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session is closed already"));
        return;
    }
    session->closing = g_steal_pointer(&call);
    ipb_lib_session_close(session);
}

gboolean
ipybox_session_close_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_close_async, error) != NULL;
}

gboolean
ipybox_session_close(IpyboxSession *session, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return FALSE;
    ipybox_session_close_async(session, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_close_finish(NULL, result, error);
}

void
ipybox_session_free(IpyboxSession *session)
{
    if (session == NULL)
        return;
    session->is_freed = true;
    ipb_lib_session_end(session);
    ipb_lib_session_unref(session);
}
