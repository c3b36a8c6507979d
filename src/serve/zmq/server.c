/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel and its sockets; see the header. What messages mean is in serve/gateway/kernel.h: each
 * identity of a peer is a client there, and one more client stands for all subscribers.
 */
#include "serve/zmq/server.h"

#include <string.h>

#include "base/error.h"
#include "serve/gateway/kernel.h"
#include "serve/zmq/signature.h"
#include "serve/zmq/zmq.h"

/* Peers that are remembered. A front end has one, or one for each of its windows. */
#define MAX_PEERS 256
#define MAX_IDENTITY 256
/* identity, delimiter, signature, then what is signed */
#define N_HEAD 3
#define DELIMITER "<IDS|MSG>"
/* While messages wait for subscribers, the kernel's output is paused and sending is tried again. A
 * subscriber that does not read for this time, or lets this many bytes wait, loses messages, so
 * that others get theirs. */
#define RETRY_MS 10
#define PATIENCE_MS 60000
#define MAX_UNSENT (256u * 1024 * 1024)

typedef struct {
    IpbZmqServer *server;
    char *identity;
    size_t identity_size;
    IpbGatewayClient *client;
} Peer;

struct IpbZmqServer {
    IpbZmqServerOptions options;
    IpbLoop *loop;
    IpbZmq *zmq;
    IpbZmqSocket *sockets[IPB_ZMQ_N_CHANNELS];
    IpbZmqSigner *signer;
    IpbGatewayKernel *kernel;
    GQueue peers; /* Peer, the last one used first */
    IpbGatewayClient *subscribers;
    GQueue unsent; /* IpbGatewayOutgoing's parts: GPtrArray of GBytes */
    size_t unsent_size;
    IpbTimer *retry_timer;
    int64_t stuck_since_us; /* 0: subscribers read */
    bool is_lossy;
    bool has_ended;
};

static void
end(IpbZmqServer *server, const GError *why)
{
    if (server->has_ended)
        return;
    server->has_ended = true;
    server->options.on_end(why, server->options.data);
}

static void
log_text(const IpbZmqServer *server, const char *level, const char *text)
{
    server->options.on_log(level, text, server->options.data);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Signs; @ret_signature must live as long as the parts. */
static void
fill_parts(const IpbZmqServer *server, const IpbGatewayOutgoing *outgoing, IpbSpan first,
           char *ret_signature, IpbSpan ret_parts[static N_HEAD + IPB_ZMQ_N_SIGNED])
{
    ret_parts[0] = first;
    ret_parts[1] = (IpbSpan){DELIMITER, strlen(DELIMITER)};
    ipb_gateway_outgoing_parts(outgoing, ret_parts + N_HEAD);
    ipb_zmq_signer_sign(server->signer, ret_parts + N_HEAD, ret_signature);
    ret_parts[2] = (IpbSpan){ret_signature, strlen(ret_signature)};
}

static void
on_send_to_peer(IpbGatewayOutgoing *outgoing, void *data)
{
    const Peer *peer = data;
    IpbZmqServer *server = peer->server;
    const char *channel = ipb_gateway_outgoing_channel(outgoing);
    IpbZmqChannel where = IPB_ZMQ_SHELL;
    if (strcmp(channel, "iopub") == 0)
        return; /* it subscribes */
    if (strcmp(channel, "control") == 0)
        where = IPB_ZMQ_CONTROL;
    else if (strcmp(channel, "stdin") == 0)
        where = IPB_ZMQ_STDIN;
    char signature[IPB_ZMQ_SIGNATURE_SIZE];
    IpbSpan parts[N_HEAD + IPB_ZMQ_N_SIGNED];
    /* Only messages of iopub have buffers. */
    fill_parts(server, outgoing, (IpbSpan){peer->identity, peer->identity_size}, signature, parts);
    ipb_zmq_socket_send(server->sockets[where], parts, G_N_ELEMENTS(parts));
}

static void on_retry(void *data);

static void
schedule_retry(IpbZmqServer *server)
{
    if (server->retry_timer == NULL)
        server->retry_timer = ipb_timer_new(server->loop, RETRY_MS, on_retry, server);
}

static void
set_lossy(IpbZmqServer *server, bool is_lossy)
{
    if (server->is_lossy == is_lossy)
        return;
    server->is_lossy = is_lossy;
    ipb_zmq_socket_set_lossy(server->sockets[IPB_ZMQ_IOPUB], is_lossy);
    if (is_lossy)
        log_text(server, "warning",
                 "a front end does not read what the kernel publishes: it loses messages");
}

static bool
publish(IpbZmqServer *server, const GPtrArray *parts)
{
    IpbSpan spans[IPB_ZMQ_MAX_PARTS];
    for (guint i = 0; i < parts->len; i++) {
        gsize size;
        const char *bytes = g_bytes_get_data(g_ptr_array_index(parts, i), &size);
        spans[i] = (IpbSpan){bytes, size};
    }
    return ipb_zmq_socket_send(server->sockets[IPB_ZMQ_IOPUB], spans, parts->len);
}

static size_t
size_of(const GPtrArray *parts)
{
    size_t size = 0;
    for (guint i = 0; i < parts->len; i++)
        size += g_bytes_get_size(g_ptr_array_index(parts, i));
    return size;
}

/* Sends what waits, in order. */
static void
on_retry(void *data)
{
    IpbZmqServer *server = data;
    g_clear_pointer(&server->retry_timer, ipb_timer_free);
    GPtrArray *parts;
    while ((parts = g_queue_peek_head(&server->unsent)) != NULL) {
        if (!publish(server, parts)) {
            int64_t now_us = g_get_monotonic_time();
            if (server->stuck_since_us == 0)
                server->stuck_since_us = now_us;
            if (now_us - server->stuck_since_us > PATIENCE_MS * 1000 ||
                server->unsent_size > MAX_UNSENT)
                set_lossy(server, true);
            schedule_retry(server);
            return;
        }
        server->stuck_since_us = 0;
        server->unsent_size -= size_of(parts);
        g_queue_pop_head(&server->unsent);
        g_ptr_array_unref(parts);
    }
    set_lossy(server, false);
    ipb_gateway_client_set_slow(server->subscribers, false);
}

/* The topic, as Jupyter's own kernel has it. Subscribers take all topics. */
static void
on_publish(IpbGatewayOutgoing *outgoing, void *data)
{
    IpbZmqServer *server = data;
    if (strcmp(ipb_gateway_outgoing_channel(outgoing), "iopub") != 0)
        return;
    g_autofree char *topic = g_strdup_printf("kernel.%s.%s", ipb_gateway_kernel_id(server->kernel),
                                             ipb_gateway_outgoing_type(outgoing));
    char signature[IPB_ZMQ_SIGNATURE_SIZE];
    IpbSpan spans[IPB_ZMQ_MAX_PARTS];
    fill_parts(server, outgoing, (IpbSpan){topic, strlen(topic)}, signature, spans);
    size_t n_buffers, n_spans = N_HEAD + IPB_ZMQ_N_SIGNED;
    const IpbSpan *buffers = ipb_gateway_outgoing_buffers(outgoing, &n_buffers);
    for (size_t i = 0; i < n_buffers && n_spans < G_N_ELEMENTS(spans); i++)
        spans[n_spans++] = buffers[i];
    if (g_queue_is_empty(&server->unsent) &&
        ipb_zmq_socket_send(server->sockets[IPB_ZMQ_IOPUB], spans, n_spans))
        return;
    GPtrArray *parts = g_ptr_array_new_with_free_func((GDestroyNotify) g_bytes_unref);
    for (size_t i = 0; i < n_spans; i++)
        g_ptr_array_add(parts, g_bytes_new(spans[i].start, spans[i].size));
    g_queue_push_tail(&server->unsent, parts);
    server->unsent_size += size_of(parts);
    ipb_gateway_client_set_slow(server->subscribers, true);
    schedule_retry(server);
}

static void
on_kernel_end(void *data)
{
    /* The server frees its clients. */
}

/* --- receiving -------------------------------------------------------------------------------- */

static void
free_peer(void *data)
{
    Peer *peer = data;
    ipb_gateway_client_free(peer->client);
    g_free(peer->identity);
    g_free(peer);
}

/* Its requests are still served, but their replies go nowhere. */
static void
forget_oldest_peer(IpbZmqServer *server)
{
    if (g_queue_get_length(&server->peers) >= MAX_PEERS)
        free_peer(g_queue_pop_tail(&server->peers));
}

static Peer *
get_peer(IpbZmqServer *server, IpbSpan identity)
{
    static const IpbGatewayClientFuncs FUNCS = {on_send_to_peer, on_kernel_end};
    for (GList *link = server->peers.head; link != NULL; link = link->next) {
        Peer *peer = link->data;
        if (peer->identity_size != identity.size ||
            memcmp(peer->identity, identity.start, identity.size) != 0)
            continue;
        g_queue_unlink(&server->peers, link);
        g_queue_push_head_link(&server->peers, link);
        return peer;
    }
    forget_oldest_peer(server);
    Peer *peer = g_new0(Peer, 1);
    peer->server = server;
    peer->identity = g_memdup2(identity.start, identity.size);
    peer->identity_size = identity.size;
    peer->client = ipb_gateway_client_new(server->kernel, &FUNCS, peer);
    g_queue_push_head(&server->peers, peer);
    return peer;
}

/* Nothing is parsed before the signature is checked. It does not sign the buffers behind the
 * content. */
static void
receive(IpbZmqServer *server, const char *channel, const IpbSpan *parts, size_t n_parts)
{
    IpbGatewayMessage message;
    g_autoptr(GError) error = NULL;
    if (server->has_ended)
        return;
    if (n_parts < N_HEAD + IPB_ZMQ_N_SIGNED || parts[0].size > MAX_IDENTITY ||
        !ipb_span_equal(parts[1], DELIMITER)) {
        log_text(server, "warning", "dropped what is no message of Jupyter's");
        return;
    }
    if (!ipb_zmq_signer_accept(server->signer, parts[2], parts + N_HEAD)) {
        log_text(server, "warning",
                 "dropped a message whose signature is wrong or was used before");
        return;
    }
    size_t size = 0;
    for (size_t i = N_HEAD; i < n_parts; i++)
        size += parts[i].size;
    if (!ipb_gateway_message_parse_parts(channel, parts + N_HEAD, n_parts - N_HEAD, &message,
                                         &error)) {
        log_text(server, "warning", error->message);
        return;
    }
    ipb_gateway_client_receive(get_peer(server, parts[0])->client, &message, size);
}

static void
on_shell(const IpbSpan *parts, size_t n_parts, void *data)
{
    receive(data, "shell", parts, n_parts);
}

static void
on_control(const IpbSpan *parts, size_t n_parts, void *data)
{
    receive(data, "control", parts, n_parts);
}

static void
on_stdin(const IpbSpan *parts, size_t n_parts, void *data)
{
    receive(data, "stdin", parts, n_parts);
}

static void
on_heartbeat(const IpbSpan *parts, size_t n_parts, void *data)
{
    IpbZmqServer *server = data;
    ipb_zmq_socket_send(server->sockets[IPB_ZMQ_HEARTBEAT], parts, n_parts);
}

/* --- the kernel ------------------------------------------------------------------------------- */

static void
on_shutdown(IpbGatewayKernel *kernel, IpbGatewayEnd why, void *data)
{
    end(data, NULL);
}

/* Of no cell. A front end that sees its kernel's process end starts another one. */
static void
on_session_event(const IpbEvent *event, void *data)
{
    if (event->type != IPB_EVENT_DIED && event->type != IPB_EVENT_START_FAILED)
        return;
    g_autoptr(GError) why =
        g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED, event->text);
    end(data, why);
}

static bool
open_sockets(IpbZmqServer *server, GError **error)
{
    static const struct {
        IpbZmqType type;
        IpbZmqFunc func;
    } SOCKETS[] = {
        [IPB_ZMQ_SHELL] = {IPB_ZMQ_ROUTER, on_shell},
        [IPB_ZMQ_IOPUB] = {IPB_ZMQ_PUBLISH, NULL},
        [IPB_ZMQ_STDIN] = {IPB_ZMQ_ROUTER, on_stdin},
        [IPB_ZMQ_CONTROL] = {IPB_ZMQ_ROUTER, on_control},
        [IPB_ZMQ_HEARTBEAT] = {IPB_ZMQ_REPLY, on_heartbeat},
    };
    server->zmq = ipb_zmq_new(error);
    if (server->zmq == NULL)
        return false;
    for (size_t i = 0; i < IPB_ZMQ_N_CHANNELS; i++) {
        server->sockets[i] = ipb_zmq_socket_new(server->zmq, server->loop, SOCKETS[i].type,
                                                server->options.connection->addresses[i],
                                                SOCKETS[i].func, server, error);
        if (server->sockets[i] == NULL)
            return false;
    }
    return true;
}

static bool
open_kernel(IpbZmqServer *server, GError **error)
{
    static const IpbGatewayClientFuncs SUBSCRIBERS = {on_publish, on_kernel_end};
    IpbSessionOptions session = *server->options.session;
    g_autofree char *id = g_uuid_string_random();
    session.on_event = on_session_event;
    session.has_rich_client = true;
    session.data = server;
    server->kernel = ipb_gateway_kernel_new(server->options.runtime,
                                            &(IpbGatewayKernelOptions){
                                                .session = &session,
                                                .id = id,
                                                .name = "ipybox",
                                                .has_one_process = true,
                                                .has_own_tools = true,
                                                .on_end = on_shutdown,
                                                .data = server,
                                            },
                                            error);
    if (server->kernel == NULL)
        return false;
    server->subscribers = ipb_gateway_client_new(server->kernel, &SUBSCRIBERS, server);
    return true;
}

/* --- life ------------------------------------------------------------------------------------- */

IpbZmqServer *
ipb_zmq_server_new(const IpbZmqServerOptions *options, GError **error)
{
    IpbZmqServer *server = g_new0(IpbZmqServer, 1);
    server->options = *options;
    server->loop = ipb_loop_ref(ipb_runtime_loop(options->runtime));
    server->signer = ipb_zmq_signer_new(options->connection->key);
    g_queue_init(&server->peers);
    g_queue_init(&server->unsent);
    if (open_sockets(server, error) && open_kernel(server, error))
        return server;
    ipb_zmq_server_free(server);
    return NULL;
}

void
ipb_zmq_server_interrupt(IpbZmqServer *server)
{
    ipb_gateway_kernel_interrupt(server->kernel);
}

void
ipb_zmq_server_close(IpbZmqServer *server, void (*done)(void *data), void *data)
{
    server->has_ended = true;
    ipb_gateway_kernel_close(server->kernel, done, data);
}

void
ipb_zmq_server_free(IpbZmqServer *server)
{
    if (server == NULL)
        return;
    ipb_timer_free(server->retry_timer);
    g_queue_clear_full(&server->peers, free_peer);
    ipb_gateway_client_free(server->subscribers);
    ipb_gateway_kernel_free(server->kernel);
    g_queue_clear_full(&server->unsent, (GDestroyNotify) g_ptr_array_unref);
    for (size_t i = 0; i < IPB_ZMQ_N_CHANNELS; i++)
        ipb_zmq_socket_free(server->sockets[i]);
    ipb_zmq_free(server->zmq);
    ipb_zmq_signer_free(server->signer);
    ipb_loop_unref(server->loop);
    g_free(server);
}
