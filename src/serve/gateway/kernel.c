/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the gateway; see the header.
 *
 * Invariant: while kernel->current is set, that request is being served, and finish_request ends
 * it.
 */
#include "serve/gateway/kernel.h"

#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "serve/gateway/cell.h"
#include "serve/gateway/output.h"
#include "session/staged-workspace.h"

#define MS_PER_S 1000u
/* Of one timer, whose milliseconds are unsigned. */
#define MAX_TIMER_S (24u * 3600)
/* Requests that wait for one kernel, and their bytes. */
#define MAX_WAITING 1000
/* Messages of comms, beside the requests: a slider that is moved while a cell runs. */
#define MAX_WAITING_COMMS 20000
#define MAX_WAITING_SIZE (256u * 1024 * 1024)
#define MAX_INFO_SIZE (64u * 1024)
#define PROTOCOL_VERSION "5.3"
static const char DEFAULT_INFO[] =
    "{\"implementation\":\"ipybox\",\"implementation_version\":\"" IPYBOX_VERSION
    "\",\"banner\":\"\",\"help_links\":[],\"supported_features\":[],\"language_info\":{\"name\":"
    "\"python\","
    "\"version\":\"3\",\"mimetype\":\"text/x-python\",\"file_extension\":\".py\"}}";

typedef enum {
    STATE_STARTING, /* it has had no request yet */
    STATE_IDLE,
    STATE_BUSY,
    STATE_RESTARTING,
} State;

struct IpbGatewayKernel {
    char *id;
    char *name;
    char *working_dir; /* or NULL */
    IpbLoop *loop;
    IpbRuntime *runtime;
    IpbSession *session;
    IpbGatewayPublisher *publisher;
    GPtrArray *clients; /* IpbGatewayClient, borrowed */
    State state;
    int64_t last_activity_us; /* of the wall clock */
    int64_t execution_count;  /* of the last cell */
    char *info; /* JSON: the reply to its first kernel_info_request; NULL: there was none */

    GQueue waiting; /* IpbGatewayRequest */
    size_t waiting_size;
    unsigned n_waiting_comms;
    IpbGatewayRequest *current; /* or NULL */
    IpbGatewayCell *cell;       /* of the current request, or NULL */
    bool is_serving;            /* serve_waiting runs */

    unsigned idle_s;
    bool culls_connected;
    bool has_one_process;
    bool has_comms;          /* its clients show widgets */
    bool has_stale_question; /* see questions.h */
    bool is_seeding;
    IpbTimer *idle_timer;
    int64_t idle_since_us; /* of the monotonic clock */
    /* The session's, which get its data */
    IpbEventFunc on_event;
    void (*on_log)(const char *level, const char *text, void *data);
    void *session_data;
    void (*on_end)(IpbGatewayKernel *kernel, IpbGatewayEnd why, void *data);
    void *data;
    IpbTimer *end_timer; /* on_end is to be called */
    IpbGatewayEnd end;

    bool is_closing;
    void (*restarted)(void *data);
    void *restarted_data;
};

struct IpbGatewayClient {
    IpbGatewayKernel *kernel;
    IpbGatewayClientFuncs funcs;
    void *data;
    bool is_slow;
};

/* --- sending --------------------------------------------------------------------------------- */

static void
on_send(IpbGatewayOutgoing *outgoing, IpbGatewayClient *client, void *data)
{
    IpbGatewayKernel *kernel = data;
    if (client != NULL) {
        client->funcs.send(outgoing, client->data);
        return;
    }
    kernel->last_activity_us = g_get_real_time();
    for (guint i = 0; i < kernel->clients->len; i++) {
        client = g_ptr_array_index(kernel->clients, i);
        client->funcs.send(outgoing, client->data);
    }
}

static bool
has_clients(void *data)
{
    const IpbGatewayKernel *kernel = data;
    return kernel->clients->len > 0;
}

static const IpbGatewayPublisherFuncs PUBLISHER_FUNCS = {on_send, has_clients};

static void
send_status(IpbGatewayKernel *kernel, const char *state, const IpbGatewayRequest *request)
{
    const IpbJson *parent = request != NULL ? request->message.header : NULL;
    ipb_gateway_publisher_send_status(kernel->publisher, state, parent);
}

static void
reply(IpbGatewayKernel *kernel, const IpbGatewayRequest *request, const char *msg_type,
      IpbJsonWriter *writer)
{
    ipb_gateway_publisher_reply(kernel->publisher, request, msg_type, writer);
}

/* {"status": "ok" */
static IpbJsonWriter *
begin_ok(void)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "status", "ok");
    return writer;
}

/* --- idling ---------------------------------------------------------------------------------- */

static void
on_end_timer(void *data)
{
    IpbGatewayKernel *kernel = data;
    if (!kernel->is_closing)
        kernel->on_end(kernel, kernel->end, kernel->data);
}

/* on_end is called from the loop, because the caller may still use the kernel. */
static void
ask_for_end(IpbGatewayKernel *kernel, IpbGatewayEnd why)
{
    if (kernel->end_timer != NULL || kernel->is_closing)
        return;
    kernel->end = why;
    kernel->end_timer = ipb_timer_new(kernel->loop, 0, on_end_timer, kernel);
}

static void on_idle_timer(void *data);

/* Restarts the idle timer if the kernel counts as idle, else stops it. */
static void
watch_idling(IpbGatewayKernel *kernel)
{
    g_clear_pointer(&kernel->idle_timer, ipb_timer_free);
    kernel->idle_since_us = g_get_monotonic_time();
    if (kernel->idle_s == 0 || kernel->is_closing || kernel->is_seeding ||
        kernel->state == STATE_BUSY || (kernel->clients->len > 0 && !kernel->culls_connected))
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
        ask_for_end(kernel, IPB_GATEWAY_END_IDLE);
    else
        kernel->idle_timer = ipb_timer_new(
            kernel->loop, MIN(kernel->idle_s - (unsigned) idle_s, MAX_TIMER_S) * MS_PER_S,
            on_idle_timer, kernel);
}

static void
set_state(IpbGatewayKernel *kernel, State state)
{
    kernel->state = state;
    kernel->last_activity_us = g_get_real_time();
    watch_idling(kernel);
}

/* --- requests -------------------------------------------------------------------------------- */

static void
free_request(IpbGatewayRequest *request)
{
    ipb_gateway_message_clear(&request->message);
    g_free(request);
}

static bool
is_of_type(const IpbGatewayRequest *request, const char *msg_type)
{
    return strcmp(request->message.msg_type, msg_type) == 0;
}

static bool
is_of_comm(const IpbGatewayRequest *request)
{
    return is_of_type(request, "comm_open") || is_of_type(request, "comm_msg") ||
           is_of_type(request, "comm_close");
}

/* "execute_request" → "execute_reply"; NULL: such a message gets no reply. The caller frees it. */
static char *
reply_type(const IpbGatewayRequest *request)
{
    const char *msg_type = request->message.msg_type;
    if (!g_str_has_suffix(msg_type, "_request"))
        return NULL;
    g_autofree char *stem = g_strndup(msg_type, strlen(msg_type) - strlen("_request"));
    return g_strconcat(stem, "_reply", NULL);
}

static void
answer_failure(IpbGatewayKernel *kernel, const IpbGatewayRequest *request, const char *status,
               const char *ename, const char *evalue)
{
    g_autofree char *type = reply_type(request);
    if (type == NULL)
        return;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "status", status);
    ipb_json_member_string(writer, "ename", ename);
    ipb_json_member_string(writer, "evalue", evalue);
    ipb_json_key(writer, "traceback");
    ipb_json_begin_array(writer);
    ipb_json_end_array(writer);
    if (is_of_type(request, "execute_request"))
        ipb_json_member_int(writer, "execution_count", kernel->execution_count);
    reply(kernel, request, type, writer);
}

/* Executions that wait are answered as aborted: those of @client, or all if it is NULL. */
static void
abort_executions(IpbGatewayKernel *kernel, const IpbGatewayClient *client)
{
    for (GList *link = kernel->waiting.head, *next; link != NULL; link = next) {
        next = link->next;
        IpbGatewayRequest *request = link->data;
        if ((client != NULL && request->client != client) ||
            !is_of_type(request, "execute_request"))
            continue;
        g_queue_delete_link(&kernel->waiting, link);
        kernel->waiting_size -= request->size;
        send_status(kernel, "busy", request);
        answer_failure(kernel, request, "aborted", "Aborted", "an earlier cell has failed");
        send_status(kernel, "idle", request);
        free_request(request);
    }
}

static void serve_waiting(IpbGatewayKernel *kernel);

/* The current request was answered: reports that the kernel is idle, and serves the next request.
 * @aborts: executions that its client has sent since are aborted. */
static void
finish_request(IpbGatewayKernel *kernel, bool aborts)
{
    IpbGatewayRequest *request = g_steal_pointer(&kernel->current);
    set_state(kernel, STATE_IDLE);
    send_status(kernel, "idle", request);
    if (aborts && request->client != NULL)
        abort_executions(kernel, request->client);
    free_request(request);
    serve_waiting(kernel);
}

/* --- interrupting and restarting ------------------------------------------------------------- */

void
ipb_gateway_kernel_interrupt(IpbGatewayKernel *kernel)
{
    ipb_session_interrupt(kernel->session);
}

static void
on_reset(void *data)
{
    IpbGatewayKernel *kernel = data;
    if (kernel->state == STATE_RESTARTING) {
        set_state(kernel, STATE_IDLE);
        send_status(kernel, "idle", NULL);
    }
    void (*restarted)(void *data) = g_steal_pointer(&kernel->restarted);
    if (restarted != NULL)
        restarted(kernel->restarted_data);
}

void
ipb_gateway_kernel_restart(IpbGatewayKernel *kernel, void (*done)(void *data), void *data)
{
    if (kernel->restarted != NULL) /* an earlier restart, which this one includes */
        kernel->restarted(kernel->restarted_data);
    kernel->restarted = done;
    kernel->restarted_data = data;
    abort_executions(kernel, NULL);
    kernel->execution_count = 0;
    if (kernel->current == NULL)
        set_state(kernel, STATE_RESTARTING);
    if (kernel->cell != NULL)
        ipb_gateway_cell_expect_restart(kernel->cell);
    ipb_session_reset(kernel->session, on_reset, kernel);
}

/* --- requests that the Python kernel answers ------------------------------------------------- */

/* The reply has the members of @result. */
static void
answer_ok(IpbGatewayKernel *kernel, const IpbGatewayRequest *request, const IpbJson *result)
{
    g_autofree char *type = reply_type(request);
    IpbJsonWriter *writer = is_of_type(request, "is_complete_request")
                                ? ipb_json_writer_new() /* its result has a status */
                                : begin_ok();
    if (is_of_type(request, "is_complete_request"))
        ipb_json_begin_object(writer);
    if (is_of_type(request, "kernel_info_request"))
        ipb_json_member_string(writer, "protocol_version", PROTOCOL_VERSION);
    IPB_JSON_FOREACH (member, result) {
        size_t size;
        const char *name = ipb_json_name(member, &size);
        if (name == NULL)
            break;
        ipb_json_key_n(writer, name, size);
        ipb_json_write_value(writer, member);
    }
    reply(kernel, request, type, writer);
}

/* A kernel does not answer while a cell runs, so its answer is kept for the control channel. */
static void
keep_info(IpbGatewayKernel *kernel, const IpbJson *result)
{
    IpbSpan raw = ipb_json_raw(result);
    if (kernel->info == NULL && raw.size <= MAX_INFO_SIZE)
        kernel->info = g_strndup(raw.start, raw.size);
}

static void
on_reply(const IpbJson *result, const GError *error, void *data)
{
    IpbGatewayKernel *kernel = data;
    const IpbGatewayRequest *request = kernel->current;
    if (error != NULL) {
        answer_failure(kernel, request, "error", "RuntimeError", error->message);
    } else {
        if (is_of_type(request, "kernel_info_request"))
            keep_info(kernel, result);
        answer_ok(kernel, request, result);
    }
    finish_request(kernel, false);
}

/* The kernel's method for such requests; NULL: there is none. */
static const char *
find_method(const IpbGatewayRequest *request)
{
    static const char *const METHODS[][2] = {
        {"complete_request", "complete"},       {"inspect_request", "inspect"},
        {"is_complete_request", "is_complete"}, {"history_request", "history"},
        {"kernel_info_request", "kernel_info"}, {"comm_info_request", "comm_info"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(METHODS); i++)
        if (is_of_type(request, METHODS[i][0]))
            return METHODS[i][1];
    return NULL;
}

/* Asks about the current request. on_reply finishes it later, unless asking fails. */
static void
ask_kernel(IpbGatewayKernel *kernel, const char *method)
{
    IpbSpan raw = ipb_json_raw(kernel->current->message.content);
    g_autofree char *params = g_strndup(raw.start, raw.size);
    g_autoptr(GError) error = NULL;
    if (ipb_session_request(kernel->session, method, params, on_reply, kernel, &error))
        return;
    answer_failure(kernel, kernel->current, "error", "RuntimeError", error->message);
    finish_request(kernel, false);
}

/* --- requests that are answered at once ------------------------------------------------------ */

typedef void (*Handler)(IpbGatewayKernel *kernel, IpbGatewayRequest *request);

/* The control channel does not wait for the kernel: it gets the kernel's earlier reply, or a
 * default. */
static void
answer_kernel_info(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    const char *info = kernel->info != NULL ? kernel->info : DEFAULT_INFO;
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(info, strlen(info), &IPB_JSON_LIMITS_SMALL, NULL);
    if (doc != NULL)
        answer_ok(kernel, request, ipb_json_root(doc));
}

/* Without comms, or on the control channel: no comm has a target, so each is closed at once, as
 * Jupyter's kernels do. */
static void
refuse_comm(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_value(writer, "comm_id", ipb_json_get(request->message.content, "comm_id"));
    ipb_json_key(writer, "data");
    ipb_json_begin_object(writer);
    ipb_json_end_object(writer);
    ipb_gateway_publisher_broadcast(kernel->publisher, "comm_close", request->message.header,
                                    writer);
}

static void
ignore(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
}

static void
answer_interrupt(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    ipb_gateway_kernel_interrupt(kernel);
    reply(kernel, request, "interrupt_reply", begin_ok());
}

static void
answer_shutdown(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    bool is_restart = ipb_json_get_bool(request->message.content, "restart", false);
    IpbJsonWriter *writer = begin_ok();
    ipb_json_member_bool(writer, "restart", is_restart);
    reply(kernel, request, "shutdown_reply", writer);
    if (is_restart && !kernel->has_one_process)
        ipb_gateway_kernel_restart(kernel, NULL, NULL);
    else
        ask_for_end(kernel, IPB_GATEWAY_END_SHUTDOWN);
}

static void
refuse(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    answer_failure(kernel, request, "error", "NotImplementedError",
                   "this kernel does not know such requests");
}

static const struct {
    const char *msg_type;
    Handler handler;
} HANDLERS[] = {
    {"kernel_info_request", answer_kernel_info},
    {"comm_open", refuse_comm},
    {"comm_msg", ignore},
    {"comm_close", ignore},
    {"interrupt_request", answer_interrupt},
    {"shutdown_request", answer_shutdown},
};

static Handler
find_handler(const IpbGatewayRequest *request)
{
    for (size_t i = 0; i < G_N_ELEMENTS(HANDLERS); i++)
        if (is_of_type(request, HANDLERS[i].msg_type))
            return HANDLERS[i].handler;
    return refuse;
}

/* --- the queue ------------------------------------------------------------------------------- */

static void
serve_at_once(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    send_status(kernel, "busy", request);
    find_handler(request)(kernel, request);
    send_status(kernel, "idle", request);
    free_request(request);
}

static void
on_cell_done(bool aborts, void *data)
{
    IpbGatewayKernel *kernel = data;
    g_clear_pointer(&kernel->cell, ipb_gateway_cell_free);
    finish_request(kernel, aborts);
}

static void
execute(IpbGatewayKernel *kernel)
{
    kernel->cell = ipb_gateway_cell_new(&(IpbGatewayCellOptions){
        .session = kernel->session,
        .publisher = kernel->publisher,
        .request = kernel->current,
        .execution_count = &kernel->execution_count,
        .has_stale_question = &kernel->has_stale_question,
        .ends_with_kernel = kernel->has_one_process,
        .on_done = on_cell_done,
        .data = kernel,
    });
    ipb_gateway_cell_start(kernel->cell);
}

static void
start_request(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    kernel->current = request;
    set_state(kernel, STATE_BUSY);
    send_status(kernel, "busy", request);
    if (is_of_type(request, "execute_request") || (kernel->has_comms && is_of_comm(request))) {
        execute(kernel);
        return;
    }
    const char *method = find_method(request);
    if (method != NULL) {
        ask_kernel(kernel, method);
        return;
    }
    find_handler(request)(kernel, request);
    finish_request(kernel, false);
}

static void
serve_waiting(IpbGatewayKernel *kernel)
{
    if (kernel->is_serving) /* a caller's loop continues */
        return;
    kernel->is_serving = true;
    while (kernel->current == NULL && !kernel->is_closing) {
        IpbGatewayRequest *request = g_queue_pop_head(&kernel->waiting);
        if (request == NULL)
            break;
        kernel->waiting_size -= request->size;
        kernel->n_waiting_comms -= is_of_comm(request) ? 1 : 0;
        start_request(kernel, request);
    }
    kernel->is_serving = false;
}

static bool
has_room(const IpbGatewayKernel *kernel, const IpbGatewayRequest *request)
{
    guint n = g_queue_get_length((GQueue *) &kernel->waiting) - kernel->n_waiting_comms;
    return request->size <= MAX_WAITING_SIZE - kernel->waiting_size &&
           (is_of_comm(request) ? kernel->n_waiting_comms < MAX_WAITING_COMMS : n < MAX_WAITING);
}

/* A message of a comm has no reply that could say it. */
static void
refuse_too_many(IpbGatewayKernel *kernel, const IpbGatewayRequest *request)
{
    static const char why[] = "too many requests wait for this kernel";
    if (!is_of_comm(request)) {
        answer_failure(kernel, request, "error", "RuntimeError", why);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "ename", "RuntimeError");
    ipb_json_member_string(writer, "evalue", why);
    ipb_json_key(writer, "traceback");
    ipb_json_begin_array(writer);
    ipb_json_write_string(writer, why);
    ipb_json_end_array(writer);
    ipb_gateway_publisher_broadcast(kernel->publisher, "error", request->message.header, writer);
}

static void
receive(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    const char *channel = request->message.channel;
    if (kernel->is_closing || strcmp(channel, "stdin") == 0) {
        if (kernel->cell != NULL && is_of_type(request, "input_reply"))
            ipb_gateway_questions_take_reply(ipb_gateway_cell_questions(kernel->cell),
                                             request->client, request->message.content);
        free_request(request);
        return;
    }
    if (strcmp(channel, "control") == 0) {
        serve_at_once(kernel, request);
        return;
    }
    if (!has_room(kernel, request)) {
        refuse_too_many(kernel, request);
        free_request(request);
        return;
    }
    kernel->waiting_size += request->size;
    kernel->n_waiting_comms += is_of_comm(request) ? 1 : 0;
    g_queue_push_tail(&kernel->waiting, request);
    serve_waiting(kernel);
}

static void
forget_client(IpbGatewayKernel *kernel, const IpbGatewayClient *client)
{
    if (kernel->current != NULL && kernel->current->client == client) {
        kernel->current->client = NULL;
        if (kernel->cell != NULL)
            ipb_gateway_questions_lose_client(ipb_gateway_cell_questions(kernel->cell));
    }
    for (GList *link = kernel->waiting.head; link != NULL; link = link->next) {
        IpbGatewayRequest *request = link->data;
        if (request->client == client)
            request->client = NULL;
    }
}

static void
clear_requests(IpbGatewayKernel *kernel)
{
    g_clear_pointer(&kernel->current, free_request);
    g_queue_clear_full(&kernel->waiting, (GDestroyNotify) free_request);
}
/* --- clients --------------------------------------------------------------------------------- */

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
    receive(client->kernel, request);
}

/* One slow client pauses the kernel for all, so that no client loses messages. */
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
    forget_client(kernel, client);
    if (client->is_slow)
        pause_if_slow(kernel);
    watch_idling(kernel);
    g_free(client);
}

/* --- life ------------------------------------------------------------------------------------ */

static void
on_late_event(const IpbEvent *event, void *data)
{
    IpbGatewayKernel *kernel = data;
    ipb_gateway_output_send_late(kernel->publisher, event);
}

static void
on_session_event(const IpbEvent *event, void *data)
{
    const IpbGatewayKernel *kernel = data;
    if (kernel->on_event != NULL)
        kernel->on_event(event, kernel->session_data);
}

static void
on_session_log(const char *level, const char *text, void *data)
{
    const IpbGatewayKernel *kernel = data;
    if (kernel->on_log != NULL)
        kernel->on_log(level, text, kernel->session_data);
}

static void
on_approval(const IpbApprovalRequest *request, void *data)
{
    IpbGatewayKernel *kernel = data;
    if (kernel->cell != NULL)
        ipb_gateway_questions_ask_approval(ipb_gateway_cell_questions(kernel->cell), request);
    else
        ipb_session_refuse(kernel->session, request->id,
                           "it needs an approval, and no cell runs whose client could be asked");
}

static void
on_approval_withdrawn(uint64_t approval, void *data)
{
    IpbGatewayKernel *kernel = data;
    if (kernel->cell != NULL)
        ipb_gateway_questions_withdraw_approval(ipb_gateway_cell_questions(kernel->cell), approval);
}

static bool
open_session(IpbGatewayKernel *kernel, const IpbGatewayKernelOptions *options, GError **error)
{
    IpbSessionOptions session = *options->session;
    kernel->on_event = session.on_event;
    kernel->on_log = session.on_log;
    kernel->session_data = session.data;
    session.on_event = on_session_event;
    session.on_log = on_session_log;
    session.data = kernel;
    if (options->has_own_tools) {
        session.on_approval = on_approval;
        session.on_approval_withdrawn = on_approval_withdrawn;
    }
    kernel->session = ipb_session_new(kernel->runtime, &session, error);
    return kernel->session != NULL &&
           (!options->has_own_tools || ipb_session_allow_below(kernel->session, NULL, error));
}

/* What a staged session has left is named in the log. */
static void
free_session(IpbGatewayKernel *kernel)
{
    g_autofree char *layer =
        kernel->session != NULL ? g_strdup(ipb_session_layer(kernel->session)) : NULL;
    ipb_session_free(kernel->session);
    g_autofree char *owner = g_strdup_printf("kernel %s", kernel->id);
    g_autofree char *text = ipb_staged_workspace_left_text(layer, owner);
    if (text != NULL && kernel->on_log != NULL)
        kernel->on_log("warning", text, kernel->session_data);
}

IpbGatewayKernel *
ipb_gateway_kernel_new(IpbRuntime *runtime, const IpbGatewayKernelOptions *options, GError **error)
{
    IpbGatewayKernel *kernel = g_new0(IpbGatewayKernel, 1);
    kernel->id = g_strdup(options->id);
    kernel->name = g_strdup(options->name);
    kernel->working_dir = g_strdup(options->session->working_dir);
    kernel->runtime = ipb_runtime_ref(runtime);
    kernel->loop = ipb_runtime_loop(runtime);
    kernel->publisher = ipb_gateway_publisher_new(kernel->id, &PUBLISHER_FUNCS, kernel);
    kernel->clients = g_ptr_array_new();
    g_queue_init(&kernel->waiting);
    kernel->idle_s = options->idle_s;
    kernel->culls_connected = options->culls_connected;
    kernel->has_one_process = options->has_one_process;
    kernel->has_comms = options->session->has_rich_client;
    kernel->on_end = options->on_end;
    kernel->data = options->data;
    if (!open_session(kernel, options, error)) {
        ipb_gateway_kernel_free(kernel);
        return NULL;
    }
    if (options->session->has_rich_client) /* else later cells have it */
        ipb_session_watch_late_output(kernel->session, on_late_event, kernel);
    ipb_session_start(kernel->session, /* rehearses= */ false);
    set_state(kernel, STATE_STARTING);
    return kernel;
}

const char *
ipb_gateway_kernel_id(const IpbGatewayKernel *kernel)
{
    return kernel->id;
}

IpbSession *
ipb_gateway_kernel_session(IpbGatewayKernel *kernel)
{
    return kernel->session;
}

void
ipb_gateway_kernel_set_seeding(IpbGatewayKernel *kernel, bool is_seeding)
{
    kernel->is_seeding = is_seeding;
    watch_idling(kernel);
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
        [STATE_STARTING] = "starting",
        [STATE_IDLE] = "idle",
        [STATE_BUSY] = "busy",
        [STATE_RESTARTING] = "restarting",
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
ipb_gateway_kernel_close(IpbGatewayKernel *kernel, void (*done)(void *data), void *data)
{
    kernel->is_closing = true;
    watch_idling(kernel);
    abort_executions(kernel, NULL);
    /* Not if a front end has started the process, perhaps to start the next one: JupyterLab would
     * not use that any more. */
    if (!kernel->has_one_process)
        send_status(kernel, "dead", NULL);
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
    free_session(kernel);
    ipb_timer_free(kernel->idle_timer);
    ipb_timer_free(kernel->end_timer);
    clear_requests(kernel);
    ipb_gateway_cell_free(kernel->cell);
    ipb_gateway_publisher_free(kernel->publisher);
    g_ptr_array_unref(kernel->clients);
    ipb_runtime_unref(kernel->runtime);
    g_free(kernel->info);
    g_free(kernel->id);
    g_free(kernel->name);
    g_free(kernel->working_dir);
    g_free(kernel);
}
