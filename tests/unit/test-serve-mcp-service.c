/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP service: clients of one service, each over a channel in memory, with real kernels of the
 * project's .venv. The channel records the request that each message belongs to.
 */
#include "serve/mcp/service.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"

#define N_CLIENTS 2

/* The channel, and the client at its other end. */
typedef struct {
    IpbMessageChannel channel;
    /* The last response; it has the id of the last request. */
    IpbJsonDoc *response;
    int64_t last_id;
    /* One item for each message: its kind and its request ("response 1") */
    GPtrArray *sent;
    char *question; /* the last request of the server */
    bool *is_freed; /* set when the channel is freed */
} MemoryChannel;

typedef struct {
    IpbRuntime *runtime;
    char *workspace;
    IpbMcpService *service;
    IpbMcpConnection *connections[N_CLIENTS];
    MemoryChannel *channels[N_CLIENTS];
    bool are_freed[N_CLIENTS];
    unsigned n_ended;
} Fixture;

/* --- the channel ------------------------------------------------------------------------------ */

static void
send_message(IpbMessageChannel *channel, const IpbRpcMessage *message)
{
    static const char *const KINDS[] = {"response", "request", "notification"};
    MemoryChannel *memory = (MemoryChannel *) channel;
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(message->text, message->size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    const IpbJson *root = ipb_json_root(doc);
    int64_t id = 0;
    g_ptr_array_add(memory->sent,
                    g_strdup_printf("%s %s%s", KINDS[message->kind],
                                    message->request_id != NULL ? message->request_id : "-",
                                    message->error_code != 0 ? " error" : ""));
    if (message->kind == IPB_RPC_REQUEST) {
        g_free(memory->question);
        memory->question = g_strndup(message->text, message->size);
    } else if (message->kind == IPB_RPC_RESPONSE && ipb_json_get_int64(root, "id", &id) &&
               id == memory->last_id) {
        ipb_json_doc_free(memory->response);
        memory->response = g_steal_pointer(&doc);
    }
}

static void
drop(IpbMessageChannel *channel, const char *request_id)
{
    MemoryChannel *memory = (MemoryChannel *) channel;
    g_ptr_array_add(memory->sent, g_strdup_printf("dropped %s", request_id));
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
    MemoryChannel *memory = (MemoryChannel *) channel;
    *memory->is_freed = true;
    ipb_json_doc_free(memory->response);
    g_ptr_array_unref(memory->sent);
    g_free(memory->question);
    g_free(memory);
}

static MemoryChannel *
new_channel(bool *is_freed)
{
    static const IpbMessageChannelOps OPS = {
        .send = send_message,
        .drop = drop,
        .set_paused = set_paused,
        .pending = get_pending,
        .flush = flush,
        .free = free_channel,
    };
    MemoryChannel *memory = g_new0(MemoryChannel, 1);
    memory->channel.ops = &OPS;
    memory->sent = g_ptr_array_new_with_free_func(g_free);
    memory->is_freed = is_freed;
    return memory;
}

static void
deliver(MemoryChannel *memory, const char *text)
{
    memory->channel.funcs.on_message(text, strlen(text), memory->channel.data);
}

static void
begin_request(MemoryChannel *memory, const char *method, const char *params)
{
    g_autofree char *text = g_strdup_printf("{\"jsonrpc\":\"2.0\",\"id\":%" G_GINT64_FORMAT
                                            ",\"method\":\"%s\",\"params\":%s}",
                                            ++memory->last_id, method, params);
    g_clear_pointer(&memory->response, ipb_json_doc_free);
    deliver(memory, text);
}

/* The result of the last request. */
static const IpbJson *
wait_for_result(MemoryChannel *memory)
{
    while (memory->response == NULL)
        g_main_context_iteration(NULL, TRUE);
    const IpbJson *result = ipb_json_get(ipb_json_root(memory->response), "result");
    g_assert_nonnull(result);
    return result;
}

static void
begin_cell(MemoryChannel *memory, const char *code)
{
    g_autofree char *params =
        g_strdup_printf("{\"name\":\"execute_ipython_cell\",\"arguments\":{\"code\":\"%s\"},"
                        "\"_meta\":{\"progressToken\":\"t\"}}",
                        code);
    begin_request(memory, "tools/call", params);
}

static void
expect_output(MemoryChannel *memory, const char *code, const char *wanted)
{
    begin_cell(memory, code);
    const IpbJson *content = ipb_json_get(wait_for_result(memory), "content");
    g_assert_cmpstr(ipb_json_get_string(ipb_json_first(content), "text"), ==, wanted);
}

static void
initialize(MemoryChannel *memory)
{
    begin_request(memory, "initialize",
                  "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"elicitation\":{}}}");
    g_assert_cmpstr(ipb_json_get_string(wait_for_result(memory), "protocolVersion"), ==,
                    "2025-11-25");
}

static bool
has_sent(const MemoryChannel *memory, const char *what)
{
    return g_ptr_array_find_with_equal_func(memory->sent, what, g_str_equal, NULL);
}

/* --- fixture ---------------------------------------------------------------------------------- */

static void
on_client_end(const GError *why, void *data)
{
    g_assert_no_error(why);
    ((Fixture *) data)->n_ended++;
}

static void
set_up_with(Fixture *fixture, const IpbMcpServiceOptions *service_options)
{
    g_autofree char *root = g_canonicalize_filename("../..", g_getenv("G_TEST_SRCDIR"));
    g_autofree char *python = g_build_filename(root, ".venv/bin/python3", NULL);
    g_autofree char *host = g_build_filename(root, "python/ipybox/kernel_host", NULL);
    g_autoptr(GError) error = NULL;
    IpbMcpServiceOptions options = *service_options;
    fixture->workspace = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    fixture->runtime = ipb_runtime_new(NULL,
                                       &(IpbRuntimeOptions){.python = python,
                                                            .host_directory = host,
                                                            .state_dir = fixture->workspace},
                                       &error);
    g_assert_no_error(error);
    options.session.workspace = fixture->workspace;
    options.session.approval_timeout_ms = -1;
    options.max_connections = N_CLIENTS;
    fixture->service = ipb_mcp_service_new(fixture->runtime, &options);
}

static void
set_up(Fixture *fixture, const void *unused)
{
    set_up_with(fixture, &(IpbMcpServiceOptions){.session = {.approval = IPB_APPROVAL_ALLOW}});
}

static void
set_up_asking(Fixture *fixture, const void *unused)
{
    set_up_with(fixture, &(IpbMcpServiceOptions){.session = {.approval = IPB_APPROVAL_ASK,
                                                             .approves_shell_cmds = true}});
}

static void
on_closed(void *data)
{
    *(bool *) data = true;
}

static void
close_service(Fixture *fixture)
{
    bool is_closed = false;
    ipb_mcp_service_close(fixture->service, on_closed, &is_closed);
    while (!is_closed)
        g_main_context_iteration(NULL, TRUE);
}

static void
tear_down_closed(Fixture *fixture, const void *unused)
{
    ipb_mcp_service_free(fixture->service);
    ipb_runtime_unref(fixture->runtime);
    g_assert_true(ipb_file_remove_tree(fixture->workspace, NULL));
    g_free(fixture->workspace);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    close_service(fixture);
    tear_down_closed(fixture, unused);
}

static MemoryChannel *
connect_client(Fixture *fixture, unsigned i)
{
    g_autoptr(GError) error = NULL;
    fixture->are_freed[i] = false;
    fixture->channels[i] = new_channel(&fixture->are_freed[i]);
    fixture->connections[i] = ipb_mcp_service_connect(
        fixture->service, &fixture->channels[i]->channel, false, on_client_end, fixture, &error);
    g_assert_no_error(error);
    initialize(fixture->channels[i]);
    return fixture->channels[i];
}

static void
disconnect(Fixture *fixture, unsigned i)
{
    bool is_closed = false;
    ipb_mcp_service_disconnect(fixture->service, fixture->connections[i], on_closed, &is_closed);
    g_assert_false(is_closed);
    while (!is_closed)
        g_main_context_iteration(NULL, TRUE);
    g_assert_true(fixture->are_freed[i]);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* Each connection has its own session, and closing one leaves the other. */
static void
test_two_connections(Fixture *fixture, const void *unused)
{
    MemoryChannel *one = connect_client(fixture, 0);
    MemoryChannel *other = connect_client(fixture, 1);
    expect_output(one, "x = 1", "");
    expect_output(other, "x = 2", "");
    expect_output(one, "print(x)", "1");
    expect_output(other, "x", "2");

    /* The other client has a cell that runs while the first connection is closed. */
    begin_cell(other, "import time; time.sleep(0.2); x + 1");
    disconnect(fixture, 0);
    g_assert_cmpuint(fixture->n_ended, ==, 0);
    const IpbJson *content = ipb_json_get(wait_for_result(other), "content");
    g_assert_cmpstr(ipb_json_get_string(ipb_json_first(content), "text"), ==, "3");

    /* A new client gets a new session. */
    MemoryChannel *next = connect_client(fixture, 0);
    expect_output(next, "'x' in globals()", "False");
    expect_output(other, "x", "2");
}

static void
test_too_many(Fixture *fixture, const void *unused)
{
    bool is_freed = false;
    g_autoptr(GError) error = NULL;
    connect_client(fixture, 0);
    connect_client(fixture, 1);
    MemoryChannel *third = new_channel(&is_freed);
    g_assert_null(ipb_mcp_service_connect(fixture->service, &third->channel, false, on_client_end,
                                          fixture, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_true(is_freed);
    disconnect(fixture, 1);
    connect_client(fixture, 1);
}

/* The owner closes a connection whose client has gone; the service stays. */
static void
test_client_goes(Fixture *fixture, const void *unused)
{
    MemoryChannel *one = connect_client(fixture, 0);
    MemoryChannel *other = connect_client(fixture, 1);
    one->channel.funcs.on_end(NULL, one->channel.data);
    g_assert_cmpuint(fixture->n_ended, ==, 1);
    disconnect(fixture, 0);
    expect_output(other, "6 * 7", "42");
}

/* The owner of a connection closes it after the service has closed its session. */
static void
test_close_after_service(Fixture *fixture, const void *unused)
{
    connect_client(fixture, 0);
    connect_client(fixture, 1);
    close_service(fixture);
    disconnect(fixture, 0);
    g_assert_false(fixture->are_freed[1]);
}

/* Progress and responses name the request that they belong to; a cancelled request is dropped. */
static void
test_request_ids(Fixture *fixture, const void *unused)
{
    MemoryChannel *client = connect_client(fixture, 0);
    g_assert_true(has_sent(client, "response 1"));
    begin_cell(client, "print('out'); import time; time.sleep(100)");
    while (!has_sent(client, "notification 2"))
        g_main_context_iteration(NULL, TRUE);
    deliver(client, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                    "\"params\":{\"requestId\":2}}");
    while (!has_sent(client, "dropped 2"))
        g_main_context_iteration(NULL, TRUE);
    g_assert_false(has_sent(client, "response 2"));
    begin_request(client, "nothing", "{}");
    g_assert_true(has_sent(client, "response 3 error"));
}

/* A question belongs to the request whose cell runs. */
static void
test_question(Fixture *fixture, const void *unused)
{
    MemoryChannel *client = connect_client(fixture, 0);
    MemoryChannel *other = connect_client(fixture, 1);
    begin_cell(client, "!echo asked");
    while (client->question == NULL)
        g_main_context_iteration(NULL, TRUE);
    g_assert_true(has_sent(client, "request 2"));
    g_assert_null(other->question);
    g_autoptr(IpbJsonDoc) question =
        ipb_json_parse(client->question, strlen(client->question), &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *root = ipb_json_root(question);
    g_assert_cmpstr(ipb_json_get_string(root, "method"), ==, "elicitation/create");
    int64_t id;
    g_assert_true(ipb_json_get_int64(root, "id", &id));
    g_autofree char *answer =
        g_strdup_printf("{\"jsonrpc\":\"2.0\",\"id\":%" G_GINT64_FORMAT
                        ",\"result\":{\"action\":\"accept\",\"content\":{\"decision\":\"allow\"}}}",
                        id);
    deliver(client, answer);
    const IpbJson *content = ipb_json_get(wait_for_result(client), "content");
    g_assert_cmpstr(ipb_json_get_string(ipb_json_first(content), "text"), ==, "asked");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/mcp-service/two-connections", Fixture, NULL, set_up, test_two_connections,
               tear_down);
    g_test_add("/mcp-service/too-many", Fixture, NULL, set_up, test_too_many, tear_down);
    g_test_add("/mcp-service/client-goes", Fixture, NULL, set_up, test_client_goes, tear_down);
    g_test_add("/mcp-service/close-after-service", Fixture, NULL, set_up, test_close_after_service,
               tear_down_closed);
    g_test_add("/mcp-service/request-ids", Fixture, NULL, set_up, test_request_ids, tear_down);
    g_test_add("/mcp-service/question", Fixture, NULL, set_up_asking, test_question, tear_down);
    return g_test_run();
}
