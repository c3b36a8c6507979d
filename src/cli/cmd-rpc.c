/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox rpc`: the core of SDKs, JSON-RPC on standard input and output. It ends in order when its client has gone, however that
 * went: standard input ends, or the process that started it has (a child that the client forked may hold the pipe open).
 */
#include <signal.h>

#include <glib-unix.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/lifeline.h"
#include "serve/rpc/server.h"
#include "serve/stdio.h"

#define END_TIMEOUT_MS 15000

typedef struct {
    GMainLoop *main_loop;
    IpbLoop *loop;
    IpbRpcServer *server;
    IpbLifeline *lifeline; /* of the process that started this one */
    IpbTimer *end_timer;
    bool is_ending;
    int status;
} RpcCommand;

static void
on_quit(void *data)
{
    RpcCommand *command = data;
    g_main_loop_quit(command->main_loop);
}

/* The second time at once. */
static void
end(RpcCommand *command)
{
    if (command->is_ending) {
        g_main_loop_quit(command->main_loop);
        return;
    }
    command->is_ending = true;
    command->end_timer = ipb_timer_new(command->loop, END_TIMEOUT_MS, on_quit, command);
    ipb_rpc_server_close(command->server, on_quit, command);
}

static gboolean
on_signal(gpointer data)
{
    end(data);
    return G_SOURCE_CONTINUE;
}

static void
on_server_end(const GError *why, void *data)
{
    RpcCommand *command = data;
    if (why != NULL) {
        ipb_cli_log("ERROR", why->message, NULL);
        command->status = IPB_EXIT_FAILED;
    }
    if (!command->is_ending)
        end(command);
}

static void
on_parent_end(void *data)
{
    RpcCommand *command = data;
    if (!command->is_ending)
        end(command);
}

static bool
set_up(RpcCommand *command, GError **error)
{
    command->main_loop = g_main_loop_new(NULL, FALSE);
    command->loop = ipb_loop_new(NULL, error);
    int in, out;
    if (command->loop == NULL)
        return false;
    command->lifeline = ipb_lifeline_new_of_parent(command->loop, on_parent_end, command, error);
    if (command->lifeline == NULL || !ipb_stdio_take_over(&in, &out, error))
        return false;
    IpbRpcServerOptions server = {
        .in = in,
        .out = out,
        .on_end = on_server_end,
        .on_log = ipb_cli_log,
        .data = command,
    };
    command->server = ipb_rpc_server_new(command->loop, &server, error);
    return command->server != NULL;
}

static void
clear(RpcCommand *command)
{
    g_clear_pointer(&command->end_timer, ipb_timer_free);
    g_clear_pointer(&command->lifeline, ipb_lifeline_free);
    g_clear_pointer(&command->server, ipb_rpc_server_free);
    g_clear_pointer(&command->loop, ipb_loop_unref);
    g_clear_pointer(&command->main_loop, g_main_loop_unref);
}

static int
serve(void)
{
    RpcCommand command = {0};
    /* Ctrl-C goes to every process of the terminal's group: what it means is the client's decision. */
    signal(SIGINT, SIG_IGN);
    guint on_term = g_unix_signal_add(SIGTERM, on_signal, &command);
    guint on_hup = g_unix_signal_add(SIGHUP, on_signal, &command);
    g_autoptr(GError) error = NULL;
    if (set_up(&command, &error))
        g_main_loop_run(command.main_loop);
    else
        command.status = ipb_cli_fail(&ipb_verb_rpc, ipb_cli_status(error), "%s", error->message);
    g_source_remove(on_term);
    g_source_remove(on_hup);
    int status = command.status;
    clear(&command);
    return status;
}

static int
run_rpc(int argc, char **argv)
{
    g_autofree char *log_level = NULL;
    const GOptionEntry options[] = {
        {"log-level", 0, 0, G_OPTION_ARG_STRING, &log_level,
         "DEBUG, INFO, WARNING, ERROR or CRITICAL (default: WARNING); logs go to stderr", "LEVEL"},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_rpc, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (argc > 1)
        return ipb_cli_fail(&ipb_verb_rpc, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    if (log_level != NULL && !ipb_cli_set_log_level(log_level, &error))
        return ipb_cli_fail(&ipb_verb_rpc, IPB_EXIT_USAGE, "%s", error->message);
    return serve();
}

const IpbVerb ipb_verb_rpc = {"rpc", "", "the core of SDKs: JSON-RPC on standard input and output",
                              run_rpc};
