/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox gateway`: kernels for Jupyter's clients. A signal, or the end of the program that started
 * it, ends it in order.
 */
#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/serve-options.h"
#include "cli/options.h"
#include "cli/program.h"
#include "sandbox/policy.h"
#include "serve/gateway/gateway.h"

#define DEFAULT_PORT 8888 /* also in --help */
#define DEFAULT_MAX_KERNELS 100
#define DEFAULT_TOOL_SERVER_HOST "localhost"
#define DEFAULT_TOOL_SERVER_PORT 8900
#define TOKEN_VARIABLE "IPYBOX_GATEWAY_TOKEN"
/* Variables with this prefix go to kernels. Two of them name the tool server. */
#define KERNEL_PREFIX "KERNEL_ENV_"
#define MAX_TOKEN_SIZE 1024

typedef struct {
    IpbListenArguments listen;
    IpbKernelArguments kernel;
    char *token_file;
    int max_kernels;
    int idle_s;
    int culls_connected;
    char *log_level;
} GatewayArguments;

typedef struct {
    IpbProgram program;
    IpbRuntime *runtime;
    IpbGateway *gateway;
} GatewayCommand;

static void
on_gateway_closed(void *data)
{
    GatewayCommand *command = data;
    ipb_runtime_stop(command->runtime, ipb_program_quit, &command->program);
}

static void
close_gateway(void *data)
{
    GatewayCommand *command = data;
    ipb_gateway_close(command->gateway, on_gateway_closed, command);
}

/* --- setting up ------------------------------------------------------------------------------- */

/* *ret_token is NULL if no token was given. */
static bool
read_token(const GatewayArguments *arguments, char **ret_token, GError **error)
{
    const char *variable = getenv(TOKEN_VARIABLE);
    if (arguments->token_file == NULL) {
        *ret_token = variable != NULL && *variable != '\0' ? g_strdup(variable) : NULL;
        return true;
    }
    g_autofree char *token = NULL;
    gsize size;
    if (!g_file_get_contents(arguments->token_file, &token, &size, NULL)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "cannot read --token-file %s",
                    arguments->token_file);
        return false;
    }
    g_strstrip(token);
    if (size > MAX_TOKEN_SIZE || *token == '\0') {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--token-file %s must contain a token of at most %d bytes",
                    arguments->token_file, MAX_TOKEN_SIZE);
        return false;
    }
    *ret_token = g_steal_pointer(&token);
    return true;
}

/* Admits clients that have the token. Without a token it admits the user's own processes on this
 * machine. */
static IpbHttpGate *
make_gate(const GatewayArguments *arguments, GError **error)
{
    g_autofree char *token = NULL;
    if (!read_token(arguments, &token, error))
        return NULL;
    bool is_loopback = ipb_listen_arguments_is_loopback(&arguments->listen);
    if (token == NULL && !is_loopback) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--host %s can be reached from other machines: set a token, with --token-file "
                    "or in " TOKEN_VARIABLE,
                    ipb_listen_arguments_host(&arguments->listen));
        return NULL;
    }
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_take_query_token(gate);
    ipb_http_gate_set_hint(
        gate, "the gateway's token is missing or wrong; only a gateway without a token accepts "
              "requests without one, and only of its own user on this machine");
    if (token != NULL)
        ipb_http_gate_add_token(gate, token, IPB_HTTP_ROLE_APPLICATION);
    else
        ipb_http_gate_set_own_user(gate, IPB_HTTP_ROLE_APPLICATION);
    if (!is_loopback)
        ipb_http_gate_set_public(gate);
    ipb_listen_arguments_open(&arguments->listen, gate);
    return gate;
}

/* The tool server that kernels call, from the same variables as in ipybox 0.9. */
static bool
find_tool_server(IpbSessionOptions *session, GError **error)
{
    const char *host = getenv(KERNEL_PREFIX "TOOL_SERVER_HOST");
    const char *port = getenv(KERNEL_PREFIX "TOOL_SERVER_PORT");
    guint64 number = DEFAULT_TOOL_SERVER_PORT;
    if (port != NULL && !g_ascii_string_to_unsigned(port, 10, 1, 65535, &number, NULL)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    KERNEL_PREFIX "TOOL_SERVER_PORT is not a port: %s", port);
        return false;
    }
    session->tool_server_host = host != NULL && *host != '\0' ? host : DEFAULT_TOOL_SERVER_HOST;
    session->tool_server_port = (unsigned) number;
    session->tool_server_token = getenv(KERNEL_PREFIX "IPYBOX_TOOL_TOKEN");
    return true;
}

static bool
open_gateway(GatewayCommand *command, const GatewayArguments *arguments,
             const IpbSessionOptions *session, GError **error)
{
    g_auto(GStrv) preload = ipb_options_split(arguments->kernel.preload);
    IpbHttpGate *gate = make_gate(arguments, error);
    if (gate == NULL)
        return false;
    command->runtime =
        ipb_runtime_new(NULL,
                        &(IpbRuntimeOptions){.python = arguments->kernel.python,
                                             .preload = (const char *const *) preload},
                        error);
    if (command->runtime == NULL) {
        ipb_http_gate_free(gate);
        return false;
    }
    command->gateway = ipb_gateway_new(&(IpbGatewayOptions){
        .runtime = command->runtime,
        .session = session,
        .max_kernels = (unsigned) arguments->max_kernels,
        .idle_s = (unsigned) arguments->idle_s,
        .culls_connected = arguments->culls_connected,
        .gate = gate,
        .on_log = ipb_cli_log,
    });
    return ipb_gateway_listen(command->gateway, ipb_listen_arguments_host(&arguments->listen),
                              (unsigned) arguments->listen.port, error) &&
           ipb_program_end_with_input(&command->program, ipb_runtime_loop(command->runtime), error);
}

/* Checked now, so that an error is reported before the first kernel starts. */
static bool
check_workspace(const char *path, GError **error)
{
    if (path == NULL || g_file_test(path, G_FILE_TEST_IS_DIR))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "--workspace %s is not a directory",
                path);
    return false;
}

static bool
check_sandbox_config(const char *path, GError **error)
{
    if (path == NULL)
        return true;
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_load(NULL, path, error);
    return policy != NULL;
}

static int
serve(const GatewayArguments *arguments)
{
    GatewayCommand command = {0};
    IpbSessionOptions session = {
        .workspace = arguments->kernel.workspace,
        .approval = IPB_APPROVAL_DENY, /* kernels call the tools of the tool server */
        .approval_timeout_ms = -1,
        .is_sandboxed = arguments->kernel.is_sandboxed || arguments->kernel.sandbox_config != NULL,
        .sandbox_config = arguments->kernel.sandbox_config,
        .on_log = ipb_cli_log,
    };
    g_autoptr(GError) error = NULL;
    if (ipb_program_init(&command.program, true, close_gateway, &command, &error) &&
        check_workspace(arguments->kernel.workspace, &error) &&
        find_tool_server(&session, &error) &&
        check_sandbox_config(arguments->kernel.sandbox_config, &error) &&
        open_gateway(&command, arguments, &session, &error)) {
        ipb_listen_arguments_report(&arguments->listen, ipb_gateway_port(command.gateway), NULL);
        ipb_runtime_start(command.runtime);
        ipb_program_run(&command.program);
    } else {
        command.program.status =
            ipb_cli_fail(&ipb_verb_gateway, ipb_cli_status(error), "%s", error->message);
    }
    ipb_program_clear(&command.program);
    ipb_gateway_free(command.gateway);
    g_clear_pointer(&command.runtime, ipb_runtime_unref);
    return command.program.status;
}

/* --- the command line ------------------------------------------------------------------------- */

static bool
check_arguments(const GatewayArguments *arguments, GError **error)
{
    const char *wrong = NULL;
    if (arguments->max_kernels < 1)
        wrong = "--max-kernels must be at least 1";
    else if (arguments->idle_s < 0)
        wrong = "--cull-idle must be 0 or a number of seconds";
    if (wrong != NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, wrong);
    return wrong == NULL && ipb_listen_arguments_check(&arguments->listen, error) &&
           (arguments->log_level == NULL || ipb_cli_set_log_level(arguments->log_level, error));
}

static int
run_gateway(int argc, char **argv)
{
    GatewayArguments arguments = {.listen.port = DEFAULT_PORT, .max_kernels = DEFAULT_MAX_KERNELS};
    const GOptionEntry options[] = {
        IPB_OPTION_HOST(&arguments.listen, "; others need a token"),
        IPB_OPTION_PORT(&arguments.listen, "8888"),
        {"token-file", 0, 0, G_OPTION_ARG_FILENAME, &arguments.token_file,
         "file with the token for clients (default: IPYBOX_GATEWAY_TOKEN)", "FILE"},
        IPB_OPTION_ALLOW_HOST(&arguments.listen),
        IPB_OPTION_ALLOW_ORIGIN(&arguments.listen),
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.kernel.workspace,
         "working directory of kernels (default: .)", "DIR"},
        IPB_OPTION_PYTHON(&arguments.kernel),
        IPB_OPTION_PRELOAD(&arguments.kernel),
        IPB_OPTION_SANDBOX(&arguments.kernel),
        IPB_OPTION_SANDBOX_CONFIG(&arguments.kernel, "; implies --sandbox"),
        {"max-kernels", 0, 0, G_OPTION_ARG_INT, &arguments.max_kernels,
         "maximum number of kernels (default: 100)", "N"},
        {"cull-idle", 0, 0, G_OPTION_ARG_INT, &arguments.idle_s,
         "end kernels without clients that idle for this time (default: 0, never)", "SECONDS"},
        {"cull-connected", 0, 0, G_OPTION_ARG_NONE, &arguments.culls_connected,
         "with --cull-idle: end kernels with clients, too", NULL},
        IPB_OPTION_LOG_LEVEL(&arguments.log_level),
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_gateway, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (argc > 1)
        status =
            ipb_cli_fail(&ipb_verb_gateway, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    else if (!check_arguments(&arguments, &error))
        status = ipb_cli_fail(&ipb_verb_gateway, IPB_EXIT_USAGE, "%s", error->message);
    else
        status = serve(&arguments);
    ipb_listen_arguments_clear(&arguments.listen);
    ipb_kernel_arguments_clear(&arguments.kernel);
    g_free(arguments.token_file);
    g_free(arguments.log_level);
    return status;
}

const IpbVerb ipb_verb_gateway = {"gateway", "", "serve kernels to Jupyter clients over HTTP",
                                  run_gateway};
