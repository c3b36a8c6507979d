/* SPDX-License-Identifier: Apache-2.0
 *
 * The sessions of `ipybox rpc` while they are open, and their end; see private.h. How they are opened is in open.c.
 */
#include "base/error.h"
#include "serve/rpc/private.h"

IpbRpcSession *
ipb_rpc_session_new(IpbRpcServer *server, IpbRuntime *runtime)
{
    IpbRpcSession *session = g_new0(IpbRpcSession, 1);
    session->server = server;
    session->runtime = runtime;
    session->id = ipb_rpc_server_make_id(server, 's');
    session->questions = g_ptr_array_new();
    session->starting = g_ptr_array_new();
    g_queue_init(&session->cells);
    return session;
}

void
ipb_rpc_session_free(IpbRpcSession *session)
{
    g_autoptr(GError) closed =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session was closed");
    ipb_rpc_approval_forget(session);
    ipb_rpc_ports_free(session->ports);
    ipb_session_free(session->core); /* nothing calls back from here on */
    ipb_rpc_start_forget(session);
    ipb_rpc_work_fail_all(session->server, session, closed);
    g_queue_clear_full(&session->cells, (GDestroyNotify) ipb_rpc_cell_free);
    ipb_rpc_options_free(session->options);
    ipb_rpc_runtimes_give_back(session->server->runtimes, session->runtime);
    g_ptr_array_unref(session->questions);
    g_ptr_array_unref(session->starting);
    g_free(session->id);
    g_free(session);
}

IpbRpcSession *
ipb_rpc_session_find(IpbRpcServer *server, IpbRpcParams *params)
{
    const char *id = ipb_rpc_params_need_string(params, "session");
    if (id == NULL)
        return NULL;
    IpbRpcSession *session = g_hash_table_lookup(server->sessions, id);
    if (session != NULL && !session->is_closing)
        return session;
    if (params->error == NULL)
        g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no session \"%.*s\" is open", 20, id);
    return NULL;
}

void
ipb_rpc_session_apply_pause(IpbRpcSession *session)
{
    if (!session->is_closing)
        ipb_session_set_paused(session->core, session->is_paused || session->server->is_congested);
}

void
ipb_rpc_session_apply_approval(IpbRpcSession *session)
{
    const IpbRpcCell *cell = g_queue_peek_head(&session->cells);
    IpbApprovalPolicy policy = session->asks_for_shell ? IPB_APPROVAL_ASK : session->approval;
    if (cell != NULL)
        ipb_rpc_cell_approval(cell, &policy);
    ipb_session_set_approval(session->core, policy);
}

/* --- while it is open -------------------------------------------------------------------------- */

static void
answer_nothing(IpbRpcRequest *request)
{
    if (request != NULL)
        ipb_rpc_server_reply_nothing(request);
}

static void
set_paused(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params, bool is_paused)
{
    IpbRpcSession *session = ipb_rpc_session_find(server, params);
    if (!ipb_rpc_server_check(request, params))
        return;
    session->is_paused = is_paused;
    ipb_rpc_session_apply_pause(session);
    answer_nothing(request);
}

void
ipb_rpc_session_pause(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(server, request, params, true);
}

void
ipb_rpc_session_resume(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(server, request, params, false);
}

void
ipb_rpc_session_interrupt(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSession *session = ipb_rpc_session_find(server, params);
    if (!ipb_rpc_server_check(request, params))
        return;
    ipb_session_interrupt(session->core);
    answer_nothing(request);
}

void
ipb_rpc_session_cancel(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    const IpbJson *id = ipb_rpc_params_get(params, "request");
    if (!ipb_json_is(id, IPB_JSON_NUMBER) && !ipb_json_is(id, IPB_JSON_STRING))
        ipb_rpc_params_refuse(params, "request", "the id of a request");
    if (!ipb_rpc_server_check(request, params))
        return;
    ipb_rpc_work_cancel(server, id);
    answer_nothing(request);
}

static void
on_reset(void *data)
{
    ipb_rpc_work_reply_nothing(data);
}

void
ipb_rpc_session_reset(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSession *session = ipb_rpc_session_find(server, params);
    if (!ipb_rpc_server_check(request, params))
        return;
    ipb_session_reset(session->core, on_reset, ipb_rpc_work_new(server, session, request));
}

/* --- the end ----------------------------------------------------------------------------------- */

static void
on_closed(void *data)
{
    IpbRpcSession *session = data;
    IpbRpcServer *server = session->server;
    IpbRpcWork *closing = g_steal_pointer(&session->closing);
    if (closing != NULL)
        closing->session = NULL;                        /* or it would fail with the others */
    g_hash_table_remove(server->sessions, session->id); /* frees it */
    if (closing != NULL)
        ipb_rpc_work_reply_nothing(closing);
    ipb_rpc_server_part_closed(server);
}

static void
on_ports_closed(void *data)
{
    IpbRpcSession *session = data;
    ipb_session_close(session->core, on_closed, session);
}

void
ipb_rpc_session_close(IpbRpcSession *session, IpbRpcWork *work)
{
    if (session->is_closing)
        return;
    session->is_closing = true;
    session->closing = work;
    ipb_session_set_paused(session->core, false);
    if (session->ports != NULL)
        ipb_rpc_ports_close(session->ports, on_ports_closed, session);
    else
        ipb_session_close(session->core, on_closed, session);
}

void
ipb_rpc_session_close_method(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSession *session = ipb_rpc_session_find(server, params);
    if (ipb_rpc_server_check(request, params))
        ipb_rpc_session_close(session, ipb_rpc_work_new(server, session, request));
}
