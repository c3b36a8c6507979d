/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox kernel`: a kernel for a Jupyter front end, which starts it, over ZeroMQ.
 */
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli-runtime.h"
#include "cli/cli.h"
#include "cli/kernel-command.h"
#include "cli/program.h"
#include "serve/zmq/server.h"

typedef struct {
    IpbProgram program;
    IpbSignals *interrupts;
    IpbRuntime *runtime;
    IpbZmqServer *server;
} KernelCommand;

static void
on_server_closed(void *data)
{
    KernelCommand *command = data;
    ipb_runtime_stop(command->runtime, ipb_program_quit, &command->program);
}

static void
close_server(void *data)
{
    KernelCommand *command = data;
    ipb_zmq_server_close(command->server, on_server_closed, command);
}

/* As in a terminal: Ctrl-C interrupts the cell. */
static void
on_interrupt(int number, void *data)
{
    KernelCommand *command = data;
    if (command->server != NULL)
        ipb_zmq_server_interrupt(command->server);
}

static void
on_end(const GError *why, void *data)
{
    KernelCommand *command = data;
    ipb_program_end(why, &command->program);
}

static bool
open_server(KernelCommand *command, const IpbKernelCommand *arguments, GError **error)
{
    g_auto(IpbZmqConnection) connection = {0};
    IpbSessionOptions session = {.on_log = ipb_cli_log};
    if (!ipb_zmq_connection_read(arguments->connection_file, &connection, error) ||
        !ipb_kernel_command_set_up(arguments, &session, error))
        return false;
    command->runtime = ipb_cli_runtime_new(&arguments->kernel, error);
    if (command->runtime == NULL)
        return false;
    ipb_runtime_start(command->runtime);
    command->server = ipb_zmq_server_new(&(IpbZmqServerOptions){.runtime = command->runtime,
                                                                .session = &session,
                                                                .connection = &connection,
                                                                .on_log = ipb_cli_log,
                                                                .on_end = on_end,
                                                                .data = command},
                                         error);
    return command->server != NULL &&
           ipb_program_end_with_parent(&command->program, ipb_runtime_loop(command->runtime),
                                       error);
}

static int
serve(const IpbKernelCommand *arguments)
{
    KernelCommand command = {0};
    g_autoptr(GError) error = NULL;
    command.interrupts = ipb_signals_new((int[]){SIGINT}, 1, on_interrupt, &command, &error);
    if (command.interrupts != NULL &&
        ipb_program_init(&command.program, false, close_server, &command, &error) &&
        open_server(&command, arguments, &error)) {
        ipb_program_run(&command.program);
    } else {
        command.program.status =
            ipb_cli_fail(&ipb_verb_kernel, ipb_cli_status(error), "%s", error->message);
    }
    ipb_program_clear(&command.program);
    ipb_signals_free(command.interrupts);
    ipb_zmq_server_free(command.server);
    g_clear_pointer(&command.runtime, ipb_runtime_unref);
    return command.program.status;
}

static int
run_kernel(int argc, char **argv)
{
    IpbKernelCommand arguments;
    GOptionEntry options[IPB_KERNEL_COMMAND_N_OPTIONS];
    int status;
    ipb_kernel_command_init(&arguments, options);
    if (!ipb_cli_parse(&ipb_verb_kernel, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    bool is_valid =
        ipb_kernel_command_check(&arguments, argv + 1, &error) &&
        (arguments.log_level == NULL || ipb_cli_set_log_level(arguments.log_level, &error));
    status = is_valid ? serve(&arguments)
                      : ipb_cli_fail(&ipb_verb_kernel, IPB_EXIT_USAGE, "%s", error->message);
    ipb_kernel_command_clear(&arguments);
    return status;
}

const IpbVerb ipb_verb_kernel = {"kernel", "-f FILE",
                                 "serve a kernel to the Jupyter front end that "
                                 "starts it",
                                 run_kernel};
