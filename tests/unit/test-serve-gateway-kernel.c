/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the gateway, with real Python, of the project's .venv: which messages follow a
 * request, and to whom.
 */
#include "serve/gateway/kernel.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"

typedef struct {
    IpbRuntime *runtime;
    char *workspace;
    IpbGatewayKernel *kernel;
    GString *ends; /* a character for each on_end */
} Fixture;

/* What a client got, a line a message: "iopub status busy <m1" */
typedef struct {
    IpbGatewayClient *client;
    GString *log;
    bool has_kernel_ended; /* as reported by on_kernel_end */
} Client;

/* --- the kernel --------------------------------------------------------------------------------
 * */

static void
on_end(IpbGatewayKernel *kernel, IpbGatewayEnd why, void *data)
{
    Fixture *fixture = data;
    g_string_append_c(fixture->ends, "is"[why]);
}

static void
open_kernel(Fixture *fixture, unsigned idle_s)
{
    IpbSessionOptions session = {.workspace = fixture->workspace, .approval_timeout_ms = -1};
    IpbGatewayKernelOptions options = {
        .session = &session,
        .id = "k",
        .name = "python3",
        .idle_s = idle_s,
        .on_end = on_end,
        .data = fixture,
    };
    g_autoptr(GError) error = NULL;
    fixture->kernel = ipb_gateway_kernel_new(fixture->runtime, &options, &error);
    g_assert_no_error(error);
}

static void
set_up(Fixture *fixture, const void *unused)
{
    g_autofree char *root = g_canonicalize_filename("../..", g_getenv("G_TEST_SRCDIR"));
    g_autofree char *python = g_build_filename(root, ".venv/bin/python3", NULL);
    g_autofree char *host = g_build_filename(root, "python/ipybox/kernel_host", NULL);
    fixture->workspace = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    fixture->ends = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    IpbRuntimeOptions options = {
        .python = python, .host_directory = host, .state_dir = fixture->workspace};
    fixture->runtime = ipb_runtime_new(NULL, &options, &error);
    g_assert_no_error(error);
}

static void
on_closed(void *data)
{
    *(bool *) data = true;
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    bool is_closed = false;
    ipb_gateway_kernel_close(fixture->kernel, on_closed, &is_closed);
    while (!is_closed)
        g_main_context_iteration(NULL, TRUE);
    ipb_gateway_kernel_free(fixture->kernel);
    ipb_runtime_unref(fixture->runtime);
    g_assert_true(ipb_file_remove_tree(fixture->workspace, NULL));
    g_free(fixture->workspace);
    g_string_free(fixture->ends, TRUE);
}

/* --- clients -----------------------------------------------------------------------------------
 * */

/* What tells messages of one type apart. */
static void
log_content(GString *log, const char *msg_type, const IpbJson *content)
{
    static const char *const MEMBERS[] = {"execution_state", "name", "text", "ename", "status"};
    for (size_t i = 0; i < G_N_ELEMENTS(MEMBERS); i++) {
        const char *value = ipb_json_get_string(content, MEMBERS[i]);
        if (value != NULL)
            g_string_append_printf(log, " %s", value);
    }
    int64_t count;
    if (ipb_json_get_int64(content, "execution_count", &count))
        g_string_append_printf(log, " [%d]", (int) count);
    const char *plain = ipb_json_get_string(ipb_json_get(content, "data"), "text/plain");
    if (plain != NULL)
        g_string_append_printf(log, " =%s", plain);
    IPB_JSON_FOREACH (item, ipb_json_get(content, "user_expressions"))
        g_string_append_printf(log, " %s=%s", ipb_json_name(item, NULL),
                               ipb_json_get_string(ipb_json_get(item, "data"), "text/plain"));
}

static void
on_send(IpbGatewayOutgoing *outgoing, void *data)
{
    Client *client = data;
    gsize size;
    const char *text =
        g_bytes_get_data(ipb_gateway_outgoing_frame(outgoing, IPB_GATEWAY_FRAMING_JSON), &size);
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *root = ipb_json_root(doc);
    const char *msg_type = ipb_json_get_string(root, "msg_type");
    GString *log = client->log;
    g_string_append_printf(log, "%s %s", ipb_json_get_string(root, "channel"), msg_type);
    log_content(log, msg_type, ipb_json_get(root, "content"));
    const char *parent = ipb_json_get_string(ipb_json_get(root, "parent_header"), "msg_id");
    g_string_append_printf(log, " <%s\n", parent != NULL ? parent : "");
    for (char *p = log->str; *p != '\0'; p++) /* of a text: the line stays one */
        if (p[0] == '\n' && p[1] == ' ')
            p[0] = '|';
}

static void
on_kernel_end(void *data)
{
    Client *client = data;
    client->has_kernel_ended = true;
    g_clear_pointer(&client->client, ipb_gateway_client_free);
}

static void
connect_client(Fixture *fixture, Client *client)
{
    static const IpbGatewayClientFuncs FUNCS = {.send = on_send, .on_kernel_end = on_kernel_end};
    client->log = g_string_new(NULL);
    client->has_kernel_ended = false;
    client->client = ipb_gateway_client_new(fixture->kernel, &FUNCS, client);
}

static void
disconnect_client(Client *client)
{
    g_clear_pointer(&client->client, ipb_gateway_client_free);
    g_string_free(client->log, TRUE);
}

static void
request_on(Client *client, const char *channel, const char *msg_type, const char *msg_id,
           const char *content)
{
    g_autofree char *text = g_strdup_printf(
        "{\"channel\":\"%s\",\"header\":{\"msg_id\":\"%s\",\"msg_type\":\"%s\"},\"content\":%s}",
        channel, msg_id, msg_type, content);
    IpbGatewayMessage message;
    g_autoptr(GError) error = NULL;
    ipb_gateway_message_parse(IPB_GATEWAY_FRAMING_JSON, false, text, strlen(text), &message,
                              &error);
    g_assert_no_error(error);
    ipb_gateway_client_receive(client->client, &message, strlen(text));
}

static void
execute(Client *client, const char *msg_id, const char *code)
{
    g_autofree char *content = g_strdup_printf("{\"code\":\"%s\"}", code);
    request_on(client, "shell", "execute_request", msg_id, content);
}

static void
wait_for(const Client *client, const char *line)
{
    while (strstr(client->log->str, line) == NULL)
        g_main_context_iteration(NULL, TRUE);
}

/* Takes what the client got so far. */
static void
assert_got(Client *client, const char *wanted)
{
    g_assert_cmpstr(client->log->str, ==, wanted);
    g_string_truncate(client->log, 0);
}

/* --- tests -------------------------------------------------------------------------------------
 * */

static void
test_execute(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 0);
    Client a, b;
    connect_client(fixture, &a);
    connect_client(fixture, &b);
    execute(&a, "m1", "print(1)\\n2");
    wait_for(&b, "idle <m1");
    assert_got(&a, "iopub status busy <m1\n"
                   "iopub execute_input [1] <m1\n"
                   "iopub stream stdout 1| <m1\n"
                   "iopub execute_result [1] =2 <m1\n"
                   "shell execute_reply ok [1] <m1\n"
                   "iopub status idle <m1\n");
    assert_got(&b, "iopub status busy <m1\n"
                   "iopub execute_input [1] <m1\n"
                   "iopub stream stdout 1| <m1\n"
                   "iopub execute_result [1] =2 <m1\n"
                   "iopub status idle <m1\n");
    execute(&b, "m2", "1/0");
    execute(&b, "m3", "never()");
    execute(&a, "m4", "4"); /* of another client: its own affair */
    wait_for(&b, "idle <m4");
    assert_got(&b, "iopub status busy <m2\n"
                   "iopub execute_input [2] <m2\n"
                   "iopub error ZeroDivisionError <m2\n"
                   "shell execute_reply ZeroDivisionError error [2] <m2\n"
                   "iopub status idle <m2\n"
                   "iopub status busy <m3\n"
                   "shell execute_reply Aborted aborted [2] <m3\n"
                   "iopub status idle <m3\n"
                   "iopub status busy <m4\n"
                   "iopub execute_input [3] <m4\n"
                   "iopub execute_result [3] =4 <m4\n"
                   "iopub status idle <m4\n");
    disconnect_client(&a);
    disconnect_client(&b);
}

static void
test_displays(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 0);
    Client client;
    connect_client(fixture, &client);
    execute(&client, "m1",
            "from IPython.display import display, clear_output\\n"
            "h = display('a', display_id=True)\\nh.update('b')\\nclear_output()");
    wait_for(&client, "idle <m1");
    assert_got(&client, "iopub status busy <m1\n"
                        "iopub execute_input [1] <m1\n"
                        "iopub display_data ='a' <m1\n"
                        "iopub update_display_data ='b' <m1\n"
                        "iopub clear_output <m1\n"
                        "shell execute_reply ok [1] <m1\n"
                        "iopub status idle <m1\n");
    disconnect_client(&client);
}

static void
test_interrupt(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 0);
    Client client;
    connect_client(fixture, &client);
    execute(&client, "m1", "x = 1\\nprint('go')\\nimport time\\ntime.sleep(600)");
    wait_for(&client, "stdout go");
    request_on(&client, "control", "interrupt_request", "m2", "{}");
    wait_for(&client, "idle <m1");
    g_assert_nonnull(strstr(client.log->str, "control interrupt_reply ok <m2\n"));
    g_assert_nonnull(strstr(client.log->str, "iopub error KeyboardInterrupt <m1\n"));
    g_assert_nonnull(strstr(client.log->str, "shell execute_reply KeyboardInterrupt error [1]"));
    execute(&client, "m3", "x");
    wait_for(&client, "execute_result [2] =1 <m3");
    disconnect_client(&client);
}

static void
test_restart(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 0);
    Client client;
    connect_client(fixture, &client);
    execute(&client, "m1", "x = 1\\nprint('go')\\nimport time\\ntime.sleep(600)");
    wait_for(&client, "stdout go");
    bool is_restarted = false;
    ipb_gateway_kernel_restart(fixture->kernel, on_closed, &is_restarted);
    while (!is_restarted)
        g_main_context_iteration(NULL, TRUE);
    wait_for(&client, "execute_reply DeadKernelError error");
    wait_for(&client, "idle <m1");
    execute(&client, "m2", "x");
    wait_for(&client, "idle <m2");
    g_assert_nonnull(strstr(client.log->str, "execute_input [1] <m2"));
    g_assert_nonnull(strstr(client.log->str, "error NameError <m2"));
    disconnect_client(&client);
}

static void
test_death(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 0);
    Client client;
    connect_client(fixture, &client);
    execute(&client, "m1", "import os; os._exit(3)");
    wait_for(&client, "idle <m1");
    assert_got(&client, "iopub status busy <m1\n"
                        "iopub execute_input [1] <m1\n"
                        "iopub error DeadKernelError <m1\n"
                        "iopub status restarting <m1\n"
                        "shell execute_reply DeadKernelError error [0] <m1\n"
                        "iopub status idle <m1\n");
    execute(&client, "m2", "7");
    wait_for(&client, "execute_result [1] =7 <m2");
    disconnect_client(&client);
}

static void
test_others(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 0);
    Client client;
    connect_client(fixture, &client);
    request_on(&client, "stdin", "input_reply", "m0", "{\"value\":\"x\"}");
    request_on(&client, "shell", "kernel_info_request", "m1", "{}");
    request_on(&client, "shell", "comm_info_request", "m2", "{}");
    request_on(&client, "shell", "unknown_request", "m3", "{}");
    request_on(&client, "shell", "execute_request", "m4", "{\"code\":1,\"stop_on_error\":false}");
    request_on(&client, "shell", "execute_request", "m5", "{\"code\":\"\",\"silent\":true}");
    wait_for(&client, "idle <m5");
    assert_got(&client, "iopub status busy <m1\n"
                        "shell kernel_info_reply ok <m1\n"
                        "iopub status idle <m1\n"
                        "iopub status busy <m2\n"
                        "shell comm_info_reply ok <m2\n"
                        "iopub status idle <m2\n"
                        "iopub status busy <m3\n"
                        "shell unknown_reply NotImplementedError error <m3\n"
                        "iopub status idle <m3\n"
                        "iopub status busy <m4\n"
                        "iopub error ValueError <m4\n"
                        "shell execute_reply ValueError error [0] <m4\n"
                        "iopub status idle <m4\n"
                        "iopub status busy <m5\n"
                        "shell execute_reply ok [0] <m5\n"
                        "iopub status idle <m5\n");
    disconnect_client(&client);
}

/* What front ends ask for; the kernel knows it. */
static void
test_questions(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 0);
    Client client;
    connect_client(fixture, &client);
    request_on(&client, "control", "kernel_info_request", "m0", "{}"); /* it is still starting */
    request_on(&client, "shell", "complete_request", "m1", "{\"code\":\"impor\"}");
    request_on(&client, "shell", "inspect_request", "m2", "{\"code\":\"len\",\"cursor_pos\":3}");
    request_on(&client, "shell", "is_complete_request", "m3", "{\"code\":\"for x in y:\"}");
    request_on(&client, "shell", "history_request", "m4", "{\"hist_access_type\":\"bad\"}");
    request_on(&client, "shell", "execute_request", "m5",
               "{\"code\":\"x = 3\",\"silent\":true,\"user_expressions\":{\"a\":\"x + 1\"}}");
    wait_for(&client, "idle <m5");
    static const char *const WANTED[] = {
        "control kernel_info_reply ok <m0\n",
        "shell complete_reply ok <m1\n",
        "shell inspect_reply ok =",
        "shell is_complete_reply incomplete <m3\n",
        "shell history_reply RuntimeError error <m4\n",
        "shell execute_reply ok [0] a=4 <m5\n",
    };
    const char *rest = client.log->str;
    for (size_t i = 0; i < G_N_ELEMENTS(WANTED); i++) {
        rest = strstr(rest, WANTED[i]);
        if (rest == NULL)
            g_error("not in its place: %s in:\n%s", WANTED[i], client.log->str);
    }
    g_assert_null(strstr(client.log->str, "execute_input"));
    disconnect_client(&client);
}

/* A client that leaves while its cell runs: the others hear how it continues, and how the kernel
 * ends. */
static void
test_leave(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 0);
    Client a, b;
    connect_client(fixture, &a);
    connect_client(fixture, &b);
    execute(&a, "m1", "print('go')\\nimport time\\ntime.sleep(600)");
    execute(&a, "m2", "2");
    wait_for(&a, "stdout go");
    disconnect_client(&a);
    ipb_gateway_kernel_interrupt(fixture->kernel);
    wait_for(&b, "idle <m2");
    request_on(&b, "control", "shutdown_request", "m3", "{\"restart\":false}");
    g_assert_cmpstr(fixture->ends->str, ==, "");
    while (fixture->ends->len == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(fixture->ends->str, ==, "s");
    g_string_truncate(b.log, 0);
    bool is_closed = false;
    ipb_gateway_kernel_close(fixture->kernel, on_closed, &is_closed);
    g_assert_true(b.has_kernel_ended);
    assert_got(&b, "iopub status dead <\n");
    while (!is_closed)
        g_main_context_iteration(NULL, TRUE);
    ipb_gateway_kernel_free(fixture->kernel);
    disconnect_client(&b);
    open_kernel(fixture, 0); /* for tear_down */
}

static void
test_idling(Fixture *fixture, const void *unused)
{
    open_kernel(fixture, 1);
    Client client;
    connect_client(fixture, &client);
    execute(&client, "m1", "print('go')");
    wait_for(&client, "idle <m1");
    g_assert_cmpstr(fixture->ends->str, ==, "");
    disconnect_client(&client);
    while (fixture->ends->len == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(fixture->ends->str, ==, "i");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    static const struct {
        const char *name;
        void (*test)(Fixture *fixture, const void *unused);
    } TESTS[] = {
        {"execute", test_execute}, {"displays", test_displays},   {"interrupt", test_interrupt},
        {"restart", test_restart}, {"death", test_death},         {"others", test_others},
        {"leave", test_leave},     {"questions", test_questions}, {"idling", test_idling},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(TESTS); i++) {
        g_autofree char *path = g_strconcat("/gateway-kernel/", TESTS[i].name, NULL);
        g_test_add(path, Fixture, NULL, set_up, TESTS[i].test, tear_down);
    }
    return g_test_run();
}
