/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox tool-server`: runs tools of MCP servers for applications, over HTTP. When it listens, it
 * prints its address in one line of JSON to standard output. A signal, or the end of the program
 * that started it, ends it in order.
 */
#include "base/error.h"
#include "cli/cli.h"
#include "cli/serve-options.h"
#include "cli/program.h"
#include "serve/tool-server/http.h"
#include "session/environment.h"

#define DEFAULT_PORT 8900 /* also in --help */
#define DEFAULT_CONNECT_TIMEOUT_S 30
#define MAX_CONNECT_TIMEOUT_S (24 * 60 * 60)

typedef struct {
    IpbProgram program;
    IpbLoop *loop;
    IpbToolServerHttp *server;
} Command;

typedef struct {
    IpbListenArguments listen;
    IpbApprovalArguments approval;
    char *workspace;
    int is_approval_required;
    double connect_timeout_s;
    char *log_level;
} Arguments;

static void
close_server(void *data)
{
    Command *command = data;
    ipb_tool_server_http_close(command->server, ipb_program_quit, &command->program);
}

static void
on_env_warning(const char *text, void *data)
{
    ipb_cli_log("WARNING", text, NULL);
}

/* The caller frees the gate and *ret_token. */
static IpbHttpGate *
make_gate(const Arguments *arguments, char **ret_token, GError **error)
{
    /* The token for applications of other users. If none is given, a random one is made. */
    const char *given = g_getenv("IPYBOX_TOOL_SERVER_TOKEN");
    g_autofree char *token =
        given != NULL && given[0] != '\0' ? g_strdup(given) : ipb_http_gate_make_token(error);
    if (token == NULL)
        return NULL;
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_set_own_user(gate, IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_add_token(gate, token, IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_set_hint(gate, "only processes of the server's own user on this machine need no "
                                 "token: send \"Authorization: Bearer TOKEN\" with the token that "
                                 "the server was given or printed");
    ipb_listen_arguments_open(&arguments->listen, gate);
    *ret_token = g_steal_pointer(&token);
    return gate;
}

static bool
set_up(Command *command, const Arguments *arguments, GError **error)
{
    g_autofree char *token = NULL;
    g_autofree char *workspace =
        g_canonicalize_filename(arguments->workspace != NULL ? arguments->workspace : ".", NULL);
    if (!ipb_options_check_workspace(workspace, error))
        return false;
    g_auto(GStrv) env = ipb_environment_application(NULL, workspace, /* is_sandboxed= */ false,
                                                    on_env_warning, NULL);
    IpbToolServerHttpOptions options = {
        .workspace = workspace,
        .env = (const char *const *) env,
        .approval = arguments->is_approval_required ? IPB_APPROVAL_ASK : IPB_APPROVAL_ALLOW,
        .audit_log = arguments->approval.audit_log,
        .approval_timeout_ms = ipb_approval_arguments_timeout_ms(&arguments->approval),
        .connect_timeout_ms = (unsigned) (arguments->connect_timeout_s * 1000),
        .on_log = ipb_cli_log,
    };
    if (!ipb_approval_arguments_read(&arguments->approval, &options.approval,
                                     &options.approval_rules, error))
        return false;
    command->loop = ipb_loop_new(NULL, error);
    if (command->loop == NULL)
        return false;
    IpbHttpGate *gate = make_gate(arguments, &token, error);
    if (gate == NULL)
        return false;
    command->server = ipb_tool_server_http_new(command->loop, &options, gate, error);
    if (command->server == NULL ||
        !ipb_tool_server_http_listen(command->server, ipb_listen_arguments_host(&arguments->listen),
                                     (unsigned) arguments->listen.port, error) ||
        !ipb_program_end_with_input(&command->program, command->loop, error))
        return false;
    ipb_listen_arguments_report(&arguments->listen, ipb_tool_server_http_port(command->server),
                                NULL, token);
    return true;
}

static int
serve(const Arguments *arguments)
{
    Command command = {0};
    g_autoptr(GError) error = NULL;
    if (ipb_program_init(&command.program, true, close_server, &command, &error) &&
        set_up(&command, arguments, &error))
        ipb_program_run(&command.program);
    else
        command.program.status =
            ipb_cli_fail(&ipb_verb_tool_server, ipb_cli_status(error), "%s", error->message);
    ipb_program_clear(&command.program);
    ipb_tool_server_http_free(command.server);
    g_clear_pointer(&command.loop, ipb_loop_unref);
    return command.program.status;
}

static bool
check(const Arguments *arguments, GError **error)
{
    if (!(arguments->connect_timeout_s > 0 &&
          arguments->connect_timeout_s <= MAX_CONNECT_TIMEOUT_S)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--connect-timeout must be a number of seconds, at most a day");
        return false;
    }
    return ipb_listen_arguments_check(&arguments->listen, error) &&
           ipb_approval_arguments_check(&arguments->approval, error) &&
           (arguments->log_level == NULL || ipb_cli_set_log_level(arguments->log_level, error));
}

static int
run_tool_server(int argc, char **argv)
{
    Arguments arguments = {.listen.port = DEFAULT_PORT,
                           .connect_timeout_s = DEFAULT_CONNECT_TIMEOUT_S};
    const GOptionEntry options[] = {
        IPB_OPTION_HOST(&arguments.listen, ""),
        IPB_OPTION_PORT(&arguments.listen, "8900"),
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.workspace,
         "working directory of MCP servers; its .env is read (default: .)", "DIR"},
        {"approval-required", 0, 0, G_OPTION_ARG_NONE, &arguments.is_approval_required,
         "same as --approve=ask: the client connected to /approval decides", NULL},
        IPB_OPTION_APPROVAL_TIMEOUT(&arguments.approval),
        IPB_OPTION_APPROVE(&arguments.approval, "allow (default), ask, deny, or a file of rules"),
        IPB_OPTION_AUDIT_LOG(&arguments.approval),
        {"connect-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.connect_timeout_s,
         "time for an MCP server to start (default: 30)", "SECONDS"},
        IPB_OPTION_ALLOW_HOST(&arguments.listen),
        IPB_OPTION_ALLOW_ORIGIN(&arguments.listen),
        IPB_OPTION_LOG_LEVEL(&arguments.log_level),
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_tool_server, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (argc > 1)
        status =
            ipb_cli_fail(&ipb_verb_tool_server, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    else if (!check(&arguments, &error))
        status = ipb_cli_fail(&ipb_verb_tool_server, IPB_EXIT_USAGE, "%s", error->message);
    else
        status = serve(&arguments);
    ipb_listen_arguments_clear(&arguments.listen);
    ipb_approval_arguments_clear(&arguments.approval);
    g_free(arguments.workspace);
    g_free(arguments.log_level);
    return status;
}

const IpbVerb ipb_verb_tool_server = {
    "tool-server", "", "run tools of MCP servers for applications over HTTP", run_tool_server};
