/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of `ipybox rpc`; see the header.
 */
#include "serve/rpc/client.h"

#include <string.h>

struct IpbRpcClient {
    IpbRpcPeer *peer;
    GHashTable *pending; /* the request's id as JSON text → IpbRpcPending */
    uint64_t last_id;
};

static void
free_pending(void *data)
{
    IpbRpcPending *pending = data;
    ipb_rpc_request_unref(pending->request);
    if (pending->free_data != NULL)
        pending->free_data(pending->data);
    g_free(pending);
}

IpbRpcClient *
ipb_rpc_client_new(IpbRpcPeer *peer)
{
    IpbRpcClient *client = g_new0(IpbRpcClient, 1);
    client->peer = peer;
    client->pending = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_pending);
    return client;
}

void
ipb_rpc_client_free(IpbRpcClient *client)
{
    g_hash_table_unref(client->pending);
    g_free(client);
}

IpbRpcPeer *
ipb_rpc_client_peer(const IpbRpcClient *client)
{
    return client->peer;
}

char *
ipb_rpc_client_make_id(IpbRpcClient *client, char letter)
{
    return g_strdup_printf("%c%" G_GUINT64_FORMAT, letter, (guint64) ++client->last_id);
}

/* --- notifications --------------------------------------------------------------------------- */

void
ipb_rpc_client_notify(IpbRpcClient *client, const char *method, IpbJsonWriter *writer)
{
    g_autofree char *params = ipb_json_writer_finish(writer, NULL);
    ipb_rpc_peer_notify(client->peer, method, params);
}

void
ipb_rpc_client_log(IpbRpcClient *client, const char *level, const char *text, const char *session)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "level", level);
    ipb_json_member_string(writer, "text", text);
    ipb_json_member_string(writer, "session", session);
    ipb_json_end_object(writer);
    ipb_rpc_client_notify(client, "log", writer);
}

void
ipb_rpc_client_log_warning(const char *text, void *client)
{
    ipb_rpc_client_log(client, "warning", text, NULL);
}

IpbJsonWriter *
ipb_rpc_client_begin_event(const char *request_id, const char *type)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "request");
    ipb_json_write_raw(writer, request_id, strlen(request_id));
    ipb_json_key(writer, "event");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "type", type);
    return writer;
}

void
ipb_rpc_client_send_event(IpbRpcClient *client, IpbJsonWriter *writer)
{
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    ipb_rpc_client_notify(client, "session.event", writer);
}

/* --- pending requests ------------------------------------------------------------------------ */

IpbRpcPending *
ipb_rpc_pending_new(IpbRpcClient *client, void *owner, IpbRpcRequest *request)
{
    IpbRpcPending *pending = g_new0(IpbRpcPending, 1);
    pending->client = client;
    pending->owner = owner;
    pending->request = ipb_rpc_request_ref(request);
    g_hash_table_insert(client->pending, (char *) ipb_rpc_request_id(pending->request), pending);
    return pending;
}

static void
forget(IpbRpcPending *pending)
{
    const char *id = ipb_rpc_request_id(pending->request);
    g_hash_table_remove(pending->client->pending, id); /* frees it */
}

void
ipb_rpc_pending_reply(IpbRpcPending *pending, IpbJsonWriter *writer)
{
    ipb_rpc_reply(pending->request, writer);
    forget(pending);
}

void
ipb_rpc_pending_reply_empty(IpbRpcPending *pending)
{
    ipb_rpc_reply_empty(pending->request);
    forget(pending);
}

void
ipb_rpc_pending_reply_tools(IpbRpcPending *pending, const char *const *modules)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "tools");
    ipb_json_begin_array(writer);
    for (; *modules != NULL; modules++)
        ipb_json_write_string(writer, *modules);
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    ipb_rpc_pending_reply(pending, writer);
}

void
ipb_rpc_pending_fail(IpbRpcPending *pending, const GError *error)
{
    ipb_rpc_reply_error(pending->request, error);
    forget(pending);
}

IpbRpcPending *
ipb_rpc_client_find(const IpbRpcClient *client, const char *id)
{
    return g_hash_table_lookup(client->pending, id);
}

void
ipb_rpc_client_cancel(IpbRpcClient *client, const char *id)
{
    IpbRpcPending *pending = g_hash_table_lookup(client->pending, id);
    if (pending == NULL || pending->is_cancelled || pending->cancel == NULL)
        return;
    pending->is_cancelled = true;
    pending->cancel(pending); /* may free it */
}

void
ipb_rpc_client_fail_all(IpbRpcClient *client, const void *owner, const GError *why)
{
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, client->pending);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        IpbRpcPending *pending = value;
        if (pending->owner != owner)
            continue;
        ipb_rpc_reply_error(pending->request, why);
        g_hash_table_iter_remove(&iter);
    }
}
