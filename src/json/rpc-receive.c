/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages from the other side: what each is, and the requests among them until they are answered.
 * A message with a method is a request or a notification, any other one an answer.
 */
#include "json/rpc-private.h"

#include <string.h>

#include "base/error.h"

/* Requests of the other side that wait for our answer; more are refused. */
#define MAX_OPEN_REQUESTS 10000

struct IpbRpcRequest {
    int references;
    IpbRpcPeer *peer;
    IpbJsonDoc *doc;
    const char *method;    /* in @doc */
    const IpbJson *params; /* in @doc, or NULL */
    char *id;
    bool is_answered;
};

/* A message while it is looked at. */
typedef struct {
    const char *text;
    size_t size;
    IpbJsonDoc *doc; /* NULL if it is not even JSON, or once somebody took it */
    const IpbJson *root, *id, *method, *result, *error;
} Message;

static void
clear_message(Message *message)
{
    ipb_json_doc_free(message->doc);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Message, clear_message)

static void
send_error(IpbRpcPeer *peer, const char *id, size_t id_size, int code, const char *text,
           const char *data_json)
{
    IpbJsonWriter *writer = ipb_rpc_peer_begin_message();
    if (id != NULL) {
        ipb_json_key(writer, "id");
        ipb_json_write_raw(writer, id, id_size);
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
    ipb_rpc_peer_send(peer, writer);
}

static bool
is_valid_id(const IpbJson *id)
{
    return ipb_json_is(id, IPB_JSON_NUMBER) || ipb_json_is(id, IPB_JSON_STRING);
}

/* Our ids are integers; some servers give them back as a string. */
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

/* The call to which an answer came that cannot be used. @id_json may be NULL. */
static void
fail_call(IpbRpcPeer *peer, const char *id_json, const GError *why)
{
    int64_t id;
    g_autoptr(IpbJsonDoc) doc =
        id_json != NULL ? ipb_json_parse(id_json, strlen(id_json), &IPB_JSON_LIMITS_SMALL, NULL)
                        : NULL;
    if (doc != NULL && read_own_id(ipb_json_root(doc), &id))
        ipb_rpc_fail(peer, id, why);
}

/* Tells the owner of an invalid message and, if that is wanted, the other side. What could be an
 * answer is never answered: two peers would go on for ever. But the call that waits for it ends. */
static void
reject(IpbRpcPeer *peer, const Message *message, int code, const GError *why)
{
    IpbSpan id = ipb_json_raw(is_valid_id(message->id) ? message->id : NULL);
    g_autofree char *found = NULL;
    IpbRpcOutline outline = {0};
    if (code ==
        IPB_RPC_PARSE_ERROR) { /* a request that is nested too deeply, say, waits for its answer */
        ipb_rpc_outline_add(&outline, message->text, message->size);
        found = ipb_rpc_outline_id(&outline);
        id = (IpbSpan){found, found != NULL ? strlen(found) : 0};
    }
    if (peer->options.answer_invalid && message->result == NULL && message->error == NULL &&
        !outline.has_answer)
        send_error(peer, id.start, id.size, code, why->message, NULL);
    if (peer->options.answer_invalid && outline.has_answer && !outline.has_method)
        fail_call(peer, found, why);
    if (peer->funcs.on_invalid != NULL && !peer->is_freed)
        peer->funcs.on_invalid(why, message->text, message->size, peer->data);
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

static void
handle_request(IpbRpcPeer *peer, Message *message, const char *method, const IpbJson *params)
{
    IpbSpan id = ipb_json_raw(message->id);
    if (peer->open_requests >= MAX_OPEN_REQUESTS) {
        send_error(peer, id.start, id.size, IPB_RPC_INTERNAL_ERROR,
                   "too many requests wait for an answer", NULL);
        return;
    }
    g_autoptr(IpbRpcRequest) request = g_new0(IpbRpcRequest, 1);
    *request = (IpbRpcRequest){
        .references = 1,
        .peer = ipb_rpc_peer_ref(peer),
        .doc = g_steal_pointer(&message->doc),
        .method = method,
        .params = params,
        .id = g_strndup(id.start, id.size),
    };
    peer->open_requests++;
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

static void
handle_answer(IpbRpcPeer *peer, Message *message)
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
    IpbRpcCall *call = ipb_rpc_peer_find_call(peer, id);
    if (call == NULL)
        return; /* cancelled or timed out meanwhile */

    /* Some servers send both members always, one of them null. */
    const IpbJson *result = message->result, *error = message->error;
    if (ipb_json_is(error, IPB_JSON_NULL))
        error = NULL;
    else if (error != NULL && ipb_json_is(result, IPB_JSON_NULL))
        result = NULL;
    GError *failure = NULL;
    if (result != NULL && error != NULL)
        failure = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                              "the answer has both a result and an error");
    else if (result == NULL && error == NULL)
        failure = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                              "the answer has neither a result nor an error");
    else if (error != NULL && !ipb_json_is(error, IPB_JSON_OBJECT))
        failure = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                              "the \"error\" of the answer is no object");
    if (failure != NULL)
        result = error = NULL;
    ipb_rpc_peer_end_call(peer, call, g_steal_pointer(&message->doc), result, error, failure);
}

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
        handle_answer(peer, message);
    else
        reject_with(peer, message,
                    "a message must have a \"method\", a \"result\" or an \"error\"");
}

void
ipb_rpc_peer_receive(IpbRpcPeer *peer, const char *text, size_t size)
{
    if (peer->is_freed)
        return;
    ipb_rpc_peer_ref(peer);
    {
        g_autoptr(GError) error = NULL;
        g_auto(Message) message = {.text = text, .size = size};
        message.doc = ipb_json_parse(text, size, &peer->options.limits, &error);
        if (message.doc != NULL)
            handle_message(peer, &message);
        else
            reject(peer, &message, IPB_RPC_PARSE_ERROR, error);
    }
    ipb_rpc_peer_unref(peer);
}

/* What could be an answer is never answered, and nor is a notification. */
static void
refuse_skipped(IpbRpcPeer *peer, size_t max_size)
{
    const IpbRpcOutline *skipped = &peer->skipped;
    g_autofree char *id = ipb_rpc_outline_id(skipped);
    g_autoptr(GError) why =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the message is longer than the maximum of %zu bytes", max_size);
    if (skipped->has_answer && !skipped->has_method) {
        fail_call(peer, id, why);
    } else if (peer->options.answer_invalid && (id != NULL || !skipped->has_method)) {
        ipb_rpc_peer_refuse(peer, id, IPB_RPC_INVALID_REQUEST, why->message,
                            "{\"kind\":\"limit\"}");
    }
    if (peer->funcs.on_invalid != NULL && !peer->is_freed)
        peer->funcs.on_invalid(why, "", 0, peer->data);
}

void
ipb_rpc_peer_skip(IpbRpcPeer *peer, const char *bytes, size_t size, bool is_last, size_t max_size)
{
    if (peer->is_freed)
        return;
    ipb_rpc_outline_add(&peer->skipped, bytes, size);
    if (!is_last)
        return;
    ipb_rpc_peer_ref(peer);
    refuse_skipped(peer, max_size);
    peer->skipped = (IpbRpcOutline){0};
    ipb_rpc_peer_unref(peer);
}

void
ipb_rpc_peer_refuse(IpbRpcPeer *peer, const char *id_json, int code, const char *message,
                    const char *data_json)
{
    send_error(peer, id_json, id_json != NULL ? strlen(id_json) : 0, code, message, data_json);
}

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
    ipb_rpc_peer_unref(request->peer);
    g_free(request->id);
    g_free(request);
}

/* The first answer counts. */
static bool
begin_answer(IpbRpcRequest *request)
{
    if (request->is_answered)
        return false;
    request->is_answered = true;
    request->peer->open_requests--;
    return true;
}

void
ipb_rpc_request_reply(IpbRpcRequest *request, const char *result_json, size_t size)
{
    if (!begin_answer(request))
        return;
    IpbJsonWriter *writer = ipb_rpc_peer_begin_message();
    ipb_json_key(writer, "id");
    ipb_json_write_raw(writer, request->id, strlen(request->id));
    ipb_json_key(writer, "result");
    ipb_json_write_raw(writer, result_json, size);
    ipb_rpc_peer_send(request->peer, writer);
}

void
ipb_rpc_request_fail(IpbRpcRequest *request, int code, const char *message, const char *data_json)
{
    if (begin_answer(request))
        send_error(request->peer, request->id, strlen(request->id), code, message, data_json);
}

void
ipb_rpc_request_drop(IpbRpcRequest *request)
{
    begin_answer(request);
}
