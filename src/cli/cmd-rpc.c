/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox rpc`: the core of SDKs, JSON-RPC on standard input and output. It ends in order when its
 * client has ended: when standard input ends, or when the process that started it ends (a child
 * that the client forked may hold the pipe open).
 */
#include <signal.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/program.h"
#include "serve/rpc/server.h"
#include "serve/stdio-channel.h"

typedef struct {
    IpbProgram program;
    IpbLoop *loop;
    IpbRpcServer *server;
} RpcCommand;

static void
close_server(void *data)
{
    RpcCommand *command = data;
    ipb_rpc_server_close(command->server, ipb_program_quit, &command->program);
}

static bool
set_up(RpcCommand *command, GError **error)
{
    command->loop = ipb_loop_new(NULL, error);
    int in, out;
    if (command->loop == NULL ||
        !ipb_program_end_with_parent(&command->program, command->loop, error) ||
        !ipb_stdio_channel_take_over(&in, &out, error))
        return false;
    IpbMessageChannel *channel = ipb_stdio_channel_new(command->loop, in, out, error);
    if (channel == NULL)
        return false;
    IpbRpcServerOptions server = {
        .channel = channel,
        .on_end = ipb_program_end,
        .on_log = ipb_cli_log,
        .data = &command->program,
    };
    command->server = ipb_rpc_server_new(command->loop, &server);
    return true;
}

static int
serve(void)
{
    RpcCommand command = {0};
    /* Ctrl-C reaches every process in the terminal's group. The client decides what it means. */
    signal(SIGINT, SIG_IGN);
    g_autoptr(GError) error = NULL;
    if (ipb_program_init(&command.program, false, close_server, &command, &error) &&
        set_up(&command, &error))
        ipb_program_run(&command.program);
    else
        command.program.status =
            ipb_cli_fail(&ipb_verb_rpc, ipb_cli_status(error), "%s", error->message);
    ipb_program_clear(&command.program);
    g_clear_pointer(&command.server, ipb_rpc_server_free);
    g_clear_pointer(&command.loop, ipb_loop_unref);
    return command.program.status;
}

static int
run_rpc(int argc, char **argv)
{
    g_autofree char *log_level = NULL;
    const GOptionEntry options[] = {
        IPB_OPTION_LOG_LEVEL(&log_level),
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

const IpbVerb ipb_verb_rpc = {"rpc", "", "serve SDKs: JSON-RPC on standard input and output",
                              run_rpc};
