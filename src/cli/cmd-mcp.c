/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox` and `ipybox mcp`: the MCP server on standard input and output. When the client has gone or a signal came it
 * ends in order; a second signal ends it at once.
 */
#include "base/error.h"
#include "cli/serve-options.h"
#include "cli/cli.h"
#include "cli/program.h"
#include "cli/mcp-servers-file.h"
#include "serve/mcp/server.h"
#include "serve/stdio.h"
#include "session/workspace.h"

typedef struct {
    IpbProgram program;
    IpbRuntime *runtime;
    IpbSession *session;
    IpbMcpServer *server;
    unsigned n_registering; /* of --servers; cells wait for them */
} McpCommand;

typedef struct {
    IpbKernelArguments kernel;
    IpbApprovalArguments approval;
    char *log_level;
    char *host; /* of the original's inner servers: accepted, without effect */
    int port;
    int allows_builds;
    int frees_servers;
    int without_register;
    char *servers;
    char *server_variables;
} McpArguments;

static void
on_session_closed(void *data)
{
    McpCommand *command = data;
    ipb_runtime_stop(command->runtime, ipb_program_quit, &command->program);
}

static void
close_session(void *data)
{
    McpCommand *command = data;
    ipb_session_close(command->session, on_session_closed, command);
}

/* The session runs no cell before the server stands, so there is one to ask. */
static void
on_approval(const IpbApprovalRequest *request, void *data)
{
    McpCommand *command = data;
    ipb_mcp_server_ask(command->server, request);
}

static void
on_approval_withdrawn(uint64_t request, void *data)
{
    McpCommand *command = data;
    ipb_mcp_server_withdraw(command->server, request);
}

/* --- the servers of --servers ------------------------------------------------------------------ */

static void
on_registered(const char *const *modules, const GError *error, void *data)
{
    McpCommand *command = data;
    if (error != NULL) {
        g_autofree char *line = g_strdup_printf("--servers: %s", error->message);
        ipb_cli_log("error", line, NULL);
    }
    if (--command->n_registering == 0)
        ipb_session_hold_cells(command->session, false);
}

/* In the background: initialize does not wait for it. */
static bool
register_servers(McpCommand *command, const char *path, GError **error)
{
    const IpbJson *servers;
    g_autoptr(IpbJsonDoc) doc = ipb_mcp_servers_file_load(path, &servers, error);
    if (doc == NULL)
        return false;
    IPB_JSON_FOREACH (server, servers) {
        IpbRegisterOptions options = {.name = ipb_json_name(server, NULL), .params = server};
        if (ipb_session_register(command->session, &options, on_registered, command, error) == 0) {
            g_prefix_error(error, "%s: mcpServers.%s: ", path, options.name);
            return false;
        }
        command->n_registering++;
    }
    if (command->n_registering > 0)
        ipb_session_hold_cells(command->session, true);
    return true;
}

static bool
set_up(McpCommand *command, const McpArguments *arguments, GError **error)
{
    g_auto(GStrv) preload = ipb_options_split(arguments->kernel.preload);
    IpbRuntimeOptions runtime = {.python = arguments->kernel.python,
                                 .preload = (const char *const *) preload};
    g_auto(GStrv) variables = ipb_options_split(arguments->server_variables);
    IpbSessionOptions session = {
        .workspace = arguments->kernel.workspace,
        .approval = IPB_APPROVAL_ALLOW, /* as the original: the MCP host asked its user already */
        .audit_log = arguments->approval.audit_log,
        .approval_timeout_ms = ipb_approval_arguments_timeout_ms(&arguments->approval),
        .on_approval = on_approval,
        .on_approval_withdrawn = on_approval_withdrawn,
        .is_sandboxed = arguments->kernel.is_sandboxed || arguments->kernel.sandbox_config != NULL,
        .makes_packages = true,
        .server_variables = (const char *const *) variables,
        .allows_builds = arguments->allows_builds,
        .frees_servers = arguments->frees_servers,
        .sandbox_config = arguments->kernel.sandbox_config,
        .on_log = ipb_cli_log,
        .data = command,
    };
    if (!ipb_approval_arguments_read(&arguments->approval, &session.approval,
                                     &session.approval_rules, error))
        return false;
    command->runtime = ipb_runtime_new(NULL, &runtime, error);
    if (command->runtime == NULL)
        return false;
    command->session = ipb_session_new(command->runtime, &session, error);
    if (command->session == NULL || !ipb_workspace_allow_registered(command->session, error) ||
        (arguments->servers != NULL && !register_servers(command, arguments->servers, error)))
        return false;
    int in, out;
    if (!ipb_stdio_take_over(&in, &out, error))
        return false;
    IpbMcpServerOptions server = {
        .session = command->session,
        .without_register = arguments->without_register,
        .in = in,
        .out = out,
        .on_end = ipb_program_end,
        .on_log = ipb_cli_log,
        .data = &command->program,
    };
    command->server = ipb_mcp_server_new(ipb_runtime_loop(command->runtime), &server, error);
    return command->server != NULL;
}

static int
serve(const McpArguments *arguments)
{
    McpCommand command = {0};
    g_autoptr(GError) error = NULL;
    if (ipb_program_init(&command.program, true, close_session, &command, &error) &&
        set_up(&command, arguments, &error)) {
        /* In the background: initialize does not wait for it. */
        ipb_session_start(command.session);
        ipb_program_run(&command.program);
    } else {
        command.program.status =
            ipb_cli_fail(&ipb_verb_mcp, ipb_cli_status(error), "%s", error->message);
    }
    ipb_program_clear(&command.program);
    g_clear_pointer(&command.session, ipb_session_free);
    g_clear_pointer(&command.runtime, ipb_runtime_unref);
    ipb_mcp_server_free(command.server);
    return command.program.status;
}

static int
run_mcp(int argc, char **argv)
{
    McpArguments arguments = {0};
    const GOptionEntry options[] = {
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.kernel.workspace,
         "working directory of the kernel; generated packages go to its mcptools (default: .)",
         "DIR"},
        IPB_OPTION_PYTHON(&arguments.kernel),
        IPB_OPTION_PRELOAD(&arguments.kernel),
        IPB_OPTION_APPROVE(&arguments.approval,
                           "allow (the default), ask (the host's user, where it can), deny, or a "
                           "file of rules"),
        IPB_OPTION_APPROVAL_TIMEOUT(&arguments.approval),
        IPB_OPTION_AUDIT_LOG(&arguments.approval),
        IPB_OPTION_LOG_LEVEL(&arguments.log_level),
        IPB_OPTION_SANDBOX(&arguments.kernel),
        IPB_OPTION_SANDBOX_CONFIG(&arguments.kernel, "; includes --sandbox"),
        {"servers", 0, 0, G_OPTION_ARG_FILENAME, &arguments.servers,
         "register the MCP servers of this file, {\"mcpServers\": …}, before the first cell runs",
         "FILE"},
        {"no-register", 0, 0, G_OPTION_ARG_NONE, &arguments.without_register,
         "do not offer the tool register_mcp_server", NULL},
        {"server-variables", 0, 0, G_OPTION_ARG_STRING, &arguments.server_variables,
         "the variables that ${NAME} in server parameters may stand for (default: all)", "NAMES"},
        {"allow-builds", 0, 0, G_OPTION_ARG_NONE, &arguments.allows_builds,
         "in a sandbox: install_package takes more than wheels of the index: it builds packages, "
         "and "
         "takes URLs",
         NULL},
        {"unsandboxed-servers", 0, 0, G_OPTION_ARG_NONE, &arguments.frees_servers,
         "with a sandbox: servers that the client registers run outside of one, unless their "
         "parameters ask for it",
         NULL},
        {"tool-server-host", 0, 0, G_OPTION_ARG_STRING, &arguments.host,
         "accepted for the original's sake: there is no such inner server", "HOST"},
        {"tool-server-port", 0, 0, G_OPTION_ARG_INT, &arguments.port, "likewise", "PORT"},
        {"kernel-gateway-host", 0, 0, G_OPTION_ARG_STRING, &arguments.host, "likewise", "HOST"},
        {"kernel-gateway-port", 0, 0, G_OPTION_ARG_INT, &arguments.port, "likewise", "PORT"},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_mcp, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (argc > 1)
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    else if (arguments.log_level != NULL && !ipb_cli_set_log_level(arguments.log_level, &error))
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "%s", error->message);
    else if (!ipb_approval_arguments_check(&arguments.approval, &error))
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "%s", error->message);
    else
        status = serve(&arguments);
    ipb_kernel_arguments_clear(&arguments.kernel);
    ipb_approval_arguments_clear(&arguments.approval);
    g_free(arguments.log_level);
    g_free(arguments.servers);
    g_free(arguments.server_variables);
    g_free(arguments.host);
    return status;
}

const IpbVerb ipb_verb_mcp = {
    "mcp", "", "the MCP server on standard input and output (also without a verb)", run_mcp};
