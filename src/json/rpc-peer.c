/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON-RPC peer; see the header.
 *
 * A call has three states: it is in @calls while it waits, in @ended when its answer is known, and
 * freed when its function was called. The function is called at once, except while
 * ipb_rpc_peer_call runs (it must not be called from within) and after a cancellation; then it is
 * called from the loop.
 *
 * Any callback may free the peer. Its structure is reference-counted: by its owner, by requests,
 * and by each function that continues after a callback. After the free it is an empty shell with
 * @is_freed.
 */
#include "json/rpc-peer.h"

#include <string.h>

#include "base/error.h"
#include "json/rpc-outline.h"

/* Calls that wait for a response. */
#define MAX_PENDING_CALLS 10000
/* Requests of the other side that wait for our response; more are refused. */
#define MAX_OPEN_REQUESTS 10000

typedef struct {
    IpbRpcPeer *peer;
    int64_t id;
    char *method;
    unsigned timeout_ms;
    IpbTimer *timer;
    IpbRpcAnswerFunc func;
    void *data;
    /* When it has ended: */
    IpbJsonDoc *doc;
    const IpbJson *result, *rpc_error;
    GError *failure;
} Call;

struct IpbRpcPeer {
    int references;
    bool is_freed;
    IpbLoop *loop;
    IpbRpcPeerOptions options;
    IpbRpcPeerFuncs funcs;
    void *data;

    int64_t last_id;
    /* id → Call that waits for its response */
    GHashTable *calls;
    /* Call whose function is still to be called, and the timer that does it from the loop */
    GQueue ended;
    IpbTimer *ended_timer;
    /* How many ipb_rpc_peer_call are running. No function is called while one is. */
    unsigned n_calling;

    /* Requests of the other side that are not answered yet */
    unsigned n_open_requests;
    /* Of the message that is being skipped */
    IpbRpcOutline skipped;
};

struct IpbRpcRequest {
    int references;
    IpbRpcPeer *peer;
    IpbJsonDoc *doc;
    /* Both point into @doc; @params may be NULL. */
    const char *method;
    const IpbJson *params;
    char *id;
    bool is_answered;
};

/* A received message while it is examined. */
typedef struct {
    const char *text;
    size_t size;
    /* NULL if it is not JSON, and when a request or an answer has taken it */
    IpbJsonDoc *doc;
    const IpbJson *root, *id, *method, *result, *error;
} Message;

static void
clear_message(Message *message)
{
    ipb_json_doc_free(message->doc);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Message, clear_message)

/* --- life ------------------------------------------------------------------------------------- */

static IpbRpcPeer *
ref_peer(IpbRpcPeer *peer)
{
    peer->references++;
    return peer;
}

static void
unref_peer(IpbRpcPeer *peer)
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

/* --- sending ---------------------------------------------------------------------------------- */

/* A writer in which the message has begun: {"jsonrpc":"2.0" */
static IpbJsonWriter *
begin_message(void)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "jsonrpc", "2.0");
    return writer;
}

/* Sends the message that @writer holds, and frees the writer. A freed peer sends nothing.
 * @message: what is to be sent, without its text. */
static void
send_message(IpbRpcPeer *peer, IpbJsonWriter *writer, IpbRpcMessage message)
{
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, &message.size);
    message.text = text;
    if (!peer->is_freed)
        peer->funcs.send(&message, peer->data);
}

static void
send_error(IpbRpcPeer *peer, const char *id_json, int code, const char *text, const char *data_json)
{
    IpbJsonWriter *writer = begin_message();
    if (id_json != NULL) {
        ipb_json_key(writer, "id");
        ipb_json_write_raw(writer, id_json, strlen(id_json));
    }
    ipb_json_key(writer, "error");
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "code", code);
    ipb_json_member_string(writer, "message", text);
    if (data_json != NULL) {
        ipb_json_key(writer, "data");
        ipb_json_write_raw(writer, data_json, strlen(data_json));
    }
    ipb_json_end_object(writer);
    send_message(
        peer, writer,
        (IpbRpcMessage){.kind = IPB_RPC_RESPONSE, .request_id = id_json, .error_code = code});
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

void
ipb_rpc_peer_notify_within(IpbRpcPeer *peer, const char *request_id, const char *method,
                           const char *params_json)
{
    IpbJsonWriter *writer = begin_message();
    write_method(writer, method, params_json);
    send_message(peer, writer,
                 (IpbRpcMessage){.kind = IPB_RPC_NOTIFICATION, .request_id = request_id});
}

void
ipb_rpc_peer_notify(IpbRpcPeer *peer, const char *method, const char *params_json)
{
    ipb_rpc_peer_notify_within(peer, NULL, method, params_json);
}

void
ipb_rpc_peer_refuse(IpbRpcPeer *peer, const char *id_json, int code, const char *message,
                    const char *data_json)
{
    send_error(peer, id_json, code, message, data_json);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void
free_call(Call *call)
{
    ipb_timer_free(call->timer);
    ipb_json_doc_free(call->doc);
    g_clear_error(&call->failure);
    g_free(call->method);
    g_free(call);
}

/* Calls the call's function, and frees it. */
static void
report(Call *call)
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

static void report_later(IpbRpcPeer *peer);

/* Reports the calls that have ended by now. A callback may make calls that fail at once; those are
 * reported from the loop. */
static void
report_ended(IpbRpcPeer *peer)
{
    ref_peer(peer);
    Call *call;
    for (guint n = peer->ended.length; n > 0 && (call = g_queue_pop_head(&peer->ended)); n--)
        report(call);
    report_later(peer);
    unref_peer(peer);
}

static void
on_ended_timer(void *data)
{
    IpbRpcPeer *peer = data;
    g_clear_pointer(&peer->ended_timer, ipb_timer_free);
    report_ended(peer);
}

static void
report_later(IpbRpcPeer *peer)
{
    if (peer->ended.length > 0 && peer->ended_timer == NULL && !peer->is_freed)
        peer->ended_timer = ipb_timer_new(peer->loop, 0, on_ended_timer, peer);
}

/* Moves the call from @calls to @ended, and reports nothing yet. Takes @failure. */
static void
fail_call(Call *call, GError *failure)
{
    g_hash_table_remove(call->peer->calls, &call->id);
    g_clear_pointer(&call->timer, ipb_timer_free);
    call->failure = failure;
    g_queue_push_tail(&call->peer->ended, call);
}

/* Ends a waiting call with a response, of which one of @result and @rpc_error is set, or with
 * @failure; takes @doc and @failure. May run callbacks. */
static void
end_call(IpbRpcPeer *peer, Call *call, IpbJsonDoc *doc, const IpbJson *result,
         const IpbJson *rpc_error, GError *failure)
{
    call->doc = doc;
    call->result = result;
    call->rpc_error = rpc_error;
    fail_call(call, failure);
    if (peer->n_calling > 0)
        report_later(peer);
    else
        report_ended(peer);
}

static int
compare_calls(const void *a, const void *b)
{
    const Call *one = a, *other = b;
    return one->id < other->id ? -1 : one->id > other->id;
}

/* All waiting calls, the oldest first. */
static void
fail_all_calls(IpbRpcPeer *peer, const GError *why)
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
    fail_all_calls(peer, why);
    for (Call *call; (call = g_queue_pop_head(&peer->ended)) != NULL;)
        report(call);
    unref_peer(peer);
}

static void
on_timeout(void *data)
{
    Call *call = data;
    GError *failure =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT, "no answer to %s within %g seconds",
                    call->method, call->timeout_ms / 1000.0);
    end_call(call->peer, call, NULL, NULL, NULL, failure);
}

static void
restart_timer(Call *call)
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

static void
send_call(Call *call, const char *request_id, const char *params_json)
{
    IpbRpcPeer *peer = call->peer;
    IpbJsonWriter *writer = begin_message();
    ipb_json_member_int(writer, "id", call->id);
    write_method(writer, call->method, params_json);
    ref_peer(peer);
    peer->n_calling++;
    /* This may receive the answer, and even free the peer. */
    send_message(peer, writer, (IpbRpcMessage){.kind = IPB_RPC_REQUEST, .request_id = request_id});
    peer->n_calling--;
    unref_peer(peer);
}

int64_t
ipb_rpc_peer_call_within(IpbRpcPeer *peer, const char *request_id, const char *method,
                         const char *params_json, unsigned timeout_ms, IpbRpcAnswerFunc func,
                         void *data)
{
    Call *call = g_new0(Call, 1);
    int64_t id = ++peer->last_id;
    *call = (Call){
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
        report_later(peer);
        return id;
    }
    g_hash_table_insert(peer->calls, &call->id, call);
    restart_timer(call);
    send_call(call, request_id, params_json);
    return id;
}

int64_t
ipb_rpc_peer_call(IpbRpcPeer *peer, const char *method, const char *params_json,
                  unsigned timeout_ms, IpbRpcAnswerFunc func, void *data)
{
    return ipb_rpc_peer_call_within(peer, NULL, method, params_json, timeout_ms, func, data);
}

static Call *
find_call(IpbRpcPeer *peer, int64_t id)
{
    return g_hash_table_lookup(peer->calls, &id);
}

bool
ipb_rpc_peer_cancel_call(IpbRpcPeer *peer, int64_t id)
{
    Call *call = find_call(peer, id);
    if (call == NULL)
        return false;
    fail_call(call,
              g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "%s was cancelled", call->method));
    report_later(peer);
    return true;
}

bool
ipb_rpc_peer_fail_call(IpbRpcPeer *peer, int64_t id, const GError *why)
{
    Call *call = find_call(peer, id);
    if (call == NULL)
        return false;
    end_call(peer, call, NULL, NULL, NULL, g_error_copy(why));
    return true;
}

int64_t
ipb_rpc_peer_next_id(const IpbRpcPeer *peer)
{
    return peer->last_id + 1;
}

void
ipb_rpc_peer_touch_call(IpbRpcPeer *peer, int64_t id)
{
    Call *call = find_call(peer, id);
    if (call != NULL)
        restart_timer(call);
}

/* --- malformed messages ----------------------------------------------------------------------- */

static bool
is_valid_id(const IpbJson *id)
{
    return ipb_json_is(id, IPB_JSON_NUMBER) || ipb_json_is(id, IPB_JSON_STRING);
}

/* The text of a valid id; NULL if it is none. Caller frees. */
static char *
copy_id(const IpbJson *id)
{
    IpbSpan raw = ipb_json_raw(id);
    return is_valid_id(id) ? g_strndup(raw.start, raw.size) : NULL;
}

/* Our ids are integers; some servers send them back as a string. */
static bool
read_own_id(const IpbJson *id, int64_t *ret_id)
{
    size_t size;
    const char *text = ipb_json_string(id, &size);
    if (text == NULL)
        return ipb_json_int64(id, ret_id);
    guint64 number;
    if (strlen(text) != size || !g_ascii_string_to_unsigned(text, 10, 1, INT64_MAX, &number, NULL))
        return false;
    *ret_id = (int64_t) number;
    return true;
}

/* The response to this call came, but cannot be used. @id_json may be NULL. */
static void
fail_call_by_id(IpbRpcPeer *peer, const char *id_json, const GError *why)
{
    int64_t id;
    g_autoptr(IpbJsonDoc) doc =
        id_json != NULL ? ipb_json_parse(id_json, strlen(id_json), &IPB_JSON_LIMITS_SMALL, NULL)
                        : NULL;
    if (doc != NULL && read_own_id(ipb_json_root(doc), &id))
        ipb_rpc_peer_fail_call(peer, id, why);
}

static void
report_invalid(IpbRpcPeer *peer, const GError *why, const char *text, size_t size)
{
    if (peer->funcs.on_invalid != NULL && !peer->is_freed)
        peer->funcs.on_invalid(why, text, size, peer->data);
}

/* Reports a malformed message to the owner and, if the options say so, to the other side. What may
 * be a response is never answered, because two peers would then answer each other without end. But
 * the call that waits for it ends. */
static void
reject(IpbRpcPeer *peer, const Message *message, int code, const GError *why)
{
    g_autofree char *id = copy_id(message->id);
    IpbRpcOutline outline = {0};
    if (code == IPB_RPC_PARSE_ERROR) {
        /* For example, a request that is nested too deeply. Its sender waits for a response. */
        ipb_rpc_outline_add(&outline, message->text, message->size);
        id = ipb_rpc_outline_id(&outline);
    }
    if (peer->options.answer_invalid && message->result == NULL && message->error == NULL &&
        !outline.has_answer)
        send_error(peer, id, code, why->message, NULL);
    if (peer->options.answer_invalid && outline.has_answer && !outline.has_method)
        fail_call_by_id(peer, id, why);
    report_invalid(peer, why, message->text, message->size);
}

static void reject_with(IpbRpcPeer *peer, const Message *message, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static void
reject_with(IpbRpcPeer *peer, const Message *message, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autoptr(GError) why = g_error_new_valist(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, format, args);
    va_end(args);
    reject(peer, message, IPB_RPC_INVALID_REQUEST, why);
}

/* What may be a response is never answered, and a notification is not either. */
static void
refuse_skipped(IpbRpcPeer *peer, size_t max_size)
{
    const IpbRpcOutline *skipped = &peer->skipped;
    g_autofree char *id = ipb_rpc_outline_id(skipped);
    g_autoptr(GError) why =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the message is longer than the maximum of %zu bytes", max_size);
    if (skipped->has_answer && !skipped->has_method)
        fail_call_by_id(peer, id, why);
    else if (peer->options.answer_invalid && (id != NULL || !skipped->has_method))
        send_error(peer, id, IPB_RPC_INVALID_REQUEST, why->message, "{\"kind\":\"limit\"}");
    report_invalid(peer, why, "", 0);
}

void
ipb_rpc_peer_skip(IpbRpcPeer *peer, const char *bytes, size_t size, bool is_last, size_t max_size)
{
    if (peer->is_freed)
        return;
    ipb_rpc_outline_add(&peer->skipped, bytes, size);
    if (!is_last)
        return;
    ref_peer(peer);
    refuse_skipped(peer, max_size);
    peer->skipped = (IpbRpcOutline){0};
    unref_peer(peer);
}

/* --- received messages ------------------------------------------------------------------------ */

static void
handle_request(IpbRpcPeer *peer, Message *message, const char *method, const IpbJson *params)
{
    g_autofree char *id = copy_id(message->id);
    if (peer->n_open_requests >= MAX_OPEN_REQUESTS) {
        send_error(peer, id, IPB_RPC_INTERNAL_ERROR, "too many requests wait for an answer", NULL);
        return;
    }
    g_autoptr(IpbRpcRequest) request = g_new0(IpbRpcRequest, 1);
    *request = (IpbRpcRequest){
        .references = 1,
        .peer = ref_peer(peer),
        .doc = g_steal_pointer(&message->doc),
        .method = method,
        .params = params,
        .id = g_steal_pointer(&id),
    };
    peer->n_open_requests++;
    if (peer->funcs.on_request != NULL) {
        peer->funcs.on_request(request, peer->data);
    } else {
        g_autofree char *text = g_strdup_printf("there is no method \"%s\"", method);
        ipb_rpc_request_fail(request, IPB_RPC_METHOD_NOT_FOUND, text, NULL);
    }
}

static void
handle_method(IpbRpcPeer *peer, Message *message)
{
    const char *method = ipb_json_get_string(message->root, "method");
    const IpbJson *params = ipb_json_get(message->root, "params");
    if (ipb_json_is(params, IPB_JSON_NULL))
        params = NULL;
    if (method == NULL)
        reject_with(peer, message, "\"method\" must be a string");
    else if (message->result != NULL || message->error != NULL)
        reject_with(peer, message, "a message cannot be both a request and an answer");
    else if (params != NULL && !ipb_json_is(params, IPB_JSON_OBJECT) &&
             !ipb_json_is(params, IPB_JSON_ARRAY))
        reject_with(peer, message, "\"params\" must be an object or an array");
    else if (message->id != NULL && !is_valid_id(message->id))
        reject_with(peer, message, "the \"id\" of a request must be a string or a number");
    else if (message->id != NULL)
        handle_request(peer, message, method, params);
    else if (peer->funcs.on_notification != NULL)
        peer->funcs.on_notification(method, params, peer->data);
}

/* Why the response cannot be used; NULL if it can. */
static const char *
find_fault(const IpbJson *result, const IpbJson *error)
{
    if (result != NULL && error != NULL)
        return "the answer has both a result and an error";
    if (result == NULL && error == NULL)
        return "the answer has neither a result nor an error";
    if (error != NULL && !ipb_json_is(error, IPB_JSON_OBJECT))
        return "the \"error\" of the answer is not an object";
    return NULL;
}

static void
handle_response(IpbRpcPeer *peer, Message *message)
{
    int64_t id;
    if (message->id == NULL || ipb_json_is(message->id, IPB_JSON_NULL)) {
        const char *text = ipb_json_get_string(message->error, "message");
        reject_with(peer, message, "an answer without an id%s%s", text != NULL ? ": " : "",
                    text != NULL ? text : "");
        return;
    }
    if (!read_own_id(message->id, &id) || id < 1 || id > peer->last_id) {
        reject_with(peer, message, "an answer to no call");
        return;
    }
    Call *call = find_call(peer, id);
    if (call == NULL)
        return; /* it was cancelled, or it timed out */

    /* Some servers always send both members, one of them null. */
    const IpbJson *result = message->result, *error = message->error;
    if (ipb_json_is(error, IPB_JSON_NULL))
        error = NULL;
    else if (error != NULL && ipb_json_is(result, IPB_JSON_NULL))
        result = NULL;
    const char *fault = find_fault(result, error);
    GError *failure = NULL;
    if (fault != NULL) {
        failure = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, fault);
        result = error = NULL;
    }
    end_call(peer, call, g_steal_pointer(&message->doc), result, error, failure);
}

/* A message with a method is a request or a notification; any other message is a response. */
static void
handle_message(IpbRpcPeer *peer, Message *message)
{
    const IpbJson *root = message->root = ipb_json_root(message->doc);
    if (ipb_json_is(root, IPB_JSON_ARRAY)) {
        reject_with(peer, message, "a message must be a JSON object; batches are not supported");
        return;
    }
    if (!ipb_json_is(root, IPB_JSON_OBJECT)) {
        reject_with(peer, message, "a message must be a JSON object");
        return;
    }
    message->id = ipb_json_get(root, "id");
    message->method = ipb_json_get(root, "method");
    message->result = ipb_json_get(root, "result");
    message->error = ipb_json_get(root, "error");
    if (g_strcmp0(ipb_json_get_string(root, "jsonrpc"), "2.0") != 0)
        reject_with(peer, message, "the member \"jsonrpc\" must be \"2.0\"");
    else if (message->method != NULL)
        handle_method(peer, message);
    else if (message->id != NULL || message->result != NULL || message->error != NULL)
        handle_response(peer, message);
    else
        reject_with(peer, message,
                    "a message must have a \"method\", a \"result\" or an \"error\"");
}

void
ipb_rpc_peer_receive(IpbRpcPeer *peer, const char *text, size_t size)
{
    if (peer->is_freed)
        return;
    ref_peer(peer);
    {
        g_autoptr(GError) error = NULL;
        g_auto(Message) message = {.text = text, .size = size};
        message.doc = ipb_json_parse(text, size, &peer->options.limits, &error);
        if (message.doc != NULL)
            handle_message(peer, &message);
        else
            reject(peer, &message, IPB_RPC_PARSE_ERROR, error);
    }
    unref_peer(peer);
}

/* --- requests of the other side --------------------------------------------------------------- */

const char *
ipb_rpc_request_method(const IpbRpcRequest *request)
{
    return request->method;
}

const IpbJson *
ipb_rpc_request_params(const IpbRpcRequest *request)
{
    return request->params;
}

const char *
ipb_rpc_request_id(const IpbRpcRequest *request)
{
    return request->id;
}

IpbRpcRequest *
ipb_rpc_request_ref(IpbRpcRequest *request)
{
    request->references++;
    return request;
}

void
ipb_rpc_request_unref(IpbRpcRequest *request)
{
    if (request == NULL)
        return;
    if (request->references == 1)
        ipb_rpc_request_fail(request, IPB_RPC_INTERNAL_ERROR, "the request was not answered", NULL);
    if (--request->references > 0)
        return;
    ipb_json_doc_free(request->doc);
    unref_peer(request->peer);
    g_free(request->id);
    g_free(request);
}

/* False if it was answered before: the first answer counts. */
static bool
begin_answer(IpbRpcRequest *request)
{
    if (request->is_answered)
        return false;
    request->is_answered = true;
    request->peer->n_open_requests--;
    return true;
}

void
ipb_rpc_request_reply(IpbRpcRequest *request, const char *result_json, size_t size)
{
    if (!begin_answer(request))
        return;
    IpbJsonWriter *writer = begin_message();
    ipb_json_key(writer, "id");
    ipb_json_write_raw(writer, request->id, strlen(request->id));
    ipb_json_key(writer, "result");
    ipb_json_write_raw(writer, result_json, size);
    send_message(request->peer, writer,
                 (IpbRpcMessage){.kind = IPB_RPC_RESPONSE, .request_id = request->id});
}

void
ipb_rpc_request_fail(IpbRpcRequest *request, int code, const char *message, const char *data_json)
{
    if (begin_answer(request))
        send_error(request->peer, request->id, code, message, data_json);
}

void
ipb_rpc_request_drop(IpbRpcRequest *request)
{
    IpbRpcPeer *peer = request->peer;
    if (begin_answer(request) && peer->funcs.on_dropped != NULL && !peer->is_freed)
        peer->funcs.on_dropped(request->id, peer->data);
}
