/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation with a client; see the header.
 *
 * Requests begin in the order of their arrival: while one is held, all that follow are held, too.
 */
#include "serve/conversation.h"

#include <string.h>

#include "base/error.h"

/* Bytes that may wait for the client; above it, the client must read before a request begins. */
#define MAX_PENDING (8u * 1024 * 1024)
/* Bytes and number of held requests; above one of them, the channel is paused. */
#define MAX_HELD (64u * 1024 * 1024)
#define MAX_HELD_REQUESTS 10000

typedef struct {
    /* JSON text; NULL: it is no valid request, and will be answered with an error */
    char *id;
    char *method;
    char *text;
    size_t size;
} Held;

struct IpbConversation {
    IpbMessageChannel *channel;
    IpbRpcPeer *peer;
    /* Held */
    GQueue held;
    size_t held_size;
    bool is_congested;
    bool is_finished;
    IpbConversationFuncs funcs;
    void *data;
};

static void
free_held(Held *held)
{
    g_free(held->id);
    g_free(held->method);
    g_free(held->text);
    g_free(held);
}

/* --- what the client sends -------------------------------------------------------------------- */

static void
pause_if_full(IpbConversation *conversation)
{
    bool is_full = conversation->held_size > MAX_HELD ||
                   g_queue_get_length(&conversation->held) > MAX_HELD_REQUESTS;
    conversation->channel->ops->set_paused(conversation->channel, is_full);
}

static void
receive_held(IpbConversation *conversation, GList *link)
{
    Held *held = link->data;
    conversation->held_size -= held->size;
    g_queue_delete_link(&conversation->held, link);
    ipb_rpc_peer_receive(conversation->peer, held->text, held->size);
    free_held(held);
}

/* Requests are held. So are malformed messages, because they are answered as well. */
static bool
must_be_held(const IpbJson *message)
{
    if (!ipb_json_is(message, IPB_JSON_OBJECT))
        return true;
    if (ipb_json_get(message, "method") != NULL)
        return ipb_json_get(message, "id") != NULL;
    return ipb_json_get(message, "result") == NULL && ipb_json_get(message, "error") == NULL;
}

static void
hold(IpbConversation *conversation, const IpbJson *message, const char *text, size_t size)
{
    IpbSpan id = ipb_json_raw(ipb_json_get(message, "id"));
    Held *held = g_new0(Held, 1);
    *held = (Held){
        .id = id.size > 0 ? g_strndup(id.start, id.size) : NULL,
        .method = g_strdup(ipb_json_get_string(message, "method")),
        .text = g_strndup(text, size),
        .size = size,
    };
    g_queue_push_tail(&conversation->held, held);
    conversation->held_size += size;
    pause_if_full(conversation);
}

static void
hold_or_receive(IpbConversation *conversation, const char *text, size_t size)
{
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    const IpbJson *message = doc != NULL ? ipb_json_root(doc) : NULL;
    if (must_be_held(message))
        hold(conversation, message, text, size);
    else
        ipb_rpc_peer_receive(conversation->peer, text, size);
}

static void
take_message(IpbConversation *conversation, const char *text, size_t size)
{
    if (conversation->is_congested || !g_queue_is_empty(&conversation->held))
        hold_or_receive(conversation, text, size);
    else
        ipb_rpc_peer_receive(conversation->peer, text, size);
}

static void
take_batch(IpbConversation *conversation, const char *text, size_t size)
{
    g_autoptr(IpbJsonDoc) batch = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    if (batch == NULL || ipb_json_length(ipb_json_root(batch)) == 0) {
        take_message(conversation, text, size); /* the peer answers with an error */
        return;
    }
    IPB_JSON_FOREACH (item, ipb_json_root(batch)) {
        IpbSpan raw = ipb_json_raw(item);
        take_message(conversation, raw.start, raw.size);
    }
}

static void
on_message(const char *text, size_t size, void *data)
{
    IpbConversation *conversation = data;
    if (size == 0 || conversation->is_finished)
        return;
    bool is_batch = *text == '[' && conversation->funcs.takes_batches != NULL &&
                    conversation->funcs.takes_batches(conversation->data);
    if (is_batch)
        take_batch(conversation, text, size);
    else
        take_message(conversation, text, size);
}

static void
on_long_message(const char *piece, size_t size, bool is_last, void *data)
{
    IpbConversation *conversation = data;
    if (!conversation->is_finished)
        ipb_rpc_peer_skip(conversation->peer, piece, size, is_last, IPB_MESSAGE_CHANNEL_MAX_SIZE);
}

/* Begins held requests, until the conversation is congested again. */
static void
release(IpbConversation *conversation)
{
    while (!conversation->is_congested && !g_queue_is_empty(&conversation->held))
        receive_held(conversation, conversation->held.head);
    pause_if_full(conversation);
}

/* --- what is sent to the client --------------------------------------------------------------- */

static void
set_congested(IpbConversation *conversation, bool is_congested)
{
    if (conversation->is_congested == is_congested || conversation->is_finished)
        return;
    conversation->is_congested = is_congested;
    conversation->funcs.on_congested(is_congested, conversation->data);
}

static void
send_message(const IpbRpcMessage *message, void *data)
{
    IpbConversation *conversation = data;
    IpbMessageChannel *channel = conversation->channel;
    channel->ops->send(channel, message);
    if (channel->ops->pending(channel) > MAX_PENDING)
        set_congested(conversation, true);
}

static void
end_stream(const char *request_id, void *data)
{
    IpbConversation *conversation = data;
    IpbMessageChannel *channel = conversation->channel;
    if (channel->ops->drop != NULL)
        channel->ops->drop(channel, request_id);
}

static void
on_drained(void *data)
{
    IpbConversation *conversation = data;
    set_congested(conversation, false);
    if (!conversation->is_finished)
        release(conversation);
}

/* --- the owner -------------------------------------------------------------------------------- */

static void
on_request(IpbRpcRequest *request, void *data)
{
    IpbConversation *conversation = data;
    conversation->funcs.on_request(request, conversation->data);
}

static void
on_notification(const char *method, const IpbJson *params, void *data)
{
    IpbConversation *conversation = data;
    conversation->funcs.on_notification(method, params, conversation->data);
}

static void
on_invalid(const GError *why, const char *text, size_t size, void *data)
{
    IpbConversation *conversation = data;
    conversation->funcs.on_invalid(why, conversation->data);
}

static void
on_channel_end(const GError *why, void *data)
{
    IpbConversation *conversation = data;
    conversation->funcs.on_end(why, conversation->data);
}

IpbRpcPeer *
ipb_conversation_peer(const IpbConversation *conversation)
{
    return conversation->peer;
}

bool
ipb_conversation_is_congested(const IpbConversation *conversation)
{
    return conversation->is_congested;
}

static GList *
find_held(const IpbConversation *conversation, const char *id_json)
{
    for (GList *link = conversation->held.head; link != NULL; link = link->next)
        if (g_strcmp0(((const Held *) link->data)->id, id_json) == 0)
            return link;
    return NULL;
}

const char *
ipb_conversation_held_method(const IpbConversation *conversation, const char *id_json)
{
    GList *link = find_held(conversation, id_json);
    return link != NULL ? ((const Held *) link->data)->method : NULL;
}

void
ipb_conversation_begin(IpbConversation *conversation, const char *id_json)
{
    GList *link = find_held(conversation, id_json);
    if (link != NULL)
        receive_held(conversation, link);
    pause_if_full(conversation);
}

/* Removes the held request with this id; false if there is none. */
static bool
forget(IpbConversation *conversation, const char *id_json)
{
    GList *link = find_held(conversation, id_json);
    if (link == NULL)
        return false;
    Held *held = link->data;
    conversation->held_size -= held->size;
    g_queue_delete_link(&conversation->held, link);
    free_held(held);
    pause_if_full(conversation);
    return true;
}

bool
ipb_conversation_drop(IpbConversation *conversation, const char *id_json)
{
    bool is_held = forget(conversation, id_json);
    if (is_held)
        end_stream(id_json, conversation);
    return is_held;
}

bool
ipb_conversation_refuse(IpbConversation *conversation, const char *id_json, int code,
                        const char *message, const char *data_json)
{
    bool is_held = forget(conversation, id_json);
    if (is_held)
        ipb_rpc_peer_refuse(conversation->peer, id_json, code, message, data_json);
    return is_held;
}

/* --- life ------------------------------------------------------------------------------------- */

IpbConversation *
ipb_conversation_new(IpbLoop *loop, IpbMessageChannel *channel, const IpbConversationFuncs *funcs,
                     void *data)
{
    static const IpbMessageChannelFuncs CHANNEL_FUNCS = {
        .on_message = on_message,
        .on_long_message = on_long_message,
        .on_end = on_channel_end,
        .on_drained = on_drained,
    };
    static const IpbRpcPeerFuncs PEER_FUNCS = {
        .send = send_message,
        .on_request = on_request,
        .on_notification = on_notification,
        .on_invalid = on_invalid,
        .on_dropped = end_stream,
    };
    IpbConversation *conversation = g_new0(IpbConversation, 1);
    conversation->funcs = *funcs;
    conversation->data = data;
    conversation->channel = channel;
    channel->funcs = CHANNEL_FUNCS;
    channel->data = conversation;
    IpbRpcPeerOptions options = {.limits = IPB_JSON_LIMITS_MESSAGE, .answer_invalid = true};
    conversation->peer = ipb_rpc_peer_new(loop, &options, &PEER_FUNCS, conversation);
    g_queue_init(&conversation->held);
    return conversation;
}

void
ipb_conversation_finish(IpbConversation *conversation, unsigned timeout_ms)
{
    conversation->is_finished = true;
    conversation->channel->ops->flush(conversation->channel, timeout_ms);
}

void
ipb_conversation_free(IpbConversation *conversation)
{
    if (conversation == NULL)
        return;
    conversation->is_finished = true;
    ipb_rpc_peer_free(conversation->peer);
    conversation->channel->ops->free(conversation->channel);
    g_queue_clear_full(&conversation->held, (GDestroyNotify) free_held);
    g_free(conversation);
}
