/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox` and `ipybox mcp`: the MCP server on standard input and output. When the client closes
 * standard input, or a signal arrives, it ends in order. A second signal ends it at once.
 */
#include <unistd.h>

#include "base/error.h"
#include "cli/cli-runtime.h"
#include "cli/cli.h"
#include "cli/mcp-servers-file.h"
#include "cli/program.h"
#include "cli/serve-options.h"
#include "cli/tool-options.h"
#include "serve/mcp/service.h"
#include "serve/mcp/tools.h"
#include "serve/stdio-channel.h"

typedef struct {
    IpbProgram program;
    IpbRuntime *runtime;
    IpbMcpService *service;
    /* These live as long as the service. */
    IpbJsonDoc *servers;
    char **server_variables;
} McpCommand;

typedef struct {
    IpbKernelArguments kernel;
    IpbApprovalArguments approval;
    char *log_level;
    char *host; /* of the inner servers of ipybox 0.9: accepted, without effect */
    int port;
    int allows_builds;
    int allows_unsandboxed_servers;
    int offers_register;
    char *servers;
    char *server_variables;
    IpbToolArguments tool;
} McpArguments;

static void
on_closed(void *data)
{
    McpCommand *command = data;
    ipb_runtime_stop(command->runtime, ipb_program_quit, &command->program);
}

static void
close_service(void *data)
{
    McpCommand *command = data;
    ipb_mcp_service_close(command->service, on_closed, command);
}

/* The default of ipybox 0.9, which must be noticed. */
static void
report_unsandboxed(void)
{
    ipb_cli_log("WARNING",
                "cells are not sandboxed: they can do what this user can do here. --sandbox runs "
                "them in sandboxes",
                NULL);
}

/* People who try the command alone would wait for nothing. */
static void
report_terminal(void)
{
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        ipb_cli_say(&ipb_verb_mcp, "waiting for an MCP client on standard input, which is a "
                                   "terminal here. Ctrl-D ends it, 'ipybox --help' shows more");
}

/* The client on standard input and output. */
static bool
connect_stdio(McpCommand *command, GError **error)
{
    int in, out;
    if (!ipb_stdio_channel_take_over(&in, &out, error))
        return false;
    IpbMessageChannel *channel =
        ipb_stdio_channel_new(ipb_runtime_loop(command->runtime), in, out, error);
    return channel != NULL &&
           ipb_mcp_service_connect(command->service, channel, false, ipb_program_end,
                                   &command->program, error) != NULL;
}

static bool
set_up(McpCommand *command, const McpArguments *arguments, const IpbMcpToolOptions *tools,
       GError **error)
{
    command->server_variables = ipb_options_split(arguments->server_variables);
    IpbSessionOptions session = {
        .workspace = arguments->kernel.workspace,
        .saves_images = true,
        /* As in ipybox 0.9: the MCP host asked its user already. */
        .approval = IPB_APPROVAL_ALLOW,
        .is_approval_default = arguments->approval.approve == NULL,
        .audit_log = arguments->approval.audit_log,
        .record = arguments->kernel.record,
        .undo = ipb_mcp_tools_undo(tools),
        .approval_timeout_ms = ipb_approval_arguments_timeout_ms(&arguments->approval),
        .is_sandboxed = arguments->kernel.is_sandboxed || arguments->kernel.is_staged ||
                        arguments->kernel.sandbox_config != NULL ||
                        arguments->kernel.allowed_domains != NULL,
        .is_staged = arguments->kernel.is_staged,
        .staging_dir = arguments->kernel.staging_dir,
        .makes_packages = true,
        .server_variables = (const char *const *) command->server_variables,
        .allows_builds = arguments->allows_builds,
        .allows_unsandboxed_servers = arguments->allows_unsandboxed_servers,
        .sandbox_config = arguments->kernel.sandbox_config,
        .allowed_domains = (const char *const *) arguments->kernel.allowed_domains,
    };
    const IpbJson *servers = NULL;
    if (!ipb_approval_arguments_read(&arguments->approval, &session.approval,
                                     &session.approval_rules, error))
        return false;
    command->runtime = ipb_cli_runtime_new(&arguments->kernel, error);
    if (command->runtime == NULL)
        return false;
    if (arguments->servers != NULL) {
        command->servers = ipb_mcp_servers_file_load(arguments->servers, &servers, error);
        if (command->servers == NULL)
            return false;
    }
    IpbMcpServiceOptions service = {
        .session = session,
        .offers_register = arguments->offers_register,
        .tools = *tools,
        .servers = servers,
        .servers_path = arguments->servers,
        .on_log = ipb_cli_log,
    };
    command->service = ipb_mcp_service_new(command->runtime, &service);
    if (!session.is_sandboxed)
        report_unsandboxed();
    report_terminal();
    return connect_stdio(command, error);
}

static int
serve(const McpArguments *arguments, const IpbMcpToolOptions *tools)
{
    McpCommand command = {0};
    g_autoptr(GError) error = NULL;
    if (ipb_program_init(&command.program, true, close_service, &command, &error) &&
        set_up(&command, arguments, tools, &error))
        ipb_program_run(&command.program);
    else
        command.program.status =
            ipb_cli_fail(&ipb_verb_mcp, ipb_cli_status(error), "%s", error->message);
    ipb_program_clear(&command.program);
    ipb_mcp_service_free(command.service);
    g_clear_pointer(&command.runtime, ipb_runtime_unref);
    ipb_json_doc_free(command.servers);
    g_strfreev(command.server_variables);
    return command.program.status;
}

static int
run_mcp(int argc, char **argv)
{
    McpArguments arguments = {.offers_register = TRUE};
    const GOptionEntry options[] = {
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.kernel.workspace,
         "working directory of the kernel (default: .)", "DIR"},
        IPB_OPTION_PYTHON(&arguments.kernel),
        IPB_OPTION_PRELOAD(&arguments.kernel),
        IPB_OPTION_APPROVE(&arguments.approval, "allow (default), ask, deny, or a file of rules"),
        IPB_OPTION_APPROVAL_TIMEOUT(&arguments.approval),
        IPB_OPTION_AUDIT_LOG(&arguments.approval),
        IPB_OPTION_RECORD(&arguments.kernel),
        IPB_OPTION_LOG_LEVEL(&arguments.log_level),
        IPB_OPTION_SANDBOX(&arguments.kernel),
        IPB_OPTION_SANDBOX_CONFIG(&arguments.kernel, "; implies --sandbox"),
        IPB_OPTION_ALLOWED_DOMAINS(&arguments.kernel, "; implies --sandbox"),
        IPB_OPTION_STAGED(&arguments.kernel, " until it is committed; implies --sandbox"),
        IPB_OPTION_STAGING_DIR(&arguments.kernel),
        {"servers", 0, 0, G_OPTION_ARG_FILENAME, &arguments.servers,
         "register the servers of a {\"mcpServers\": …} file first", "FILE"},
        {"no-register", 0, G_OPTION_FLAG_REVERSE, G_OPTION_ARG_NONE, &arguments.offers_register,
         "do not offer the tool register_mcp_server", NULL},
        IPB_OPTION_IMAGES(&arguments.tool),
        IPB_OPTION_STRUCTURED(&arguments.tool),
        IPB_OPTION_TOOLS(&arguments.tool),
        {"server-variables", 0, 0, G_OPTION_ARG_STRING, &arguments.server_variables,
         "variables that server parameters may use as ${NAME} (default: all)", "NAMES"},
        {"allow-builds", 0, 0, G_OPTION_ARG_NONE, &arguments.allows_builds,
         "in a sandbox: install_package also builds packages and accepts URLs", NULL},
        {"unsandboxed-servers", 0, 0, G_OPTION_ARG_NONE, &arguments.allows_unsandboxed_servers,
         "with a sandbox: run servers of the client outside of it by default", NULL},
        {"tool-server-host", 0, 0, G_OPTION_ARG_STRING, &arguments.host,
         "accepted for compatibility with ipybox 0.9, without effect", "HOST"},
        {"tool-server-port", 0, 0, G_OPTION_ARG_INT, &arguments.port,
         "accepted for compatibility with ipybox 0.9, without effect", "PORT"},
        {"kernel-gateway-host", 0, 0, G_OPTION_ARG_STRING, &arguments.host,
         "accepted for compatibility with ipybox 0.9, without effect", "HOST"},
        {"kernel-gateway-port", 0, 0, G_OPTION_ARG_INT, &arguments.port,
         "accepted for compatibility with ipybox 0.9, without effect", "PORT"},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    IpbMcpToolOptions tools = {0};
    if (!ipb_cli_parse(&ipb_verb_mcp, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (argc > 1)
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    else if (arguments.log_level != NULL && !ipb_cli_set_log_level(arguments.log_level, &error))
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "%s", error->message);
    else if (arguments.kernel.staging_dir != NULL && !arguments.kernel.is_staged)
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "--staging-dir needs --staged");
    else if (!ipb_kernel_arguments_split_domains(&arguments.kernel, &error))
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "%s", error->message);
    else if (!ipb_tool_arguments_read(&arguments.tool, arguments.kernel.is_staged, &tools, &error))
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "%s", error->message);
    else if (!ipb_approval_arguments_check(&arguments.approval, &error))
        status = ipb_cli_fail(&ipb_verb_mcp, IPB_EXIT_USAGE, "%s", error->message);
    else
        status = serve(&arguments, &tools);
    ipb_kernel_arguments_clear(&arguments.kernel);
    ipb_approval_arguments_clear(&arguments.approval);
    g_free(arguments.log_level);
    g_free(arguments.servers);
    g_free(arguments.server_variables);
    ipb_tool_arguments_clear(&arguments.tool);
    g_free(arguments.host);
    return status;
}

const IpbVerb ipb_verb_mcp = {
    "mcp", "", "run the MCP server on standard input and output (the default)", run_mcp};
