/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to a kernel of the gateway: those on the shell channel are served one after the other in the order in which they came, whoever sent
 * them; those on the control channel at once. Each is told to all as busy and idle, and answered to who asked.
 *
 * Invariant: while kernel->current is set, that request is being served, and ipb_gateway_requests_finish ends it.
 */
#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "serve/gateway/kernel-private.h"

/* What waits for one kernel. */
#define MAX_WAITING 1000
#define MAX_WAITING_SIZE (256u * 1024 * 1024)
#define PROTOCOL_VERSION "5.3"
#define MAX_INFO_SIZE (64u * 1024)
static const char DEFAULT_INFO[] =
    "{\"implementation\":\"ipybox\",\"implementation_version\":\"" IPYBOX_VERSION
    "\",\"banner\":\"\",\"help_links\":[],\"language_info\":{\"name\":\"python\","
    "\"version\":\"3\",\"mimetype\":\"text/x-python\",\"file_extension\":\".py\"}}";

typedef void (*Handler)(IpbGatewayKernel *kernel, IpbGatewayRequest *request);

static void serve_next(IpbGatewayKernel *kernel);

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

/* "execute_request" → "execute_reply"; NULL: it is none that is answered. Caller frees. */
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
    ipb_gateway_kernel_answer(kernel, request, type, writer);
}

/* --- what the kernel knows --------------------------------------------------------------------- */

/* The members of @result are those of the reply. */
static void
answer_ok(IpbGatewayKernel *kernel, const IpbGatewayRequest *request, const IpbJson *result)
{
    g_autofree char *type = reply_type(request);
    IpbJsonWriter *writer = is_of_type(request, "is_complete_request")
                                ? ipb_json_writer_new() /* its status is another one */
                                : ipb_gateway_content_new();
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
    ipb_gateway_kernel_answer(kernel, request, type, writer);
}

/* For those who ask while a cell runs, and the kernel has no ear for questions. */
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
    ipb_gateway_requests_finish(kernel, false);
}

/* The method that answers such requests; NULL: none does. */
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

/* The current request: on_reply ends it, or it has ended. */
static void
ask_kernel(IpbGatewayKernel *kernel, const char *method)
{
    IpbSpan raw = ipb_json_raw(kernel->current->message.content);
    g_autofree char *params = g_strndup(raw.start, raw.size);
    g_autoptr(GError) error = NULL;
    if (ipb_session_request(kernel->session, method, params, on_reply, kernel, &error))
        return;
    answer_failure(kernel, kernel->current, "error", "RuntimeError", error->message);
    ipb_gateway_requests_finish(kernel, false);
}

/* --- what is answered at once ------------------------------------------------------------------ */

/* On the control channel nothing waits: what the kernel said the last time, or the little that is always so. */
static void
answer_kernel_info(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    const char *info = kernel->info != NULL ? kernel->info : DEFAULT_INFO;
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(info, strlen(info), &IPB_JSON_LIMITS_SMALL, NULL);
    if (doc != NULL)
        answer_ok(kernel, request, ipb_json_root(doc));
}

/* A comm that nobody takes is closed, as Jupyter's kernels do. */
static void
refuse_comm(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_value(writer, "comm_id", ipb_json_get(request->message.content, "comm_id"));
    ipb_json_key(writer, "data");
    ipb_json_begin_object(writer);
    ipb_json_end_object(writer);
    ipb_gateway_kernel_broadcast(kernel, "comm_close", request->message.header, writer);
}

static void
ignore(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
}

static void
answer_interrupt(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    ipb_gateway_kernel_interrupt(kernel);
    ipb_gateway_kernel_answer(kernel, request, "interrupt_reply", ipb_gateway_content_new());
}

static void
answer_shutdown(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    bool is_restart = ipb_json_get_bool(request->message.content, "restart", false);
    IpbJsonWriter *writer = ipb_gateway_content_new();
    ipb_json_member_bool(writer, "restart", is_restart);
    ipb_gateway_kernel_answer(kernel, request, "shutdown_reply", writer);
    if (is_restart)
        ipb_gateway_kernel_restart(kernel, NULL, NULL);
    else
        ipb_gateway_kernel_ask_for_end(kernel, IPB_GATEWAY_END_SHUTDOWN);
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

/* --- the queue --------------------------------------------------------------------------------- */

static void
serve_at_once(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    ipb_gateway_kernel_tell_status(kernel, "busy", request->message.header);
    find_handler(request)(kernel, request);
    ipb_gateway_kernel_tell_status(kernel, "idle", request->message.header);
    free_request(request);
}

static void
start_request(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    kernel->current = request;
    ipb_gateway_kernel_set_state(kernel, IPB_GATEWAY_STATE_BUSY);
    ipb_gateway_kernel_tell_status(kernel, "busy", request->message.header);
    if (is_of_type(request, "execute_request")) {
        ipb_gateway_cell_start(kernel);
        return;
    }
    const char *method = find_method(request);
    if (method != NULL) {
        ask_kernel(kernel, method);
        return;
    }
    find_handler(request)(kernel, request);
    ipb_gateway_requests_finish(kernel, false);
}

static void
serve_next(IpbGatewayKernel *kernel)
{
    if (kernel->is_serving) /* the loop below goes on */
        return;
    kernel->is_serving = true;
    while (kernel->current == NULL && !kernel->is_closing) {
        IpbGatewayRequest *request = g_queue_pop_head(&kernel->waiting);
        if (request == NULL)
            break;
        kernel->waiting_size -= request->size;
        start_request(kernel, request);
    }
    kernel->is_serving = false;
}

void
ipb_gateway_requests_finish(IpbGatewayKernel *kernel, bool aborts)
{
    IpbGatewayRequest *request = g_steal_pointer(&kernel->current);
    ipb_gateway_kernel_set_state(kernel, IPB_GATEWAY_STATE_IDLE);
    ipb_gateway_kernel_tell_status(kernel, "idle", request->message.header);
    if (aborts && request->client != NULL)
        ipb_gateway_requests_abort(kernel, request->client);
    free_request(request);
    serve_next(kernel);
}

void
ipb_gateway_requests_receive(IpbGatewayKernel *kernel, IpbGatewayRequest *request)
{
    const char *channel = request->message.channel;
    if (kernel->is_closing || strcmp(channel, "stdin") == 0) { /* nobody asked for input */
        free_request(request);
        return;
    }
    if (strcmp(channel, "control") == 0) {
        serve_at_once(kernel, request);
        return;
    }
    if (g_queue_get_length(&kernel->waiting) >= MAX_WAITING ||
        request->size > MAX_WAITING_SIZE - kernel->waiting_size) {
        answer_failure(kernel, request, "error", "RuntimeError",
                       "too many requests wait for this kernel");
        free_request(request);
        return;
    }
    kernel->waiting_size += request->size;
    g_queue_push_tail(&kernel->waiting, request);
    serve_next(kernel);
}

void
ipb_gateway_requests_abort(IpbGatewayKernel *kernel, const IpbGatewayClient *client)
{
    for (GList *link = kernel->waiting.head, *next; link != NULL; link = next) {
        next = link->next;
        IpbGatewayRequest *request = link->data;
        if ((client != NULL && request->client != client) ||
            !is_of_type(request, "execute_request"))
            continue;
        g_queue_delete_link(&kernel->waiting, link);
        kernel->waiting_size -= request->size;
        ipb_gateway_kernel_tell_status(kernel, "busy", request->message.header);
        answer_failure(kernel, request, "aborted", "Aborted", "an earlier cell has failed");
        ipb_gateway_kernel_tell_status(kernel, "idle", request->message.header);
        free_request(request);
    }
}

void
ipb_gateway_requests_forget_client(IpbGatewayKernel *kernel, const IpbGatewayClient *client)
{
    if (kernel->current != NULL && kernel->current->client == client)
        kernel->current->client = NULL;
    for (GList *link = kernel->waiting.head; link != NULL; link = link->next) {
        IpbGatewayRequest *request = link->data;
        if (request->client == client)
            request->client = NULL;
    }
}

void
ipb_gateway_requests_clear(IpbGatewayKernel *kernel)
{
    g_clear_pointer(&kernel->current, free_request);
    g_queue_clear_full(&kernel->waiting, (GDestroyNotify) free_request);
}
