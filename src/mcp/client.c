/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP client; see the header and docs/internals/mcp-client.md. A Call is one thing that the
 * owner waits for: connect, a list, a tool call, or the client's own subscription. It is in the
 * table until its function was called, once.
 *
 * Errors that occur within a function of ours are reported later by a timer (on_later), so that
 * the owner's functions are called from the loop only. The client is reference-counted inside,
 * because those functions may free it.
 */
#include "mcp/client.h"

#include <string.h>

#include "base/done.h"
#include "base/error.h"
#include "mcp/client-connection.h"
#include "mcp/messages.h"
#include "mcp/negotiation.h"
#include "mcp/param-headers.h"
#include "mcp/tool-list.h"

/* Calls that wait for an answer. */
#define MAX_PENDING 4096
/* Text of a progress message, and how often the progress of one call is reported. */
#define MAX_PROGRESS_TEXT 4096
#define MAX_PROGRESS_PER_WINDOW 100
#define PROGRESS_WINDOW_MS 1000
/* What a request adds to the size of its parameters: jsonrpc, id, method. */
#define MAX_ENVELOPE 256
/* Several changes of the tools are reported once, and again after a pause at the earliest. */
#define TOOLS_CHANGED_DELAY_MS 100
#define TOOLS_CHANGED_PAUSE_MS 10000

#define SUBSCRIPTION_ID "io.modelcontextprotocol/subscriptionId"

typedef struct Call Call;

typedef enum {
    STATE_NEW,
    STATE_CONNECTING,
    STATE_READY,
    STATE_CLOSED, /* lost, failed or closed; "why" says so. The server may still shut down. */
} State;

struct IpbMcpClient {
    unsigned refs; /* one of the owner, and one for each running callback */
    IpbLoop *loop;
    State state;
    bool is_freed;
    /* Copies of the options. */
    char *name;
    IpbServerParams *params;
    char *cwd;
    char **base_env;
    char *state_dir;
    char **keep_out;
    IpbMcpLimits limits;
    IpbLegacyServers *legacy_servers; /* or NULL */
    char *legacy_key;
    IpbMcpClientFuncs funcs;
    void *data;

    IpbServerLog *log;
    IpbMcpClientConnection *connection; /* NULL: not started */
    IpbServerKind kind;                 /* of its transport */
    IpbMcpNegotiation *negotiation;
    bool is_connection_closing, is_connection_gone;
    IpbTimer *connect_timer;
    IpbTimer *changed_timer;     /* before changed tools are reported */
    int64_t next_change;         /* when they may be reported again: monotonic, µs */
    const char *revision;        /* NULL: not known yet */
    bool is_modern;              /* there is no handshake, and each request has an envelope */
    bool has_tools, has_logging; /* capabilities */
    GHashTable *tool_headers;    /* from the list of tools; NULL: not known, or not needed */
    Call *connecting;            /* the call of connect; borrowed */
    Call *listening;             /* subscriptions/listen; borrowed, or NULL */
    GError *why;                 /* set when CLOSED */

    GHashTable *calls; /* &call->id → Call: those whose function is still to be called */
    int64_t last_id;
    /* What on_later reports: calls that have an error, then on_closed, then the ends of close. */
    IpbTimer *later_timer;
    GQueue later; /* of Call, borrowed from "calls" */
    bool must_report_closed;
    GArray *dones;
};

struct Call {
    unsigned refs;        /* one of the table, and one while a request is under way */
    IpbMcpClient *client; /* NULL: the call has ended */
    int64_t id;           /* also its progress token */
    int64_t request;      /* id of the request under way; 0: none */
    char *what;           /* "tool NAME", "tools/list", … for messages */
    unsigned timeout_ms;
    bool is_cancellable;      /* the server is notified of a cancellation */
    IpbTimer *duration_timer; /* ends the call whatever the server does */
    unsigned duration_ms;
    const char *duration_note; /* names the limit, at the end of the error */
    int64_t progress_window;   /* its start: monotonic, µs */
    unsigned n_progress;       /* reported in this window */
    /* Handles the answer to the request. Not called after the end of the call. */
    void (*on_answer)(Call *call, const IpbRpcAnswer *answer, unsigned http_status);
    IpbMcpProgressFunc on_progress;
    IpbMcpResultFunc func;
    void *data;
    GError *error; /* set: the call ends with it from the loop */
    IpbToolList *list;
    /* Of tools/call, for the next round. */
    char *tool;
    IpbJsonDoc *arguments;
    char *state, *responses;
    unsigned rounds;
    char **param_headers; /* of the transport's message; or NULL */
    bool has_relisted;
};

static IpbMcpClient *
hold(IpbMcpClient *client)
{
    client->refs++;
    return client;
}

static void
unhold(IpbMcpClient *client)
{
    if (--client->refs > 0)
        return;
    ipb_server_log_unref(client->log);
    g_hash_table_unref(client->calls);
    g_array_unref(client->dones);
    g_clear_error(&client->why);
    ipb_mcp_negotiation_free(client->negotiation);
    g_clear_pointer(&client->tool_headers, g_hash_table_unref);
    ipb_legacy_servers_unref(client->legacy_servers);
    g_free(client->legacy_key);
    ipb_server_params_free(client->params);
    g_strfreev(client->base_env);
    g_free(client->state_dir);
    g_strfreev(client->keep_out);
    g_free(client->cwd);
    g_free(client->name);
    ipb_loop_unref(client->loop);
    g_free(client);
}

typedef IpbMcpClient HeldClient;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(HeldClient, unhold)

/* --- calls --- */

static Call *
new_call(IpbMcpClient *client, const char *what, IpbMcpResultFunc func, void *data)
{
    Call *call = g_new0(Call, 1);
    call->refs = 1;
    call->client = client;
    call->id = ++client->last_id;
    call->what = g_strdup(what);
    call->is_cancellable = true;
    call->func = func;
    call->data = data;
    g_hash_table_insert(client->calls, &call->id, call);
    return call;
}

static void
unref_call(Call *call)
{
    if (--call->refs > 0)
        return;
    ipb_tool_list_free(call->list);
    ipb_json_doc_free(call->arguments);
    g_free(call->tool);
    g_free(call->state);
    g_free(call->responses);
    g_strfreev(call->param_headers);
    g_clear_error(&call->error);
    g_free(call->what);
    g_free(call);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Call, unref_call)

/* Ends the call: its function is called. @document may be NULL. */
static void
end_call(Call *call, const IpbJson *result, IpbJsonDoc **document, const GError *error)
{
    g_autoptr(Call) owned = call;
    g_hash_table_remove(call->client->calls, &call->id);
    g_clear_pointer(&call->duration_timer, ipb_timer_free);
    call->client = NULL;
    IpbJsonDoc *none = NULL;
    call->func(result, document != NULL ? document : &none, error, call->data);
}

/* Ends the call with @error, which says what is wrong about the result. Takes @error. */
static void
end_call_with(Call *call, GError *error)
{
    g_autoptr(GError) owned = error;
    g_prefix_error(&owned, "MCP server %s: %s: ", call->client->name, call->what);
    end_call(call, NULL, NULL, owned);
}

static void
report_dones(IpbMcpClient *client)
{
    while (!client->is_freed && client->dones->len > 0) {
        IpbDone done = g_array_index(client->dones, IpbDone, 0);
        g_array_remove_index(client->dones, 0);
        done.func(done.data);
    }
}

static void schedule(IpbMcpClient *client);

static void
on_later(void *data)
{
    g_autoptr(HeldClient) client = hold(data);
    g_clear_pointer(&client->later_timer, ipb_timer_free);
    /* Only the calls that are queued now. What a callback adds waits for the next turn. */
    for (guint n = client->later.length; n > 0 && !client->is_freed; n--) {
        Call *call = g_queue_pop_head(&client->later);
        if (call == NULL)
            break;
        g_autoptr(GError) error = g_steal_pointer(&call->error);
        end_call(call, NULL, NULL, error);
    }
    if (!client->is_freed && client->must_report_closed) {
        client->must_report_closed = false;
        if (client->funcs.on_closed != NULL)
            client->funcs.on_closed(client->why, client->data);
    }
    if (client->connection == NULL || client->is_connection_gone)
        report_dones(client);
    if (!client->is_freed && client->later.length > 0)
        schedule(client);
}

/* Makes on_later run from the loop. */
static void
schedule(IpbMcpClient *client)
{
    /* A function that free calls with CANCELLED may still call close. */
    if (client->later_timer == NULL && !client->is_freed)
        client->later_timer = ipb_timer_new(client->loop, 0, on_later, client);
}

/* Ends the call with @error from the loop, whatever else arrives. Takes @error. */
static void
end_call_later(Call *call, GError *error)
{
    if (call->error != NULL) {
        g_error_free(error);
        return;
    }
    call->error = error;
    g_clear_pointer(&call->duration_timer, ipb_timer_free);
    g_queue_push_tail(&call->client->later, call);
    schedule(call->client);
}

/* Cancels the request under way, if there is one. */
static void
cancel_request(Call *call, const char *reason)
{
    if (call->request == 0)
        return;
    if (call->is_cancellable)
        ipb_mcp_client_connection_cancel(call->client->connection, call->request, reason);
    else
        ipb_mcp_client_connection_forget(call->client->connection, call->request);
}

static void
on_duration(void *data)
{
    Call *call = data;
    g_clear_pointer(&call->duration_timer, ipb_timer_free);
    cancel_request(call, "timeout");
    end_call_later(call,
                   g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                               "MCP server %s: %s: no answer within %g s%s", call->client->name,
                               call->what, call->duration_ms / 1000.0, call->duration_note));
}

/* Ends the call after this time, whatever the server does. @note is static. Call it once. */
static void
limit_duration(Call *call, unsigned duration_ms, const char *note)
{
    call->duration_ms = duration_ms;
    call->duration_note = note;
    call->duration_timer = ipb_timer_new(call->client->loop, duration_ms, on_duration, call);
}

static void
on_rpc_answer(const IpbRpcAnswer *answer, unsigned http_status, void *data)
{
    g_autoptr(Call) call = data;
    call->request = 0;
    if (call->client == NULL || call->error != NULL) /* it has ended, or is about to */
        return;
    g_autoptr(HeldClient) client = hold(call->client);
    call->on_answer(call, answer, http_status);
}

/* Takes @params_json. */
static void
send_request(Call *call, const char *method, char *params_json)
{
    g_autofree char *params = params_json;
    bool is_tool_call = strcmp(method, "tools/call") == 0;
    const IpbMcpClientConnectionRequest request = {
        .method = method,
        .params_json = params,
        .tool = is_tool_call ? call->tool : NULL,
        .param_headers = is_tool_call ? (const char *const *) call->param_headers : NULL,
        .timeout_ms = call->timeout_ms,
        .is_probe = strcmp(method, "server/discover") == 0,
        .is_cancellable = call->is_cancellable,
    };
    call->refs++;
    call->request =
        ipb_mcp_client_connection_request(call->client->connection, &request, on_rpc_answer, call);
}

/* What the "_meta" of a request holds. */
static IpbMcpMessageMeta
make_meta(const Call *call)
{
    const IpbMcpClient *client = call->client;
    return (IpbMcpMessageMeta){
        .revision = client->is_modern ? client->revision : NULL,
        .wants_log = call->tool != NULL && client->has_logging,
        .progress_token = call->tool != NULL ? call->id : 0,
    };
}

/* Describes the failure of a request; NULL if there is a result. Caller frees. */
static GError *
make_call_error(const Call *call, const IpbRpcAnswer *answer)
{
    const char *name = call->client->name;
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT))
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                           "MCP server %s: %s: no answer and no progress within %g s%s", name,
                           call->what, call->timeout_ms / 1000.0,
                           call->tool != NULL
                               ? " (\"timeout\" in its server_params is this limit, in seconds)"
                               : IPB_MCP_LIMIT_HINT("connect_timeout"));
    if (answer->failure != NULL)
        return g_error_new(answer->failure->domain, answer->failure->code, "MCP server %s: %s: %s",
                           name, call->what, answer->failure->message);
    if (answer->rpc_error != NULL) {
        g_autofree char *text = ipb_mcp_message_describe_error(answer->rpc_error);
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "MCP server %s: %s: %s", name,
                           call->what, text);
    }
    return NULL;
}

/* PROTOCOL if the result of a modern server is not final. */
static bool
check_complete(const Call *call, const IpbRpcAnswer *answer, GError **error)
{
    return !call->client->is_modern || ipb_mcp_message_check_complete(answer->result, error);
}

/* The error for a request of @size bytes that cannot be sent now; NULL if it can. Caller frees. */
static GError *
check_can_send(IpbMcpClient *client, size_t size)
{
    if (client->state == STATE_CLOSED)
        return g_error_copy(client->why);
    if (client->state != STATE_READY)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "MCP server %s is not connected%s",
                           client->name, client->state == STATE_CONNECTING ? " yet" : "");
    if (g_hash_table_size(client->calls) > MAX_PENDING)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                           "MCP server %s: more than %d calls wait for an answer", client->name,
                           MAX_PENDING);
    if (!ipb_mcp_client_connection_has_room(client->connection, size))
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                           "MCP server %s does not read fast enough: the call does not fit into "
                           "what waits to be sent",
                           client->name);
    return NULL;
}

/* --- the end of the connection --- */

static void
on_connection_gone(void *data)
{
    IpbMcpClient *client = data;
    client->is_connection_gone = true;
    schedule(client);
}

/* Leaves every state: no message is accepted any more, and the server is shut down. */
static void
end_connection(IpbMcpClient *client, const GError *why)
{
    client->state = STATE_CLOSED;
    if (client->why == NULL)
        client->why = g_error_copy(why);
    g_clear_pointer(&client->connect_timer, ipb_timer_free);
    g_clear_pointer(&client->changed_timer, ipb_timer_free);
    g_autoptr(GList) calls = g_hash_table_get_values(client->calls);
    for (GList *item = calls; item != NULL; item = item->next)
        end_call_later(item->data, g_error_copy(why));
    if (client->connection != NULL && !client->is_connection_closing) {
        client->is_connection_closing = true;
        ipb_mcp_client_connection_close(client->connection, on_connection_gone, client);
    }
    schedule(client);
}

/* The connection is unusable: calls end with @why. */
static void
lose(IpbMcpClient *client, const GError *why)
{
    if (client->state == STATE_CLOSED)
        return;
    client->must_report_closed = client->state == STATE_READY;
    end_connection(client, why);
}

static void
on_connect_timer(void *data)
{
    IpbMcpClient *client = data;
    g_clear_pointer(&client->connect_timer, ipb_timer_free);
    g_autofree char *text = g_strdup_printf(
        "it did not answer initialize within %g s" IPB_MCP_LIMIT_HINT("connect_timeout") "%s",
        client->limits.connect_timeout_ms / 1000.0,
        client->params->sandbox != NULL
            ? ". It runs in a sandbox: what it fetches at its start must be allowed there"
            : "");
    g_autoptr(GError) error =
        ipb_mcp_client_connection_make_error(client->connection, IPYBOX_ERROR_TIMEOUT, text);
    lose(client, error);
}

/* --- notifications --- */

/* Some servers return numbers as strings. */
static bool
read_id(const IpbJson *value, int64_t *ret_id)
{
    const char *text = ipb_json_string(value, NULL);
    if (text != NULL)
        return g_ascii_string_to_signed(text, 10, 1, INT64_MAX, ret_id, NULL);
    return ipb_json_int64(value, ret_id);
}

static bool
is_id(const IpbJson *value, int64_t id)
{
    int64_t number = 0;
    return read_id(value, &number) && number == id;
}

/* Whether one more progress report of the call is allowed now. */
static bool
may_report_progress(Call *call)
{
    int64_t now = g_get_monotonic_time();
    if (call->n_progress == 0 || now - call->progress_window >= PROGRESS_WINDOW_MS * 1000) {
        call->progress_window = now;
        call->n_progress = 0;
    }
    if (call->n_progress == MAX_PROGRESS_PER_WINDOW)
        return false;
    call->n_progress++;
    return true;
}

static void
take_progress(IpbMcpClient *client, const IpbJson *params)
{
    int64_t id;
    IpbMcpProgress progress = {0};
    if (!read_id(ipb_json_get(params, "progressToken"), &id) ||
        !ipb_json_double(ipb_json_get(params, "progress"), &progress.progress))
        return;
    Call *call = g_hash_table_lookup(client->calls, &id);
    if (call == NULL || call->request == 0 || call->error != NULL)
        return;
    ipb_mcp_client_connection_touch(client->connection, call->request);
    if (call->on_progress == NULL || !may_report_progress(call))
        return;
    ipb_json_double(ipb_json_get(params, "total"), &progress.total);
    const char *text = ipb_json_get_string(params, "message");
    g_autofree char *message =
        text != NULL ? ipb_server_log_clean(text, strlen(text), MAX_PROGRESS_TEXT) : NULL;
    progress.message = message;
    call->on_progress(&progress, call->data);
}

static void
on_changed_timer(void *data)
{
    IpbMcpClient *client = data;
    g_clear_pointer(&client->changed_timer, ipb_timer_free);
    client->next_change = g_get_monotonic_time() + TOOLS_CHANGED_PAUSE_MS * 1000;
    client->funcs.on_tools_changed(client->data);
}

static void
take_tools_changed(IpbMcpClient *client)
{
    g_clear_pointer(&client->tool_headers, g_hash_table_unref);
    if (client->changed_timer != NULL || client->funcs.on_tools_changed == NULL)
        return;
    int64_t pause_ms = (client->next_change - g_get_monotonic_time()) / 1000;
    unsigned delay_ms = (unsigned) MAX(TOOLS_CHANGED_DELAY_MS, pause_ms);
    client->changed_timer = ipb_timer_new(client->loop, delay_ms, on_changed_timer, client);
}

/* Whether a notification belongs to the subscription. If it has no id, it does. */
static bool
is_subscribed(const IpbMcpClient *client, const IpbJson *params)
{
    if (!client->is_modern)
        return true;
    const IpbJson *id = ipb_json_get(ipb_json_get(params, "_meta"), SUBSCRIPTION_ID);
    return client->listening != NULL && (id == NULL || is_id(id, client->listening->request));
}

/* notifications/cancelled: the server ends the subscription. */
static void
take_cancelled(IpbMcpClient *client, const IpbJson *params)
{
    Call *call = client->listening;
    if (call == NULL || call->error != NULL ||
        !is_id(ipb_json_get(params, "requestId"), call->request))
        return;
    ipb_mcp_client_connection_forget(client->connection, call->request);
    end_call_later(call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                     "MCP server %s ended its subscription", client->name));
}

static void
on_notification(const char *method, const IpbJson *params, void *data)
{
    g_autoptr(HeldClient) client = hold(data);
    if (strcmp(method, "notifications/progress") == 0) {
        take_progress(client, params);
    } else if (strcmp(method, "notifications/message") == 0) {
        const char *level;
        g_autofree char *text = ipb_mcp_message_describe_log(params, &level);
        ipb_server_log_write(client->log, level, text, strlen(text));
    } else if (strcmp(method, "notifications/tools/list_changed") == 0) {
        if (is_subscribed(client, params))
            take_tools_changed(client);
    } else if (strcmp(method, "notifications/cancelled") == 0) {
        take_cancelled(client, params);
    }
}

/* --- subscription --- */

static void
on_listen_ended(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    IpbMcpClient *client = data;
    client->listening = NULL;
    if (error != NULL && client->state == STATE_READY)
        ipb_server_log_write(client->log, "debug", error->message, strlen(error->message));
}

static void
on_listen_answer(Call *call, const IpbRpcAnswer *answer, unsigned http_status)
{
    g_autoptr(GError) failure = make_call_error(call, answer);
    end_call(call, answer->result, answer->document, failure);
}

/* Asks the server to report changes of its tools. A modern server gets the request
 * subscriptions/listen, which it does not answer while the connection lives. A legacy server sends
 * notifications on its own. A subscription that the server ends is not renewed: at worst, a call
 * then fails because the tool does not exist any more. */
static void
subscribe(IpbMcpClient *client)
{
    if (client->funcs.on_tools_changed == NULL)
        return;
    if (!client->is_modern) {
        ipb_mcp_client_connection_listen(client->connection);
        return;
    }
    Call *call = new_call(client, "subscriptions/listen", on_listen_ended, client);
    IpbMcpMessageMeta meta = make_meta(call);
    call->on_answer = on_listen_answer;
    client->listening = call;
    send_request(call, "subscriptions/listen", ipb_mcp_message_listen(&meta));
}

/* --- connecting: takes the steps of the negotiation --- */

static void on_lost(const GError *why, void *data);

/* Starts the server, again if it was started before. */
static bool
start_connection(IpbMcpClient *client, GError **error)
{
    static const IpbMcpClientConnectionFuncs FUNCS = {
        .on_notification = on_notification,
        .on_lost = on_lost,
    };
    const IpbMcpClientConnectionOptions options = {
        .name = client->name,
        .params = client->params,
        .kind = client->kind,
        .cwd = client->cwd,
        .base_env = (const char *const *) client->base_env,
        .state_dir = client->state_dir,
        .keep_out = (const char *const *) client->keep_out,
        .limits = &client->limits,
        .log = client->log,
    };
    ipb_mcp_client_connection_free(g_steal_pointer(&client->connection));
    client->connection =
        ipb_mcp_client_connection_new(client->loop, &options, &FUNCS, client, error);
    return client->connection != NULL;
}

static void take_step(IpbMcpClient *client, IpbMcpStep step, const IpbRpcAnswer *answer);

static void
on_negotiation_answer(Call *call, const IpbRpcAnswer *answer, unsigned http_status)
{
    IpbMcpClient *client = call->client;
    g_autoptr(GError) failure = make_call_error(call, answer);
    take_step(client,
              ipb_mcp_negotiation_take_answer(client->negotiation, answer, http_status, failure),
              answer);
}

static void
ignore_answer(Call *call, const IpbRpcAnswer *answer, unsigned http_status)
{
}

static void
send_probe(Call *call)
{
    const IpbMcpMessageMeta meta = {.revision = IPB_MCP_MODERN_REVISION};
    const IpbMcpLimits *limits = &call->client->limits;
    g_free(call->what);
    call->what = g_strdup("server/discover");
    /* Half of the time is left for a server that needs a handshake. */
    call->timeout_ms = MAX(1, MIN(limits->probe_timeout_ms, limits->connect_timeout_ms / 2));
    call->on_answer = on_negotiation_answer;
    send_request(call, "server/discover", ipb_mcp_message_discover(&meta));
}

static void
send_initialize(Call *call, const char *revision)
{
    g_free(call->what);
    call->what = g_strdup("initialize");
    call->timeout_ms = 0; /* limited by connect_timer */
    call->on_answer = on_negotiation_answer;
    send_request(call, "initialize", ipb_mcp_message_initialize(revision));
}

/* Reads what the server declares, and reports that it is connected. */
static void
finish_connecting(IpbMcpClient *client, const IpbMcpStep *step, const IpbRpcAnswer *answer)
{
    const IpbJson *capabilities = ipb_json_get(answer->result, "capabilities");
    const IpbJson *tools = ipb_json_get(capabilities, "tools");
    client->is_modern = step->is_modern;
    client->revision = step->revision;
    client->has_tools = tools != NULL;
    client->has_logging = ipb_json_get(capabilities, "logging") != NULL;
    ipb_mcp_client_connection_set_revision(client->connection, step->revision, step->is_modern);
    ipb_legacy_servers_set(client->legacy_servers, client->legacy_key, !step->is_modern);
    g_clear_pointer(&client->connect_timer, ipb_timer_free);
    client->state = STATE_READY;
    if (!client->is_modern)
        ipb_mcp_client_connection_notify(client->connection, "notifications/initialized", NULL);
    if (ipb_json_get_bool(tools, "listChanged", false))
        subscribe(client);
    end_call(g_steal_pointer(&client->connecting), answer->result, answer->document, NULL);
}

/* Starts the server again, over another transport if client->kind has changed. False: it could not
 * be started, or the owner closed the client when @text was logged. */
static bool
reconnect(IpbMcpClient *client, const char *text)
{
    client->connecting->on_answer = ignore_answer; /* the old connection ends its requests */
    ipb_server_log_write(client->log, "debug", text, strlen(text));
    if (client->state != STATE_CONNECTING)
        return false;
    g_autoptr(GError) error = NULL;
    if (start_connection(client, &error))
        return true;
    lose(client, error);
    return false;
}

static void
restart_server(IpbMcpClient *client, const char *revision)
{
    ipb_server_log_forget_lines(client->log);
    if (reconnect(client, "it exited when it was asked for server/discover; it is started again as "
                          "a server of an older revision of MCP"))
        send_initialize(client->connecting, revision);
}

static void
start_negotiation(IpbMcpClient *client)
{
    bool is_legacy = ipb_legacy_servers_has(client->legacy_servers, client->legacy_key);
    take_step(client, ipb_mcp_negotiation_start(client->negotiation, is_legacy), NULL);
}

static void
switch_transport(IpbMcpClient *client, const IpbMcpStep *step)
{
    client->kind = step->server_kind;
    g_autofree char *text =
        g_strdup_printf("%s; %s is tried", step->error->message,
                        client->kind == IPB_SERVER_SSE ? "HTTP+SSE" : "Streamable HTTP");
    if (reconnect(client, text))
        start_negotiation(client);
}

/* Takes @chosen. @answer: the last one, or NULL. */
static void
take_step(IpbMcpClient *client, IpbMcpStep chosen, const IpbRpcAnswer *answer)
{
    g_auto(IpbMcpStep) step = chosen;
    switch (step.kind) {
    case IPB_MCP_STEP_PROBE:
        send_probe(client->connecting);
        break;
    case IPB_MCP_STEP_INITIALIZE:
        send_initialize(client->connecting, step.revision);
        break;
    case IPB_MCP_STEP_CONNECTED:
        finish_connecting(client, &step, answer);
        break;
    case IPB_MCP_STEP_RESTART:
        restart_server(client, step.revision);
        break;
    case IPB_MCP_STEP_SWITCH:
        switch_transport(client, &step);
        break;
    case IPB_MCP_STEP_FAIL:
        lose(client, step.error);
        break;
    }
}

static void
on_lost(const GError *why, void *data)
{
    g_autoptr(HeldClient) client = hold(data);
    if (client->state == STATE_CONNECTING)
        take_step(client, ipb_mcp_negotiation_take_loss(client->negotiation, why), NULL);
    else
        lose(client, why);
}

void
ipb_mcp_client_connect(IpbMcpClient *client, IpbMcpResultFunc func, void *data)
{
    Call *call = new_call(client, "initialize", func, data);
    if (client->state != STATE_NEW) {
        end_call_later(call, client->why != NULL
                                 ? g_error_copy(client->why)
                                 : g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                                               "MCP server %s is connected already", client->name));
        return;
    }
    g_autoptr(GError) error = NULL;
    if (!start_connection(client, &error)) {
        end_connection(client, error);
        return;
    }
    client->state = STATE_CONNECTING;
    client->connect_timer =
        ipb_timer_new(client->loop, client->limits.connect_timeout_ms, on_connect_timer, client);
    call->is_cancellable = false;
    client->connecting = call;
    start_negotiation(client);
}

/* --- tools/list --- */

/* A server that has prompts or resources only did not promise tools, so its list is empty. */
static bool
has_no_tools(const Call *call, const IpbRpcAnswer *answer)
{
    return answer->rpc_error != NULL && !call->client->has_tools &&
           ipb_mcp_message_error_code(answer->rpc_error) == IPB_RPC_METHOD_NOT_FOUND;
}

/* Whether arguments may have to be sent as HTTP headers too. */
static bool
needs_headers(const IpbMcpClient *client)
{
    return client->is_modern && client->kind != IPB_SERVER_STDIO;
}

/* @cursor: JSON text, or NULL for the first page. */
static void
request_page(Call *call, const char *cursor)
{
    IpbMcpMessageMeta meta = make_meta(call);
    send_request(call, "tools/list", ipb_mcp_message_list(cursor, &meta));
}

static void
on_page(Call *call, const IpbRpcAnswer *answer, unsigned http_status)
{
    g_autofree char *next = NULL;
    GError *error = NULL;
    if (!has_no_tools(call, answer)) {
        g_autoptr(GError) failure = make_call_error(call, answer);
        if (failure != NULL) {
            end_call(call, NULL, NULL, failure);
            return;
        }
        if (!check_complete(call, answer, &error) ||
            !ipb_tool_list_add(call->list, answer->result, &next, &error)) {
            end_call_with(call, error);
            return;
        }
    }
    if (call->client == NULL) /* freed by the owner when a left-out tool was logged */
        return;
    if (next != NULL) {
        request_page(call, next);
        return;
    }
    g_clear_pointer(&call->client->tool_headers, g_hash_table_unref);
    call->client->tool_headers = ipb_tool_list_steal_headers(call->list);
    g_autoptr(IpbJsonDoc) document = ipb_tool_list_finish(call->list, &error);
    if (document == NULL)
        end_call_with(call, error);
    else
        end_call(call, ipb_json_root(document), &document, NULL);
}

/* The server's ttlMs and cacheScope are ignored, because no list is cached. */
void
ipb_mcp_client_list_tools(IpbMcpClient *client, IpbMcpResultFunc func, void *data)
{
    Call *call = new_call(client, "tools/list", func, data);
    GError *error = check_can_send(client, 0);
    if (error != NULL) {
        end_call_later(call, error);
        return;
    }
    call->list = ipb_tool_list_new(client->limits.pages, client->limits.tools,
                                   needs_headers(client) ? client->log : NULL);
    call->on_answer = on_page;
    call->timeout_ms = client->limits.connect_timeout_ms;
    limit_duration(call, client->limits.list_duration_ms,
                   " over all its pages" IPB_MCP_LIMIT_HINT("list_duration"));
    request_page(call, NULL);
}

/* --- tools/call ---
 *
 * A modern server may answer that it needs something first ("input_required"). The call is then
 * sent again with what the server asked for, in as many rounds as the limit allows. All rounds are
 * one call: they share the progress token and the duration. */

/* Makes the call's headers, if its server wants arguments in them. */
static bool
make_headers(Call *call, GError **error)
{
    GHashTable *all = call->client->tool_headers;
    void *headers = NULL;
    g_clear_pointer(&call->param_headers, g_strfreev);
    if (all == NULL || !g_hash_table_lookup_extended(all, call->tool, NULL, &headers))
        return true;
    if (headers == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "the tool's inputSchema has an invalid x-mcp-header, so it cannot be called");
        return false;
    }
    call->param_headers = ipb_param_headers_make(headers, ipb_json_root(call->arguments), error);
    return call->param_headers != NULL;
}

/* Sends the call, or makes it end with an error. */
static void
send_round(Call *call)
{
    GError *error = NULL;
    if (!make_headers(call, &error)) {
        g_prefix_error(&error, "MCP server %s: %s: ", call->client->name, call->what);
        end_call_later(call, error);
        return;
    }
    IpbMcpMessageMeta meta = make_meta(call);
    char *params = ipb_mcp_message_call(call->tool, ipb_json_root(call->arguments), call->state,
                                        call->responses, &meta);
    error = check_can_send(call->client, strlen(params) + MAX_ENVELOPE);
    if (error != NULL) {
        g_free(params);
        end_call_later(call, error);
        return;
    }
    send_request(call, "tools/call", params);
}

static void
on_listed(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    g_autoptr(Call) call = data;
    if (call->client == NULL || call->error != NULL) /* it has ended, or is about to */
        return;
    if (error != NULL)
        end_call_later(call, g_error_copy(error));
    else
        send_round(call);
}

/* The list of tools says which arguments go into headers, so the call waits for it. */
static void
list_first(Call *call)
{
    call->refs++;
    ipb_mcp_client_list_tools(call->client, on_listed, call);
}

/* Sends the call again, with what the server asked for. */
static void
start_next_round(Call *call, const IpbJson *result)
{
    GError *error = NULL;
    g_clear_pointer(&call->state, g_free);
    g_clear_pointer(&call->responses, g_free);
    if (++call->rounds > call->client->limits.rounds)
        error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                            "the server asked for more input %u times and never gave a "
                            "result" IPB_MCP_LIMIT_HINT("rounds"),
                            call->rounds);
    else
        ipb_mcp_message_answer_input(result, &call->state, &call->responses, &error);
    if (error != NULL)
        end_call_with(call, error);
    else
        send_round(call);
}

/* The headers did not match, because the tool's schema has changed since it was listed. */
static bool
is_header_mismatch(const Call *call, const IpbRpcAnswer *answer)
{
    return needs_headers(call->client) && !call->has_relisted &&
           ipb_mcp_message_error_code(answer->rpc_error) == IPB_MCP_HEADER_MISMATCH;
}

static void
on_called(Call *call, const IpbRpcAnswer *answer, unsigned http_status)
{
    if (is_header_mismatch(call, answer)) {
        call->has_relisted = true;
        list_first(call);
        return;
    }
    g_autoptr(GError) failure = make_call_error(call, answer);
    GError *error = NULL;
    if (failure != NULL)
        end_call(call, NULL, NULL, failure);
    else if (call->client->is_modern &&
             ipb_mcp_message_result_type(answer->result) == IPB_MCP_RESULT_INPUT_REQUIRED)
        start_next_round(call, answer->result);
    else if (!check_complete(call, answer, &error) ||
             !ipb_mcp_message_check_call(answer->result, &error))
        end_call_with(call, error);
    else
        end_call(call, answer->result, answer->document, NULL);
}

/* Parses the arguments, so that no unchecked text goes into a message. They must be an object. */
static IpbJsonDoc *
parse_arguments(const char *text, size_t size, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, error);
    if (document == NULL) {
        g_prefix_error(error, "the arguments of the call: ");
        if (g_error_matches(*error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL))
            (*error)->code = IPYBOX_ERROR_INVALID; /* the caller's mistake, not the server's */
        return NULL;
    }
    if (!ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the arguments of the call must be a JSON object");
        return NULL;
    }
    return g_steal_pointer(&document);
}

int64_t
ipb_mcp_client_call_tool(IpbMcpClient *client, const char *tool, const char *arguments_json,
                         size_t size, IpbMcpProgressFunc on_progress, IpbMcpResultFunc func,
                         void *data)
{
    g_autofree char *what = g_strconcat("tool ", tool, NULL);
    Call *call = new_call(client, what, func, data);
    int64_t id = call->id;
    call->on_answer = on_called;
    call->on_progress = on_progress;
    call->timeout_ms = client->limits.call_timeout_ms;
    call->tool = g_strdup(tool);
    g_autoptr(GError) error = NULL;
    call->arguments = parse_arguments(arguments_json, size, &error);
    if (call->arguments == NULL) {
        end_call_later(call, g_steal_pointer(&error));
        return id;
    }
    limit_duration(call, client->limits.call_duration_ms,
                   ", in spite of its progress" IPB_MCP_LIMIT_HINT("call_duration"));
    if (needs_headers(client) && client->tool_headers == NULL)
        list_first(call);
    else
        send_round(call);
    if (!client->is_modern)
        g_clear_pointer(&call->arguments, ipb_json_doc_free); /* there are no further rounds */
    return id;
}

void
ipb_mcp_client_cancel(IpbMcpClient *client, int64_t id)
{
    Call *call = g_hash_table_lookup(client->calls, &id);
    if (call == NULL || call->error != NULL)
        return;
    cancel_request(call, "cancelled by the caller");
    end_call_later(call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                     "MCP server %s: %s was cancelled", client->name, call->what));
}

/* --- life --- */

static void
on_log(const char *level, const char *text, void *data)
{
    IpbMcpClient *client = data;
    if (client->funcs.on_log != NULL)
        client->funcs.on_log(level, text, client->data);
}

IpbMcpClient *
ipb_mcp_client_new(IpbLoop *loop, const IpbMcpClientOptions *options,
                   const IpbMcpClientFuncs *funcs, void *data)
{
    IpbMcpClient *client = g_new0(IpbMcpClient, 1);
    client->refs = 1;
    client->loop = ipb_loop_ref(loop);
    client->name = g_strdup(options->name);
    client->params = ipb_server_params_copy(options->params);
    client->kind = options->params->kind;
    client->negotiation = ipb_mcp_negotiation_new(client->name, client->params);
    client->cwd = g_strdup(options->cwd);
    client->base_env = g_strdupv((char **) options->base_env);
    client->state_dir = g_strdup(options->state_dir);
    client->keep_out = g_strdupv((char **) options->keep_out);
    client->limits = options->params->limits;
    if (client->limits.connect_timeout_ms == 0)
        client->limits.connect_timeout_ms = options->connect_timeout_ms;
    if (client->limits.call_timeout_ms == 0)
        client->limits.call_timeout_ms = options->call_timeout_ms;
    ipb_mcp_limits_fill(&client->limits);
    if (options->legacy_servers != NULL)
        client->legacy_servers = ipb_legacy_servers_ref(options->legacy_servers);
    client->legacy_key = ipb_legacy_servers_make_key(options->params);
    if (funcs != NULL)
        client->funcs = *funcs;
    client->data = data;
    client->log = ipb_server_log_new(loop, on_log, client);
    client->calls = g_hash_table_new(g_int64_hash, g_int64_equal);
    client->dones = g_array_new(false, false, sizeof(IpbDone));
    return client;
}

static GError *
make_closed_error(const IpbMcpClient *client)
{
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                       "the connection to MCP server %s was closed", client->name);
}

void
ipb_mcp_client_close(IpbMcpClient *client, void (*done)(void *data), void *data)
{
    if (done != NULL) {
        IpbDone entry = {done, data};
        g_array_append_val(client->dones, entry);
    }
    g_autoptr(GError) why = make_closed_error(client);
    client->must_report_closed = false;
    end_connection(client, why);
}

void
ipb_mcp_client_free(IpbMcpClient *client)
{
    if (client == NULL || client->is_freed)
        return;
    client->is_freed = true;
    client->state = STATE_CLOSED;
    ipb_server_log_mute(client->log);
    g_clear_pointer(&client->connect_timer, ipb_timer_free);
    g_clear_pointer(&client->changed_timer, ipb_timer_free);
    g_clear_pointer(&client->later_timer, ipb_timer_free);
    g_queue_clear(&client->later);
    g_autoptr(GError) why = make_closed_error(client);
    if (client->why == NULL)
        client->why = g_error_copy(why);
    GHashTableIter iter;
    gpointer call;
    while (g_hash_table_iter_init(&iter, client->calls), g_hash_table_iter_next(&iter, NULL, &call))
        end_call(call, NULL, NULL, why);
    g_clear_pointer(&client->connection, ipb_mcp_client_connection_free);
    unhold(client);
}
