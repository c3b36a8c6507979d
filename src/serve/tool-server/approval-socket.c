/* SPDX-License-Identifier: Apache-2.0
 *
 * The approval channel; see the header. A client is the current one, which gets questions; or it
 * waits to become the current one; or it is being closed.
 */
#include "serve/tool-server/approval-socket.h"

#include "json/json.h"
#include "json/writer.h"

/* Clients that wait for the first to disconnect, or are being closed. */
#define MAX_CLIENTS 16
#define WAIT_TIMEOUT_MS 5000
/* The largest question; the caller of the tool chose its arguments. A client may close the
 * connection because of a larger message, and then no client would be left to ask. */
#define MAX_QUESTION (16u * 1024 * 1024)
#define MAX_ANSWER (64 * 1024)
static const IpbJsonLimits ANSWER_LIMITS = {MAX_ANSWER, 16, 256};

typedef struct {
    IpbApprovalSocket *channel;
    IpbWebSocket *socket;
    IpbTimer *timer; /* ends its waiting; or NULL */
    bool is_closing;
} Client;

struct IpbApprovalSocket {
    IpbLoop *loop;
    IpbApprovalSocketFuncs funcs;
    GPtrArray *clients; /* Client, owned, in the order of their arrival */
    Client *current;    /* or NULL */
    GHashTable *asked;  /* uint64_t *, owned: questions that wait for an answer of @current */
};

static void
free_client(void *data)
{
    Client *client = data;
    ipb_timer_free(client->timer);
    ipb_websocket_free(client->socket);
    g_free(client);
}

/* The client that has waited for the longest time becomes the current one. */
static void
promote(IpbApprovalSocket *channel)
{
    for (guint i = 0; i < channel->clients->len && channel->current == NULL; i++) {
        Client *client = g_ptr_array_index(channel->clients, i);
        if (client->is_closing)
            continue;
        channel->current = client;
        g_clear_pointer(&client->timer, ipb_timer_free);
    }
}

static void
on_waited(void *data)
{
    Client *client = data;
    g_clear_pointer(&client->timer, ipb_timer_free);
    client->is_closing = true;
    ipb_websocket_close(client->socket, 1008, "another approval client is connected");
}

/* The current client has disconnected. Its open questions are reported last, because the owner may
 * ask them again. */
static void
leave(IpbApprovalSocket *channel)
{
    g_autoptr(GHashTable) asked = g_steal_pointer(&channel->asked);
    GHashTableIter iter;
    void *key;
    channel->asked = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    channel->current = NULL;
    promote(channel);
    g_hash_table_iter_init(&iter, asked);
    while (g_hash_table_iter_next(&iter, &key, NULL))
        channel->funcs.on_left(*(uint64_t *) key, channel->funcs.data);
}

static void
on_closed(IpbWebSocket *socket, unsigned code, const char *reason, void *data)
{
    Client *client = data;
    IpbApprovalSocket *channel = client->channel;
    bool is_current = client == channel->current;
    g_ptr_array_remove(channel->clients, client);
    if (is_current)
        leave(channel);
}

/* Everything that is not a clear yes is a no, for example an error beside a result. */
static bool
is_yes(const IpbJson *answer)
{
    const IpbJson *error = ipb_json_get(answer, "error");
    return ipb_json_get_bool(answer, "result", false) &&
           (error == NULL || ipb_json_is(error, IPB_JSON_NULL));
}

/* {"jsonrpc": "2.0", "result": true, "id": 7}. Answers to unknown questions are ignored. */
static void
on_message(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text, void *data)
{
    Client *client = data;
    IpbApprovalSocket *channel = client->channel;
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(bytes, size, &ANSWER_LIMITS, NULL);
    const IpbJson *root = document != NULL ? ipb_json_root(document) : NULL;
    int64_t id;
    if (!is_text || root == NULL || ipb_json_has_duplicates(document)) {
        ipb_websocket_close(socket, 1007,
                            "an answer must be {\"result\": true or false, \"id\": number}");
        return;
    }
    if (client != channel->current || !ipb_json_get_int64(root, "id", &id) ||
        !g_hash_table_remove(channel->asked, &id))
        return;
    channel->funcs.on_decision((uint64_t) id, is_yes(root), channel->funcs.data);
}

static const IpbWebSocketFuncs FUNCS = {.on_message = on_message, .on_closed = on_closed};

IpbApprovalSocket *
ipb_approval_socket_new(IpbLoop *loop, const IpbApprovalSocketFuncs *funcs)
{
    IpbApprovalSocket *channel = g_new0(IpbApprovalSocket, 1);
    channel->loop = ipb_loop_ref(loop);
    channel->funcs = *funcs;
    channel->clients = g_ptr_array_new_with_free_func(free_client);
    channel->asked = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    return channel;
}

void
ipb_approval_socket_free(IpbApprovalSocket *channel)
{
    if (channel == NULL)
        return;
    g_ptr_array_unref(channel->clients);
    g_hash_table_unref(channel->asked);
    ipb_loop_unref(channel->loop);
    g_free(channel);
}

void
ipb_approval_socket_take(IpbApprovalSocket *channel, IpbHttpRequest *request)
{
    IpbWebSocketOptions options = IPB_WEBSOCKET_OPTIONS;
    options.max_message = MAX_ANSWER;
    if (channel->clients->len >= MAX_CLIENTS) {
        ipb_http_request_answer_error(request, 503, "too many approval clients wait");
        return;
    }
    Client *client = g_new0(Client, 1);
    client->channel = channel;
    client->socket = ipb_websocket_accept(channel->loop, request, NULL, &options, &FUNCS, client);
    if (client->socket == NULL) {
        g_free(client);
        return;
    }
    g_ptr_array_add(channel->clients, client);
    if (channel->current == NULL) {
        channel->current = client;
        return;
    }
    client->timer = ipb_timer_new(channel->loop, WAIT_TIMEOUT_MS, on_waited, client);
}

static char *
write_question(const IpbApprovalRequest *request, size_t *ret_size)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "jsonrpc", "2.0");
    ipb_json_member_string(writer, "method", "approve");
    ipb_json_key(writer, "params");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "server_name", request->server_name);
    ipb_json_member_string(writer, "tool_name", request->tool_name);
    ipb_json_key(writer, "tool_args");
    ipb_json_write_raw(writer, request->arguments_json, request->arguments_size);
    ipb_json_end_object(writer);
    ipb_json_member_int(writer, "id", (int64_t) request->id);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, ret_size);
}

const char *
ipb_approval_socket_ask(IpbApprovalSocket *channel, const IpbApprovalRequest *request)
{
    size_t size;
    g_autofree char *text = write_question(request, &size);
    if (size > MAX_QUESTION)
        return "its arguments are larger than 16 MiB, the limit of an approval request";
    while (channel->current != NULL) {
        if (ipb_websocket_send(channel->current->socket, text, size, true, NULL)) {
            g_hash_table_add(channel->asked, g_memdup2(&request->id, sizeof request->id));
            return NULL;
        }
        /* It is disconnecting, or does not read: the next client is asked. */
        channel->current->is_closing = true;
        ipb_websocket_close(channel->current->socket, 1008, "approval requests are not read");
        leave(channel);
    }
    return "Approval channel not connected";
}

void
ipb_approval_socket_withdraw(IpbApprovalSocket *channel, uint64_t request)
{
    g_hash_table_remove(channel->asked, &request);
}
