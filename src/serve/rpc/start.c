/* SPDX-License-Identifier: Apache-2.0
 *
 * session.start: tells when a kernel is ready. That is when it has run a cell without content, which waits behind those that the
 * client gave before. Who does not want to wait longer gets an error; the kernel is waited for on.
 */
#include "base/error.h"
#include "serve/rpc/private.h"

typedef struct {
    IpbRpcSession *session;
    IpbRpcWork *work;
    unsigned timeout_ms;
    IpbTimer *timer;
} Starting;

static void
free_starting(Starting *starting)
{
    g_ptr_array_remove(starting->session->starting, starting);
    ipb_timer_free(starting->timer);
    g_free(starting);
}

void
ipb_rpc_start_forget(IpbRpcSession *session)
{
    while (session->starting->len > 0)
        free_starting(g_ptr_array_index(session->starting, 0));
}

static void
end_starting(Starting *starting, const GError *error)
{
    IpbRpcWork *work = starting->work;
    free_starting(starting);
    if (error != NULL)
        ipb_rpc_work_fail(work, error);
    else
        ipb_rpc_work_reply_nothing(work);
}

static void
on_timeout(void *data)
{
    Starting *starting = data;
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT, "the kernel was not ready within %g s",
                    starting->timeout_ms / 1000.0);
    end_starting(starting, error);
}

static void
cancel_starting(IpbRpcWork *work)
{
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the start was cancelled");
    end_starting(work->data, error);
}

/* What the kernel tells before it runs anything is for people: it is nobody's output. */
static void
on_event(const IpbEvent *event, void *data)
{
    IpbRpcSession *session = data;
    if (event->type == IPB_EVENT_NOTICE || event->type == IPB_EVENT_LATE_OUTPUT)
        ipb_rpc_server_log(session->server, "warning", event->text, session->id);
    if (event->type != IPB_EVENT_DONE)
        return;
    session->start_cell = 0;
    g_autoptr(GError) error = NULL;
    if (event->status != IPB_CELL_OK)
        error =
            g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED, "no kernel could be started: %s",
                        event->text != NULL ? event->text : "its first cell failed");
    while (session->starting->len > 0)
        end_starting(g_ptr_array_index(session->starting, 0), error);
}

void
ipb_rpc_session_start(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSession *session = ipb_rpc_session_find(server, params);
    unsigned timeout_ms = (unsigned) ipb_rpc_params_ms(
        params, "timeout", session != NULL ? session->start_timeout_ms : 0);
    if (!ipb_rpc_server_check(request, params))
        return;
    g_autoptr(GError) error = NULL;
    if (session->start_cell == 0)
        session->start_cell = ipb_session_execute(session->core, "", 0, on_event, session, &error);
    if (session->start_cell == 0) {
        ipb_rpc_server_fail(request, error);
        return;
    }
    Starting *starting = g_new0(Starting, 1);
    starting->session = session;
    starting->work = ipb_rpc_work_new(server, session, request);
    starting->work->data = starting;
    starting->work->cancel = cancel_starting;
    starting->timeout_ms = timeout_ms;
    starting->timer = ipb_timer_new(server->loop, timeout_ms, on_timeout, starting);
    g_ptr_array_add(session->starting, starting);
}
