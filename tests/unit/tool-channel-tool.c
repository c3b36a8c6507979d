/* SPDX-License-Identifier: Apache-2.0
 *
 * Tool channels without kernels, driven over stdin and stdout by
 * tests/integration/tool_channel_driver.py.
 *
 *   tool-channel-tool SESSIONS POLICY APPROVAL_TIMEOUT_MS SERVER_PARAMS
 *
 * Each session has a tool host that may call one server, called "fake". stdout has one JSON object
 * a line: first {"sessions":[{"port","token"}],"server_id"}, then the events. stdin has one command
 * a line: "accept SESSION REQUEST", "reject SESSION REQUEST", "reset SESSION". The program ends
 * with its stdin. The environment variable TOOL_CHANNEL_TIMEOUT_MS replaces all timeouts for peers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "json/writer.h"
#include "tools/tool-channel.h"

#define MAX_SESSIONS 8
/* Part of the arguments of a request for approval that is printed. */
#define MAX_SHOWN 4096

typedef struct {
    int number;
    IpbApprovals *approvals;
    IpbToolHost *host;
    IpbToolChannel *channel;
} Session;

typedef struct {
    GMainLoop *main_loop;
    IpbLoop *loop;
    Session sessions[MAX_SESSIONS];
    int n_sessions;
} Tool;

static void
tell(IpbJsonWriter *writer)
{
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    puts(text);
    fflush(stdout);
}

static IpbJsonWriter *
begin_event(const Session *session, const char *event)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "event", event);
    ipb_json_member_int(writer, "session", session->number);
    return writer;
}

static void
on_ask(const IpbApprovalRequest *request, void *data)
{
    IpbJsonWriter *writer = begin_event(data, "ask");
    ipb_json_member_int(writer, "id", (int64_t) request->id);
    ipb_json_member_string(writer, "server_name", request->server_name);
    ipb_json_member_string(writer, "tool_name", request->tool_name);
    ipb_json_key(writer, "arguments");
    ipb_json_write_string_n(writer, request->arguments_json,
                            MIN(request->arguments_size, MAX_SHOWN));
    tell(writer);
}

static void
on_wait(bool is_waiting, void *data)
{
    tell(begin_event(data, is_waiting ? "wait" : "go on"));
}

static void
on_reset_done(void *data)
{
    tell(begin_event(data, "reset"));
}

static void
obey(Tool *tool, const char *line)
{
    char verb[16];
    int number = 0;
    unsigned long long id = 0;
    if (sscanf(line, "%15s %d %llu", verb, &number, &id) < 2 || number >= tool->n_sessions)
        g_error("what is \"%s\"?", line);
    Session *session = &tool->sessions[number];
    if (g_str_equal(verb, "reset"))
        ipb_tool_host_reset(session->host, on_reset_done, session);
    else if (!ipb_approvals_respond(session->approvals, id, g_str_equal(verb, "accept")))
        tell(begin_event(session, "too late"));
}

static gboolean
on_stdin(GIOChannel *source, GIOCondition condition, gpointer data)
{
    Tool *tool = data;
    g_autofree char *line = NULL;
    if (g_io_channel_read_line(source, &line, NULL, NULL, NULL) != G_IO_STATUS_NORMAL)
        g_main_loop_quit(tool->main_loop);
    else
        obey(tool, line);
    return G_SOURCE_CONTINUE;
}

/* This program has no kernel that could own the socket. */
static bool
has_socket(uint64_t inode, void *data)
{
    return false;
}

static void
start_session(Tool *tool, char **argv, const IpbRegistration *registration)
{
    static const char *const POLICIES[] = {"allow", "ask", "deny", NULL};
    Session *session = &tool->sessions[tool->n_sessions];
    session->number = tool->n_sessions++;
    IpbApprovalOptions approval_options = {
        .policy = IPB_APPROVAL_ALLOW,
        .timeout_ms = strtol(argv[3], NULL, 10),
        .ask = on_ask,
        .on_wait = on_wait,
        .data = session,
    };
    while (!g_str_equal(POLICIES[approval_options.policy], argv[2]))
        approval_options.policy++;
    session->approvals = ipb_approvals_new(tool->loop, &approval_options);
    IpbToolHostOptions host_options = {
        .approvals = session->approvals,
        .env = (const char *const *) environ,
    };
    session->host = ipb_tool_host_new(tool->loop, &host_options);
    ipb_tool_host_allow(session->host, registration);
    session->channel = ipb_tool_channel_new(tool->loop, session->host);
    const char *timeout = g_getenv("TOOL_CHANNEL_TIMEOUT_MS");
    if (timeout != NULL) {
        unsigned ms = (unsigned) atoi(timeout);
        ipb_tool_channel_set_timeouts(session->channel, &(IpbHttpTimeouts){ms, ms, ms, ms, ms});
    }
    g_autoptr(GError) error = NULL;
    if (!ipb_tool_channel_listen(session->channel, has_socket, NULL, &error))
        g_error("%s", error->message);
}

static void
introduce(const Tool *tool, const char *server_id)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "sessions");
    ipb_json_begin_array(writer);
    for (int i = 0; i < tool->n_sessions; i++) {
        const IpbToolChannel *channel = tool->sessions[i].channel;
        ipb_json_begin_object(writer);
        ipb_json_member_int(writer, "port", ipb_tool_channel_port(channel));
        ipb_json_member_string(writer, "token", ipb_tool_channel_token(channel));
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    ipb_json_member_string(writer, "server_id", server_id);
    tell(writer);
}

int
main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    Tool tool = {.loop = ipb_loop_new(NULL, NULL), .main_loop = g_main_loop_new(NULL, FALSE)};
    g_autoptr(IpbJsonDoc) params =
        ipb_json_parse(argv[4], strlen(argv[4]), &IPB_JSON_LIMITS_SMALL, NULL);
    g_autofree char *id = ipb_registry_make_id("fake", ipb_json_root(params));
    char *no_roots[] = {NULL};
    IpbRegistration registration = {id, (char *) "fake", argv[4], no_roots};
    for (int n = atoi(argv[1]); n > 0; n--)
        start_session(&tool, argv, &registration);
    introduce(&tool, id);
    g_autoptr(GIOChannel) input = g_io_channel_unix_new(STDIN_FILENO);
    g_io_add_watch(input, G_IO_IN | G_IO_HUP, on_stdin, &tool);
    g_main_loop_run(tool.main_loop);
    for (int i = 0; i < tool.n_sessions; i++) {
        ipb_tool_channel_free(tool.sessions[i].channel);
        ipb_tool_host_free(tool.sessions[i].host);
        ipb_approvals_free(tool.sessions[i].approvals);
    }
    g_main_loop_unref(tool.main_loop);
    ipb_loop_unref(tool.loop);
    return 0;
}
