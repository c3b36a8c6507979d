/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a kernel of the gateway, and its clients; see the header.
 */
#include "serve/gateway/kernel.h"

#include "base/error.h"
#include "serve/gateway/kernel-private.h"

#define MS_PER_S 1000u
/* Of one timer, whose milliseconds are unsigned. */
#define MAX_TIMER_S (24u * 3600)

/* --- sending ----------------------------------------------------------------------------------- */

IpbJsonWriter *
ipb_gateway_content_new(void)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "status", "ok");
    return writer;
}

/* The last member was written. */
static IpbGatewayOutgoing *
make_outgoing(IpbGatewayKernel *kernel, const char *channel, const char *msg_type,
              const IpbJson *parent, const char *metadata, IpbJsonWriter *writer)
{
    ipb_json_end_object(writer);
    IpbGatewayParts parts = {
        .channel = channel,
        .msg_type = msg_type,
        .session = kernel->id,
        .number = ++kernel->n_sent,
        .parent = parent,
        .metadata = metadata,
    };
    parts.content = ipb_json_writer_finish(writer, &parts.content_size);
    return ipb_gateway_outgoing_new(&parts);
}

void
ipb_gateway_kernel_broadcast_with(IpbGatewayKernel *kernel, const char *msg_type,
                                  const IpbJson *parent, const char *metadata,
                                  IpbJsonWriter *writer)
{
    kernel->last_activity_us = g_get_real_time();
    g_autoptr(IpbGatewayOutgoing) outgoing =
        make_outgoing(kernel, "iopub", msg_type, parent, metadata, writer);
    for (guint i = 0; i < kernel->clients->len; i++) {
        IpbGatewayClient *client = g_ptr_array_index(kernel->clients, i);
        client->funcs.send(outgoing, client->data);
    }
}

void
ipb_gateway_kernel_broadcast(IpbGatewayKernel *kernel, const char *msg_type, const IpbJson *parent,
                             IpbJsonWriter *writer)
{
    ipb_gateway_kernel_broadcast_with(kernel, msg_type, parent, NULL, writer);
}

void
ipb_gateway_kernel_answer(IpbGatewayKernel *kernel, const IpbGatewayRequest *request,
                          const char *msg_type, IpbJsonWriter *writer)
{
    g_autoptr(IpbGatewayOutgoing) outgoing = make_outgoing(
        kernel, request->message.channel, msg_type, request->message.header, NULL, writer);
    if (request->client != NULL)
        request->client->funcs.send(outgoing, request->client->data);
}

void
ipb_gateway_kernel_tell_status(IpbGatewayKernel *kernel, const char *state, const IpbJson *parent)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "execution_state", state);
    ipb_gateway_kernel_broadcast(kernel, "status", parent, writer);
}

/* --- idling ------------------------------------------------------------------------------------ */

static void
on_end_timer(void *data)
{
    IpbGatewayKernel *kernel = data;
    if (!kernel->is_closing)
        kernel->on_end(kernel, kernel->end, kernel->data);
}

/* From the loop: whoever asks is in the middle of something. */
void
ipb_gateway_kernel_ask_for_end(IpbGatewayKernel *kernel, IpbGatewayEnd why)
{
    if (kernel->end_timer != NULL || kernel->is_closing)
        return;
    kernel->end = why;
    kernel->end_timer = ipb_timer_new(kernel->loop, 0, on_end_timer, kernel);
}

static void on_idle_timer(void *data);

/* The timer runs while the kernel counts as idle. */
static void
watch_idling(IpbGatewayKernel *kernel)
{
    g_clear_pointer(&kernel->idle_timer, ipb_timer_free);
    kernel->idle_since_us = g_get_monotonic_time();
    if (kernel->idle_s == 0 || kernel->is_closing || kernel->state == IPB_GATEWAY_STATE_BUSY ||
        (kernel->clients->len > 0 && !kernel->culls_connected))
        return;
    kernel->idle_timer = ipb_timer_new(kernel->loop, MIN(kernel->idle_s, MAX_TIMER_S) * MS_PER_S,
                                       on_idle_timer, kernel);
}

static void
on_idle_timer(void *data)
{
    IpbGatewayKernel *kernel = data;
    g_clear_pointer(&kernel->idle_timer, ipb_timer_free);
    int64_t idle_s = (g_get_monotonic_time() - kernel->idle_since_us) / G_USEC_PER_SEC;
    if (idle_s >= kernel->idle_s)
        ipb_gateway_kernel_ask_for_end(kernel, IPB_GATEWAY_END_IDLE);
    else
        kernel->idle_timer = ipb_timer_new(
            kernel->loop, MIN(kernel->idle_s - (unsigned) idle_s, MAX_TIMER_S) * MS_PER_S,
            on_idle_timer, kernel);
}

void
ipb_gateway_kernel_set_state(IpbGatewayKernel *kernel, IpbGatewayState state)
{
    kernel->state = state;
    kernel->last_activity_us = g_get_real_time();
    watch_idling(kernel);
}

/* --- clients ----------------------------------------------------------------------------------- */

IpbGatewayClient *
ipb_gateway_client_new(IpbGatewayKernel *kernel, const IpbGatewayClientFuncs *funcs, void *data)
{
    IpbGatewayClient *client = g_new0(IpbGatewayClient, 1);
    client->kernel = kernel;
    client->funcs = *funcs;
    client->data = data;
    g_ptr_array_add(kernel->clients, client);
    kernel->last_activity_us = g_get_real_time();
    watch_idling(kernel);
    return client;
}

void
ipb_gateway_client_receive(IpbGatewayClient *client, IpbGatewayMessage *message, size_t size)
{
    IpbGatewayRequest *request = g_new0(IpbGatewayRequest, 1);
    request->client = client;
    request->message = *message;
    request->size = size;
    *message = (IpbGatewayMessage){0};
    ipb_gateway_requests_receive(client->kernel, request);
}

/* One slow reader slows the kernel for all: nothing is lost for anybody. */
static void
pause_if_slow(IpbGatewayKernel *kernel)
{
    bool is_slow = false;
    for (guint i = 0; i < kernel->clients->len; i++)
        is_slow |= ((IpbGatewayClient *) g_ptr_array_index(kernel->clients, i))->is_slow;
    ipb_session_set_paused(kernel->session, is_slow);
}

void
ipb_gateway_client_set_slow(IpbGatewayClient *client, bool is_slow)
{
    if (client->is_slow == is_slow)
        return;
    client->is_slow = is_slow;
    pause_if_slow(client->kernel);
}

void
ipb_gateway_client_free(IpbGatewayClient *client)
{
    if (client == NULL)
        return;
    IpbGatewayKernel *kernel = client->kernel;
    g_ptr_array_remove(kernel->clients, client);
    ipb_gateway_requests_forget_client(kernel, client);
    if (client->is_slow)
        pause_if_slow(kernel);
    watch_idling(kernel);
    g_free(client);
}

/* --- life -------------------------------------------------------------------------------------- */

IpbGatewayKernel *
ipb_gateway_kernel_new(IpbRuntime *runtime, const IpbGatewayKernelOptions *options, GError **error)
{
    IpbSession *session = ipb_session_new(runtime, options->session, error);
    if (session == NULL)
        return NULL;
    IpbGatewayKernel *kernel = g_new0(IpbGatewayKernel, 1);
    kernel->id = g_strdup(options->id);
    kernel->name = g_strdup(options->name);
    kernel->working_dir = g_strdup(options->session->working_dir);
    kernel->runtime = ipb_runtime_ref(runtime);
    kernel->loop = ipb_runtime_loop(runtime);
    kernel->session = session;
    kernel->clients = g_ptr_array_new();
    g_queue_init(&kernel->waiting);
    kernel->idle_s = options->idle_s;
    kernel->culls_connected = options->culls_connected;
    kernel->on_end = options->on_end;
    kernel->data = options->data;
    ipb_session_start(session);
    ipb_gateway_kernel_set_state(kernel, IPB_GATEWAY_STATE_STARTING);
    return kernel;
}

const char *
ipb_gateway_kernel_id(const IpbGatewayKernel *kernel)
{
    return kernel->id;
}

static char *
format_time(int64_t time_us)
{
    g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(time_us / G_USEC_PER_SEC);
    g_autofree char *seconds = g_date_time_format(time, "%Y-%m-%dT%H:%M:%S");
    return g_strdup_printf("%s.%06dZ", seconds, (int) (time_us % G_USEC_PER_SEC));
}

void
ipb_gateway_kernel_describe(const IpbGatewayKernel *kernel, IpbJsonWriter *writer)
{
    static const char *const STATES[] = {
        [IPB_GATEWAY_STATE_STARTING] = "starting",
        [IPB_GATEWAY_STATE_IDLE] = "idle",
        [IPB_GATEWAY_STATE_BUSY] = "busy",
        [IPB_GATEWAY_STATE_RESTARTING] = "restarting",
    };
    g_autofree char *time = format_time(kernel->last_activity_us);
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "id", kernel->id);
    ipb_json_member_string(writer, "name", kernel->name);
    ipb_json_member_string(writer, "last_activity", time);
    ipb_json_member_string(writer, "execution_state", STATES[kernel->state]);
    ipb_json_member_int(writer, "connections", kernel->clients->len);
    if (kernel->working_dir != NULL)
        ipb_json_member_string(writer, "working_dir", kernel->working_dir);
    ipb_json_end_object(writer);
}

void
ipb_gateway_kernel_interrupt(IpbGatewayKernel *kernel)
{
    ipb_session_interrupt(kernel->session);
}

static void
on_reset(void *data)
{
    IpbGatewayKernel *kernel = data;
    if (kernel->state == IPB_GATEWAY_STATE_RESTARTING) {
        ipb_gateway_kernel_set_state(kernel, IPB_GATEWAY_STATE_IDLE);
        ipb_gateway_kernel_tell_status(kernel, "idle", NULL);
    }
    void (*restarted)(void *data) = g_steal_pointer(&kernel->restarted);
    if (restarted != NULL)
        restarted(kernel->restarted_data);
}

void
ipb_gateway_kernel_restart(IpbGatewayKernel *kernel, void (*done)(void *data), void *data)
{
    if (kernel->restarted != NULL) /* that one is as good */
        kernel->restarted(kernel->restarted_data);
    kernel->restarted = done;
    kernel->restarted_data = data;
    ipb_gateway_requests_abort(kernel, NULL);
    kernel->execution_count = 0;
    if (kernel->current == NULL)
        ipb_gateway_kernel_set_state(kernel, IPB_GATEWAY_STATE_RESTARTING);
    kernel->cell.ends_by_restart = kernel->current != NULL;
    ipb_session_reset(kernel->session, on_reset, kernel);
}

void
ipb_gateway_kernel_close(IpbGatewayKernel *kernel, void (*done)(void *data), void *data)
{
    kernel->is_closing = true;
    watch_idling(kernel);
    ipb_gateway_requests_abort(kernel, NULL);
    ipb_gateway_kernel_tell_status(kernel, "dead", NULL);
    for (guint i = kernel->clients->len; i-- > 0;) {
        IpbGatewayClient *client = g_ptr_array_index(kernel->clients, i);
        client->funcs.on_kernel_end(client->data);
    }
    ipb_session_close(kernel->session, done, data);
}

bool
ipb_gateway_kernel_is_closing(const IpbGatewayKernel *kernel)
{
    return kernel->is_closing;
}

void
ipb_gateway_kernel_free(IpbGatewayKernel *kernel)
{
    if (kernel == NULL)
        return;
    kernel->is_closing = true;
    ipb_session_free(kernel->session);
    ipb_timer_free(kernel->idle_timer);
    ipb_timer_free(kernel->end_timer);
    ipb_gateway_requests_clear(kernel);
    ipb_gateway_cell_clear(kernel);
    g_ptr_array_unref(kernel->clients);
    ipb_runtime_unref(kernel->runtime);
    g_free(kernel->info);
    g_free(kernel->id);
    g_free(kernel->name);
    g_free(kernel->working_dir);
    g_free(kernel);
}
