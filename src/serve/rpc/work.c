/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the client that are answered later; see private.h. They are known by their ids, so that they can be cancelled.
 */
#include "base/error.h"
#include "serve/rpc/private.h"

void
ipb_rpc_work_free(IpbRpcWork *work)
{
    ipb_rpc_request_unref(work->request);
    if (work->free_data != NULL)
        work->free_data(work->data);
    g_free(work->client);
    g_free(work);
}

IpbRpcWork *
ipb_rpc_work_new(IpbRpcServer *server, IpbRpcSession *session, IpbRpcRequest *request)
{
    IpbRpcWork *work = g_new0(IpbRpcWork, 1);
    work->server = server;
    work->session = session;
    work->request = ipb_rpc_request_ref(request);
    g_hash_table_insert(server->works, (char *) ipb_rpc_request_id(work->request), work);
    return work;
}

static void
forget(IpbRpcWork *work)
{
    g_hash_table_remove(work->server->works, ipb_rpc_request_id(work->request)); /* frees it */
}

void
ipb_rpc_work_reply(IpbRpcWork *work, IpbJsonWriter *writer)
{
    ipb_rpc_server_reply(work->request, writer);
    forget(work);
}

void
ipb_rpc_work_reply_nothing(IpbRpcWork *work)
{
    ipb_rpc_server_reply_nothing(work->request);
    forget(work);
}

void
ipb_rpc_work_fail(IpbRpcWork *work, const GError *error)
{
    ipb_rpc_server_fail(work->request, error);
    forget(work);
}

void
ipb_rpc_work_fail_all(IpbRpcServer *server, const IpbRpcSession *session, const GError *why)
{
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, server->works);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        IpbRpcWork *work = value;
        if (session != NULL && work->session != session)
            continue;
        ipb_rpc_server_fail(work->request, why);
        g_hash_table_iter_remove(&iter);
    }
}

void
ipb_rpc_work_cancel(IpbRpcServer *server, const IpbJson *id)
{
    IpbSpan raw = ipb_json_raw(id);
    g_autofree char *text = g_strndup(raw.start, raw.size);
    if (ipb_rpc_server_cancel_held(server, text))
        return;
    IpbRpcWork *work = g_hash_table_lookup(server->works, text);
    if (work == NULL || work->is_cancelled || work->cancel == NULL)
        return;
    work->is_cancelled = true;
    work->cancel(work); /* may free it */
}
