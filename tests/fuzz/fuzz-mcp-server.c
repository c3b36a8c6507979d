/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol of the MCP server, with clients that send anything: two connections of one
 * principal, whose requests are asked questions, become tasks, are sent again and cancelled.
 *
 * The input has lines. A line begins with the number of a connection, 0 or 1, and has a message for
 * it; "-" instead of a message ends the connection, and the next line begins another one. "$STATE"
 * in a message is the last requestState of the server, and "$TASK" the last taskId.
 */
#include <string.h>

#include "serve/mcp/server.h"

#define N_CONNECTIONS 2
#define MAX_LINES 200

typedef struct {
    IpbMessageChannel channel;
    IpbMcpServer *server;
} Connection;

static IpbLoop *loop;
static IpbMcpKeptRequests *kept;
static Connection *connections[N_CONNECTIONS];
/* IpbMcpRequest that handlers have kept */
static GPtrArray *held;
static char *last_state, *last_task;

/* --- the channel ------------------------------------------------------------------------------ */

static void
copy_text(const IpbJson *object, const char *name, char **ret_text)
{
    const char *text = ipb_json_get_string(object, name);
    if (text == NULL)
        return;
    g_free(*ret_text);
    *ret_text = g_strdup(text);
}

static void
send_message(IpbMessageChannel *channel, const IpbRpcMessage *message)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(message->text, message->size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    g_assert_nonnull(doc);
    const IpbJson *result = ipb_json_get(ipb_json_root(doc), "result");
    copy_text(result, "requestState", &last_state);
    copy_text(result, "taskId", &last_task);
}

static void
drop(IpbMessageChannel *channel, const char *request_id)
{
}

static void
set_paused(IpbMessageChannel *channel, bool is_paused)
{
}

static size_t
get_pending(const IpbMessageChannel *channel)
{
    return 0;
}

static void
flush(IpbMessageChannel *channel, unsigned timeout_ms)
{
}

static void
free_channel(IpbMessageChannel *channel)
{
    g_free(channel);
}

/* --- what is served --------------------------------------------------------------------------- */

static char *
get_instructions(void *data)
{
    return NULL;
}

static void
on_congested(bool is_congested, void *data)
{
}

static void
on_end(const GError *why, void *data)
{
}

static void
on_cancel(void *data)
{
    g_ptr_array_remove(held, data);
}

static void
hold(IpbMcpRequest *request)
{
    ipb_mcp_request_set_cancel(request, on_cancel, request);
    g_ptr_array_add(held, ipb_mcp_request_ref(request));
}

static void
on_answer(const IpbJson *result, const char *failure, void *data)
{
    IpbMcpRequest *request = data;
    ipb_mcp_request_progress(request, 1, 2, failure, NULL);
    ipb_mcp_request_set_cancel(request, NULL, NULL);
    ipb_mcp_request_reply(request, "{\"content\":[]}", "\"x\":1");
    g_ptr_array_remove(held, request);
}

static bool
handle(IpbMcpRequest *request, void *data)
{
    const char *name = ipb_json_get_string(ipb_mcp_request_params(request), "name");
    if (!g_str_equal(ipb_mcp_request_method(request), "tools/call"))
        return false;
    if (g_strcmp0(name, "ask") == 0) {
        hold(request);
        if (ipb_mcp_request_ask(request, NULL, "elicitation/create", "{}", on_answer, request) == 0)
            g_ptr_array_remove(held, request);
    } else if (g_strcmp0(name, "withdraw") == 0) {
        hold(request);
        ipb_mcp_request_withdraw(
            request, ipb_mcp_request_ask(request, "key", "roots/list", "{}", on_answer, request));
    } else if (g_strcmp0(name, "task") == 0) {
        hold(request);
        ipb_mcp_request_become_task(request);
    } else if (g_strcmp0(name, "fail") == 0) {
        ipb_mcp_request_fail(request, -1, "failed", NULL);
    } else if (g_strcmp0(name, "forget") != 0) {
        ipb_mcp_request_reply(request, "{}", NULL);
    }
    return true;
}

/* --- connections ------------------------------------------------------------------------------ */

static Connection *
open_connection(bool is_stateless)
{
    static const IpbMessageChannelOps OPS = {
        .send = send_message,
        .drop = drop,
        .set_paused = set_paused,
        .pending = get_pending,
        .flush = flush,
        .free = free_channel,
    };
    Connection *connection = g_new0(Connection, 1);
    connection->channel.ops = &OPS;
    connection->server =
        ipb_mcp_server_new(&connection->channel, &(IpbMcpServerOptions){
                                                     .loop = loop,
                                                     .kept = kept,
                                                     .is_stateless = is_stateless,
                                                     .capabilities = "{\"tools\":{}}",
                                                     .instructions = get_instructions,
                                                     .handle = handle,
                                                     .on_congested = on_congested,
                                                     .on_end = on_end,
                                                 });
    return connection;
}

static void
close_connection(size_t number)
{
    if (connections[number] != NULL)
        ipb_mcp_server_free(connections[number]->server, 0);
    connections[number] = NULL;
}

static char *
replace(const char *text, const char *name, const char *value)
{
    g_auto(GStrv) parts = g_strsplit(text, name, -1);
    return g_strjoinv(value != NULL ? value : "none", parts);
}

static void
run_line(const char *line)
{
    size_t number = line[0] == '1';
    if (line[0] == '\0')
        return;
    if (line[1] == '-') {
        close_connection(number);
        return;
    }
    if (connections[number] == NULL)
        connections[number] = open_connection(number == 1);
    g_autofree char *with_state = replace(line + 1, "$STATE", last_state);
    g_autofree char *text = replace(with_state, "$TASK", last_task);
    Connection *connection = connections[number];
    connection->channel.funcs.on_message(text, strlen(text), connection->channel.data);
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *input = g_strndup((const char *) data, size);
    g_auto(GStrv) lines = g_strsplit(input, "\n", MAX_LINES);
    if (loop == NULL)
        loop = ipb_loop_new(NULL, NULL);
    kept = ipb_mcp_kept_requests_new(loop);
    held = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_mcp_request_unref);
    for (char **line = lines; *line != NULL; line++)
        run_line(*line);
    for (size_t i = 0; i < N_CONNECTIONS; i++)
        close_connection(i);
    ipb_mcp_kept_requests_free(kept);
    for (guint i = 0; i < held->len; i++)
        ipb_mcp_request_set_cancel(g_ptr_array_index(held, i), NULL, NULL);
    g_ptr_array_unref(held);
    g_clear_pointer(&last_state, g_free);
    g_clear_pointer(&last_task, g_free);
    return 0;
}
