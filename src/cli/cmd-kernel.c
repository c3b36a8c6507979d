/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox kernel`: a kernel for a Jupyter front end, which starts it, over ZeroMQ.
 */
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/serve-options.h"
#include "serve/zmq/server.h"

typedef struct {
    char *connection_file;
    IpbKernelArguments kernel;
    IpbApprovalArguments approval;
    char *log_level;
    char *history_file; /* only `:memory:` */
} KernelArguments;

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
open_server(KernelCommand *command, const KernelArguments *arguments, GError **error)
{
    g_auto(GStrv) preload = ipb_options_split(arguments->kernel.preload);
    g_auto(IpbZmqConnection) connection = {0};
    IpbSessionOptions session = {
        .workspace = arguments->kernel.workspace,
        .approval = IPB_APPROVAL_ASK, /* of calls that no rule names */
        .approval_timeout_ms = ipb_approval_arguments_timeout_ms(&arguments->approval),
        .audit_log = arguments->approval.audit_log,
        .is_sandboxed = arguments->kernel.is_sandboxed,
        .sandbox_config = arguments->kernel.sandbox_config,
        .on_log = ipb_cli_log,
    };
    if (!ipb_zmq_connection_read(arguments->connection_file, &connection, error) ||
        !ipb_approval_arguments_read(&arguments->approval, &session.approval,
                                     &session.approval_rules, error))
        return false;
    command->runtime =
        ipb_runtime_new(NULL,
                        &(IpbRuntimeOptions){.python = arguments->kernel.python,
                                             .preload = (const char *const *) preload},
                        error);
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
serve(const KernelArguments *arguments)
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

static bool
check_arguments(const KernelArguments *arguments, int argc, char **argv, GError **error)
{
    if (argc > 1)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "unexpected argument: %s", argv[1]);
    else if (arguments->connection_file == NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "give the connection file of the front end: -f FILE. Front ends start "
                            "this program themselves, after `ipybox kernelspec install`");
    else if (arguments->history_file != NULL && strcmp(arguments->history_file, ":memory:") != 0)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--HistoryManager.hist_file can only be :memory:, because kernels keep their "
                    "history in memory; it was %s",
                    arguments->history_file);
    else
        return ipb_approval_arguments_check(&arguments->approval, error) &&
               (arguments->log_level == NULL || ipb_cli_set_log_level(arguments->log_level, error));
    return false;
}

static int
run_kernel(int argc, char **argv)
{
    KernelArguments arguments = {.kernel.is_sandboxed = true};
    const GOptionEntry options[] = {
        {"connection-file", 'f', 0, G_OPTION_ARG_FILENAME, &arguments.connection_file,
         "where to listen, and the key: the front end writes it", "FILE"},
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.kernel.workspace,
         "working directory of the kernel (default: .)", "DIR"},
        IPB_OPTION_PYTHON(&arguments.kernel),
        IPB_OPTION_PRELOAD(&arguments.kernel),
        IPB_OPTION_SANDBOX_CONFIG(&arguments.kernel, ""),
        {"no-sandbox", 0, G_OPTION_FLAG_REVERSE, G_OPTION_ARG_NONE, &arguments.kernel.is_sandboxed,
         "run without a sandbox: code has all your permissions", NULL},
        IPB_OPTION_APPROVE(&arguments.approval,
                           "allow, ask (in the front end; default), deny, or a file of rules"),
        IPB_OPTION_APPROVAL_TIMEOUT(&arguments.approval),
        IPB_OPTION_AUDIT_LOG(&arguments.approval),
        IPB_OPTION_LOG_LEVEL(&arguments.log_level),
        /* nbclient and papermill give this to each kernel whose name is python3. */
        {"HistoryManager.hist_file", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING,
         &arguments.history_file, NULL, NULL},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_kernel, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    status = check_arguments(&arguments, argc, argv, &error)
                 ? serve(&arguments)
                 : ipb_cli_fail(&ipb_verb_kernel, IPB_EXIT_USAGE, "%s", error->message);
    g_free(arguments.connection_file);
    ipb_kernel_arguments_clear(&arguments.kernel);
    ipb_approval_arguments_clear(&arguments.approval);
    g_free(arguments.log_level);
    g_free(arguments.history_file);
    return status;
}

const IpbVerb ipb_verb_kernel = {"kernel", "-f FILE",
                                 "serve a kernel to the Jupyter front end that "
                                 "starts it",
                                 run_kernel};
