/* SPDX-License-Identifier: Apache-2.0
 *
 * The peer's life and its calls. Every call goes through the same three states: in @calls while it
 * waits, in @ended once its answer is known, gone once its function was told. A call that ends is
 * told at once, unless ipb_rpc_call is being run (its callback must not run within) or the call was
 * cancelled: then from the loop.
 */
#include "json/rpc-private.h"

#include <string.h>

#include "base/error.h"

/* Calls that wait for an answer. */
#define MAX_PENDING_CALLS 10000

struct IpbRpcCall {
    IpbRpcPeer *peer;
    int64_t id;
    char *method;
    unsigned timeout_ms;
    IpbTimer *timer;
    IpbRpcAnswerFunc func;
    void *data;
    /* Once it has ended: */
    IpbJsonDoc *doc;
    const IpbJson *result, *rpc_error;
    GError *failure;
};

static void
free_call(IpbRpcCall *call)
{
    ipb_timer_free(call->timer);
    ipb_json_doc_free(call->doc);
    g_clear_error(&call->failure);
    g_free(call->method);
    g_free(call);
}

IpbRpcPeer *
ipb_rpc_peer_ref(IpbRpcPeer *peer)
{
    peer->references++;
    return peer;
}

void
ipb_rpc_peer_unref(IpbRpcPeer *peer)
{
    if (--peer->references > 0)
        return;
    g_hash_table_unref(peer->calls);
    ipb_loop_unref(peer->loop);
    g_free(peer);
}

IpbRpcPeer *
ipb_rpc_peer_new(IpbLoop *loop, const IpbRpcPeerOptions *options, const IpbRpcPeerFuncs *funcs,
                 void *data)
{
    IpbRpcPeer *peer = g_new0(IpbRpcPeer, 1);
    peer->references = 1;
    peer->loop = ipb_loop_ref(loop);
    peer->options = *options;
    peer->funcs = *funcs;
    peer->data = data;
    peer->calls = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_queue_init(&peer->ended);
    return peer;
}

static void
tell(IpbRpcCall *call)
{
    IpbRpcAnswer answer = {
        .result = call->result,
        .rpc_error = call->rpc_error,
        .failure = call->failure,
        .document = &call->doc,
    };
    if (call->func != NULL)
        call->func(&answer, call->data);
    free_call(call);
}

static void tell_later(IpbRpcPeer *peer);

/* Tells the calls that have ended by now. Those that end meanwhile, because a callback calls again
 * without success, wait for the loop. */
static void
tell_ended(IpbRpcPeer *peer)
{
    ipb_rpc_peer_ref(peer);
    IpbRpcCall *call;
    for (guint n = peer->ended.length; n > 0 && (call = g_queue_pop_head(&peer->ended)); n--)
        tell(call);
    tell_later(peer);
    ipb_rpc_peer_unref(peer);
}

static void
on_ended_timer(void *data)
{
    IpbRpcPeer *peer = data;
    g_clear_pointer(&peer->ended_timer, ipb_timer_free);
    tell_ended(peer);
}

static void
tell_later(IpbRpcPeer *peer)
{
    if (peer->ended.length > 0 && peer->ended_timer == NULL && !peer->is_freed)
        peer->ended_timer = ipb_timer_new(peer->loop, 0, on_ended_timer, peer);
}

static void
tell_now_or_later(IpbRpcPeer *peer)
{
    if (peer->calling > 0)
        tell_later(peer);
    else
        tell_ended(peer);
}

/* From waiting to ended, with nothing told yet. Takes @failure. */
static void
fail_call(IpbRpcCall *call, GError *failure)
{
    g_hash_table_remove(call->peer->calls, &call->id);
    g_clear_pointer(&call->timer, ipb_timer_free);
    call->failure = failure;
    g_queue_push_tail(&call->peer->ended, call);
}

void
ipb_rpc_peer_end_call(IpbRpcPeer *peer, IpbRpcCall *call, IpbJsonDoc *doc, const IpbJson *result,
                      const IpbJson *rpc_error, GError *failure)
{
    call->doc = doc;
    call->result = result;
    call->rpc_error = rpc_error;
    fail_call(call, failure);
    tell_now_or_later(peer);
}

static int
compare_calls(const void *a, const void *b)
{
    const IpbRpcCall *one = a, *other = b;
    return one->id < other->id ? -1 : one->id > other->id;
}

/* All waiting calls, the oldest first. */
static void
fail_all(IpbRpcPeer *peer, const GError *why)
{
    g_autoptr(GList) calls = g_list_sort(g_hash_table_get_values(peer->calls), compare_calls);
    for (GList *item = calls; item != NULL; item = item->next)
        fail_call(item->data, g_error_copy(why));
}

void
ipb_rpc_peer_free(IpbRpcPeer *peer)
{
    if (peer == NULL)
        return;
    g_autoptr(GError) why =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the connection was closed here");
    peer->is_freed = true;
    g_clear_pointer(&peer->ended_timer, ipb_timer_free);
    fail_all(peer, why);
    for (IpbRpcCall *call; (call = g_queue_pop_head(&peer->ended)) != NULL;)
        tell(call);
    ipb_rpc_peer_unref(peer);
}

IpbJsonWriter *
ipb_rpc_peer_begin_message(void)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "jsonrpc", "2.0");
    return writer;
}

void
ipb_rpc_peer_send(IpbRpcPeer *peer, IpbJsonWriter *writer)
{
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    if (!peer->is_freed)
        peer->funcs.send(text, size, peer->data);
}

static void
write_method(IpbJsonWriter *writer, const char *method, const char *params_json)
{
    ipb_json_member_string(writer, "method", method);
    if (params_json != NULL) {
        ipb_json_key(writer, "params");
        ipb_json_write_raw(writer, params_json, strlen(params_json));
    }
}

static void
on_timeout(void *data)
{
    IpbRpcCall *call = data;
    GError *failure =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT, "no answer to %s within %g seconds",
                    call->method, call->timeout_ms / 1000.0);
    ipb_rpc_peer_end_call(call->peer, call, NULL, NULL, NULL, failure);
}

static void
restart_timer(IpbRpcCall *call)
{
    g_clear_pointer(&call->timer, ipb_timer_free);
    if (call->timeout_ms > 0)
        call->timer = ipb_timer_new(call->peer->loop, call->timeout_ms, on_timeout, call);
}

/* Why a call cannot even be sent; NULL if it can. */
static GError *
refuse_call(IpbRpcPeer *peer)
{
    if (peer->is_freed)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the connection was closed here");
    if (g_hash_table_size(peer->calls) >= MAX_PENDING_CALLS)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                           "%d calls wait for their answers already", MAX_PENDING_CALLS);
    return NULL;
}

int64_t
ipb_rpc_call(IpbRpcPeer *peer, const char *method, const char *params_json, unsigned timeout_ms,
             IpbRpcAnswerFunc func, void *data)
{
    IpbRpcCall *call = g_new0(IpbRpcCall, 1);
    int64_t id = ++peer->last_id;
    *call = (IpbRpcCall){
        .peer = peer,
        .id = id,
        .method = g_strdup(method),
        .timeout_ms = timeout_ms,
        .func = func,
        .data = data,
    };
    GError *refused = refuse_call(peer);
    if (refused != NULL) {
        fail_call(call, refused);
        tell_later(peer);
        return id;
    }
    g_hash_table_insert(peer->calls, &call->id, call);
    restart_timer(call);

    IpbJsonWriter *writer = ipb_rpc_peer_begin_message();
    ipb_json_member_int(writer, "id", id);
    write_method(writer, method, params_json);
    ipb_rpc_peer_ref(peer);
    peer->calling++;
    ipb_rpc_peer_send(peer, writer); /* may receive the answer, even free */
    peer->calling--;
    ipb_rpc_peer_unref(peer);
    return id;
}

IpbRpcCall *
ipb_rpc_peer_find_call(IpbRpcPeer *peer, int64_t id)
{
    return g_hash_table_lookup(peer->calls, &id);
}

bool
ipb_rpc_cancel(IpbRpcPeer *peer, int64_t id)
{
    IpbRpcCall *call = ipb_rpc_peer_find_call(peer, id);
    if (call == NULL)
        return false;
    fail_call(call,
              g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "%s was cancelled", call->method));
    tell_later(peer);
    return true;
}

bool
ipb_rpc_fail(IpbRpcPeer *peer, int64_t id, const GError *why)
{
    IpbRpcCall *call = ipb_rpc_peer_find_call(peer, id);
    if (call == NULL)
        return false;
    ipb_rpc_peer_end_call(peer, call, NULL, NULL, NULL, g_error_copy(why));
    return true;
}

int64_t
ipb_rpc_next_id(const IpbRpcPeer *peer)
{
    return peer->last_id + 1;
}

void
ipb_rpc_call_touch(IpbRpcPeer *peer, int64_t id)
{
    IpbRpcCall *call = ipb_rpc_peer_find_call(peer, id);
    if (call != NULL)
        restart_timer(call);
}

void
ipb_rpc_notify(IpbRpcPeer *peer, const char *method, const char *params_json)
{
    IpbJsonWriter *writer = ipb_rpc_peer_begin_message();
    write_method(writer, method, params_json);
    ipb_rpc_peer_send(peer, writer);
}
