/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that stand for themselves; see the header.
 */
#include "serve/mcp-http/stateless.h"

#include <string.h>

#include "mcp/messages.h"
#include "serve/mcp-http/refusal.h"

#define METHOD_HEADER "Mcp-Method"
#define NAME_HEADER "Mcp-Name"
/* Bytes of a header that is compared with the body. */
#define MAX_VALUE 8192
/* A value with characters that headers cannot have. */
#define ENCODED_PREFIX "=?base64?"
#define ENCODED_SUFFIX "?="

/* A request that is being handled. */
typedef struct {
    IpbMcpStateless *stateless;
    IpbMcpService *service;
    IpbMcpHttpChannel *channel;
    IpbMcpConnection *connection;
    bool is_subscription;
    bool is_over;
} Handling;

struct IpbMcpStateless {
    IpbLoop *loop;
    IpbMcpHttpBudget *budget;
    void (*on_over)(void *data);
    void *data;
    /* Handling */
    GPtrArray *open;
};

/* --- checks ----------------------------------------------------------------------------------- */

static bool
fail(IpbMcpFault *fault, int code, char *message)
{
    *fault = (IpbMcpFault){.code = code, .message = message};
    return false;
}

/* The value of a header, decoded; NULL: it is missing or malformed. Caller frees. */
static char *
read_header(const IpbHttpHead *head, const char *name)
{
    IpbSpan value;
    if (!ipb_http_head_get(head, name, &value) || value.size > MAX_VALUE)
        return NULL;
    g_autofree char *text = g_strndup(value.start, value.size);
    if (!g_str_has_prefix(text, ENCODED_PREFIX))
        return g_steal_pointer(&text);
    size_t size = strlen(text), prefix = strlen(ENCODED_PREFIX), suffix = strlen(ENCODED_SUFFIX);
    if (size < prefix + suffix || !g_str_has_suffix(text, ENCODED_SUFFIX))
        return NULL;
    text[size - suffix] = '\0';
    g_autofree guchar *bytes = g_base64_decode(text + prefix, &size);
    g_autofree char *again = g_base64_encode(bytes, size);
    bool is_valid = g_str_equal(again, text + prefix) && memchr(bytes, 0, size) == NULL;
    return is_valid ? g_strndup((const char *) bytes, size) : NULL;
}

static bool
check_header(const IpbHttpHead *head, const char *name, const char *expected, IpbMcpFault *fault)
{
    g_autofree char *value = read_header(head, name);
    if (g_strcmp0(value, expected) == 0)
        return true;
    return fail(fault, IPB_MCP_HEADER_MISMATCH,
                value == NULL
                    ? g_strdup_printf("the header %s is missing or malformed", name)
                    : g_strdup_printf("the header %s does not agree with the body", name));
}

/* The parameter that the header Mcp-Name repeats; NULL: none. */
static const char *
get_name(const char *method, const IpbJson *params)
{
    if (g_str_equal(method, "tools/call") || g_str_equal(method, "prompts/get"))
        return ipb_json_get_string(params, "name");
    if (g_str_equal(method, "resources/read"))
        return ipb_json_get_string(params, "uri");
    if (g_str_equal(method, "tasks/get") || g_str_equal(method, "tasks/update") ||
        g_str_equal(method, "tasks/cancel"))
        return ipb_json_get_string(params, "taskId");
    return NULL;
}

static bool
check_request(const IpbHttpHead *head, const IpbJson *message, IpbMcpFault *fault)
{
    const IpbJson *params = ipb_json_get(message, "params");
    const char *method = ipb_json_get_string(message, "method");
    const char *revision = ipb_mcp_envelope_revision(params);
    const char *name = get_name(method, params);
    IpbMcpEnvelope envelope;
    return (revision == NULL || check_header(head, IPB_MCP_REVISION_HEADER, revision, fault)) &&
           ipb_mcp_envelope_read(params, &envelope, fault) &&
           check_header(head, METHOD_HEADER, method, fault) &&
           (name == NULL || check_header(head, NAME_HEADER, name, fault));
}

/* Is it a request or a notification? *ret_id: of a request, borrowed. */
static bool
check_message(const IpbJson *message, const IpbJson **ret_id, IpbMcpFault *fault)
{
    const IpbJson *id = *ret_id = ipb_json_get(message, "id");
    if (!ipb_json_is(message, IPB_JSON_OBJECT) ||
        g_strcmp0(ipb_json_get_string(message, "jsonrpc"), "2.0") != 0 ||
        ipb_json_get_string(message, "method") == NULL)
        return fail(fault, IPB_RPC_INVALID_REQUEST,
                    g_strdup("the body must be one request or notification of JSON-RPC"));
    if (id != NULL && !ipb_mcp_http_channel_takes_id(id)) {
        *ret_id = NULL;
        return fail(fault, IPB_RPC_INVALID_REQUEST,
                    g_strdup_printf("id must be a string or a number, of at most %d bytes",
                                    IPB_MCP_HTTP_MAX_ID));
    }
    return true;
}

static void
refuse(IpbHttpRequest *request, unsigned status, const IpbJson *id, const IpbMcpFault *fault)
{
    IpbSpan raw = ipb_json_raw(id);
    g_autofree char *id_json = id != NULL ? g_strndup(raw.start, raw.size) : NULL;
    ipb_mcp_refuse(request, &(IpbMcpRefusal){
                                .status = status,
                                .code = fault->code,
                                .message = fault->message,
                                .id_json = id_json,
                                .data_json = fault->data,
                                .headers = status == 503 ? IPB_HTTP_RETRY_AFTER : NULL,
                            });
}

/* --- the end of a request --------------------------------------------------------------------- */

static void
on_disconnected(void *data)
{
    Handling *handling = data;
    IpbMcpStateless *stateless = handling->stateless;
    g_ptr_array_remove_fast(stateless->open, handling); /* frees it */
    stateless->on_over(stateless->data);
}

static void
end(Handling *handling)
{
    if (handling->is_over)
        return;
    handling->is_over = true;
    ipb_mcp_service_disconnect(handling->service, handling->connection, on_disconnected, handling);
}

/* It was answered. */
static void
on_answered(void *data)
{
    end(data);
}

/* The client closed the stream, or too much waits for it. */
static void
on_end(const GError *why, void *data)
{
    end(data);
}

/* --- requests --------------------------------------------------------------------------------- */

static void
handle(IpbMcpStateless *stateless, IpbMcpService *service, IpbHttpRequest *request, IpbSpan text,
       const IpbJson *message)
{
    g_autoptr(GError) error = NULL;
    Handling *handling = g_new0(Handling, 1);
    *handling = (Handling){
        .stateless = stateless,
        .service = service,
        .is_subscription =
            g_str_equal(ipb_json_get_string(message, "method"), "subscriptions/listen"),
    };
    handling->channel = ipb_mcp_http_channel_new(&(IpbMcpHttpChannelOptions){
        .loop = stateless->loop,
        .budget = stateless->budget,
        .on_answered = on_answered,
        .data = handling,
    });
    handling->connection =
        ipb_mcp_service_connect(service, ipb_mcp_http_channel_get(handling->channel),
                                /* is_stateless= */ true, on_end, handling, &error);
    if (handling->connection == NULL) {
        IpbMcpFault fault = {.code = IPB_RPC_INTERNAL_ERROR, .message = error->message};
        refuse(request, 503, ipb_json_get(message, "id"), &fault);
        g_free(handling);
        return;
    }
    g_ptr_array_add(stateless->open, handling);
    ipb_mcp_http_channel_post(handling->channel, request, text, message, IPB_MCP_MODERN_REVISION);
}

void
ipb_mcp_stateless_post(IpbMcpStateless *stateless, IpbMcpService *service, IpbHttpRequest *request,
                       IpbSpan text, const IpbJson *message)
{
    const IpbJson *id = NULL;
    g_auto(IpbMcpFault) fault = {0};
    if (!check_message(message, &id, &fault) ||
        (id != NULL && !check_request(ipb_http_request_head(request), message, &fault)))
        refuse(request, 400, id, &fault);
    else if (id == NULL)
        /* This revision has no notifications of clients over HTTP. */
        ipb_http_request_answer_text(request, 202, NULL);
    else
        handle(stateless, service, request, text, message);
}

bool
ipb_mcp_stateless_is_busy(const IpbMcpStateless *stateless)
{
    return stateless->open->len > 0;
}

void
ipb_mcp_stateless_end_subscriptions(IpbMcpStateless *stateless)
{
    for (guint i = 0; i < stateless->open->len; i++) {
        Handling *handling = g_ptr_array_index(stateless->open, i);
        if (handling->is_subscription)
            end(handling);
    }
}

bool
ipb_mcp_stateless_serves(const IpbMcpStateless *stateless, const IpbMcpService *service)
{
    for (guint i = 0; i < stateless->open->len; i++)
        if (((const Handling *) g_ptr_array_index(stateless->open, i))->service == service)
            return true;
    return false;
}

void
ipb_mcp_stateless_end_of(IpbMcpStateless *stateless, const IpbMcpService *service)
{
    for (guint i = 0; i < stateless->open->len; i++) {
        Handling *handling = g_ptr_array_index(stateless->open, i);
        if (handling->service == service)
            end(handling);
    }
}

void
ipb_mcp_stateless_end(IpbMcpStateless *stateless)
{
    for (guint i = 0; i < stateless->open->len; i++)
        end(g_ptr_array_index(stateless->open, i));
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpStateless *
ipb_mcp_stateless_new(IpbLoop *loop, IpbMcpHttpBudget *budget, void (*on_over)(void *data),
                      void *data)
{
    IpbMcpStateless *stateless = g_new0(IpbMcpStateless, 1);
    stateless->loop = ipb_loop_ref(loop);
    stateless->budget = budget;
    stateless->on_over = on_over;
    stateless->data = data;
    stateless->open = g_ptr_array_new_with_free_func(g_free);
    return stateless;
}

void
ipb_mcp_stateless_free(IpbMcpStateless *stateless)
{
    if (stateless == NULL)
        return;
    g_ptr_array_unref(stateless->open);
    ipb_loop_unref(stateless->loop);
    g_free(stateless);
}
