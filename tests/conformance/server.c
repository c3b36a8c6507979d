/* SPDX-License-Identifier: Apache-2.0
 *
 * The server that the conformance suite tests: `ipybox serve`, as far as src/serve has it, with the
 * suite's fixtures in place of ipybox's tools. Driven by tests/conformance/test_server.py.
 *
 * usage: conformance-server FIXTURES
 *
 * Prints {"port": …, "token": …} when it is ready, and ends when standard input ends. Exit status:
 * 0, or 1 with the error on stderr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fixtures.h"
#include "http/gate.h"
#include "serve/mcp-http/server.h"

#define MAX_SESSIONS 100
#define MAX_CONNECTIONS 100
#define IDLE_MS 600000

typedef struct {
    GMainLoop *main_loop;
    IpbRuntime *runtime;
    IpbMcpHttpServer *server;
    Fixtures *fixtures;
    char *token;
    IpbWatch *input;
    bool has_failed;
} Program;

static void
on_stopped(void *data)
{
    g_main_loop_quit(((Program *) data)->main_loop);
}

static void
on_closed(void *data)
{
    ipb_runtime_stop(((Program *) data)->runtime, on_stopped, data);
}

static void
on_input(uint32_t events, void *data)
{
    Program *program = data;
    char bytes[256];
    if (read(STDIN_FILENO, bytes, sizeof bytes) > 0)
        return;
    g_clear_pointer(&program->input, ipb_watch_free);
    ipb_mcp_http_server_close(program->server, on_closed, program);
}

static void
on_ready(const GError *why, void *data)
{
    Program *program = data;
    if (why == NULL) {
        printf("{\"port\": %u, \"token\": \"%s\"}\n", ipb_mcp_http_server_port(program->server),
               program->token);
        fflush(stdout);
        return;
    }
    g_printerr("conformance-server: %s\n", why->message);
    program->has_failed = true;
    g_main_loop_quit(program->main_loop);
}

static bool
open_server(Program *program, const char *path, IpbMcpServiceOptions *service, GError **error)
{
    program->token = ipb_http_gate_make_token(error);
    if (program->token == NULL)
        return false;
    program->runtime = ipb_runtime_new(NULL, &(IpbRuntimeOptions){0}, error);
    if (program->runtime == NULL)
        return false;
    IpbLoop *loop = ipb_runtime_loop(program->runtime);
    program->fixtures = fixtures_load(loop, path, error);
    if (program->fixtures == NULL)
        return false;
    *service = (IpbMcpServiceOptions){
        .session = {.approval = IPB_APPROVAL_ALLOW},
        .max_connections = MAX_CONNECTIONS,
        .extension = fixtures_extension(program->fixtures),
    };
    IpbPrincipals *principals = ipb_principals_new(program->token, error);
    if (principals == NULL)
        return false;
    program->server = ipb_mcp_http_server_new(&(IpbMcpHttpServerOptions){
        .runtime = program->runtime,
        .services = service,
        .principals = principals,
        .max_sessions = MAX_SESSIONS,
        .max_sessions_each = MAX_SESSIONS,
        .max_connections = MAX_CONNECTIONS,
        .idle_ms = IDLE_MS,
        .on_ready = on_ready,
        .data = program,
    });
    program->input = ipb_watch_new(loop, STDIN_FILENO, EPOLLIN, on_input, program, error);
    return program->input != NULL &&
           ipb_mcp_http_server_listen(program->server, "127.0.0.1", 0, error);
}

int
main(int argc, char **argv)
{
    IpbMcpServiceOptions service;
    g_autoptr(GError) error = NULL;
    if (argc != 2) {
        g_printerr("usage: conformance-server FIXTURES\n");
        return EXIT_FAILURE;
    }
    Program program = {.main_loop = g_main_loop_new(NULL, FALSE)};
    if (open_server(&program, argv[1], &service, &error)) {
        g_main_loop_run(program.main_loop);
    } else {
        g_printerr("conformance-server: %s\n", error->message);
        program.has_failed = true;
    }
    ipb_watch_free(program.input);
    ipb_mcp_http_server_free(program.server);
    fixtures_free(program.fixtures);
    g_clear_pointer(&program.runtime, ipb_runtime_unref);
    g_main_loop_unref(program.main_loop);
    g_free(program.token);
    return program.has_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
