/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox tool-server`: runs tools of MCP servers for applications, over HTTP. When it listens it says where, in one line of JSON on
 * standard output. It ends in order with a signal, or with whoever started it (cli/lifeline.h).
 */
#include "base/error.h"
#include "cli/cli.h"
#include "cli/program.h"
#include "serve/tool-server/http.h"
#include "session/environment.h"

#define DEFAULT_HOST "localhost"
#define DEFAULT_PORT 8900
#define DEFAULT_CONNECT_TIMEOUT_S 30

typedef struct {
    IpbProgram program;
    IpbLoop *loop;
    IpbToolServerHttp *server;
} Command;

typedef struct {
    char *host;
    int port;
    char *workspace;
    int is_approval_required;
    double approval_timeout_s;
    double connect_timeout_s;
    char *approve; /* a policy's name, or the path of a rules file */
    char *audit_log;
    char **hosts;
    char **origins;
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

/* Caller frees; @ret_token too. */
static IpbHttpGate *
make_gate(const Arguments *arguments, char **ret_token, GError **error)
{
    /* What applications of other users show; else a random one is made. */
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
    for (char **host = arguments->hosts; host != NULL && *host != NULL; host++)
        ipb_http_gate_allow_host(gate, *host);
    for (char **origin = arguments->origins; origin != NULL && *origin != NULL; origin++)
        ipb_http_gate_allow_origin(gate, *origin);
    *ret_token = g_steal_pointer(&token);
    return gate;
}

static bool
read_approval(const Arguments *arguments, IpbToolServerHttpOptions *options, GError **error)
{
    if (arguments->is_approval_required)
        options->approval = IPB_APPROVAL_ASK;
    if (arguments->approve == NULL ||
        ipb_approval_policy_parse(arguments->approve, &options->approval))
        return true;
    options->approval = IPB_APPROVAL_ASK; /* calls that no rule names */
    options->approval_rules = arguments->approve;
    return ipb_cli_check_rules_file(arguments->approve, error);
}

static bool
set_up(Command *command, const Arguments *arguments, GError **error)
{
    g_autofree char *token = NULL;
    g_autofree char *workspace =
        g_canonicalize_filename(arguments->workspace != NULL ? arguments->workspace : ".", NULL);
    if (!g_file_test(workspace, G_FILE_TEST_IS_DIR)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "--workspace: %s is no directory",
                    workspace);
        return false;
    }
    g_auto(GStrv) env = ipb_environment_application(NULL, workspace, on_env_warning, NULL);
    IpbToolServerHttpOptions options = {
        .workspace = workspace,
        .env = (const char *const *) env,
        .approval = IPB_APPROVAL_ALLOW,
        .audit_log = arguments->audit_log,
        .approval_timeout_ms = arguments->approval_timeout_s > 0
                                   ? (int64_t) (arguments->approval_timeout_s * 1000)
                                   : -1,
        .connect_timeout_ms = (unsigned) (arguments->connect_timeout_s * 1000),
        .on_log = ipb_cli_log,
    };
    if (!read_approval(arguments, &options, error))
        return false;
    command->loop = ipb_loop_new(NULL, error);
    if (command->loop == NULL)
        return false;
    IpbHttpGate *gate = make_gate(arguments, &token, error);
    if (gate == NULL)
        return false;
    command->server = ipb_tool_server_http_new(command->loop, &options, gate, error);
    if (command->server == NULL ||
        !ipb_tool_server_http_listen(command->server, arguments->host, (unsigned) arguments->port,
                                     error) ||
        !ipb_program_hang_on_input(&command->program, command->loop, error))
        return false;
    ipb_program_tell_ready(arguments->host, ipb_tool_server_http_port(command->server), token);
    return true;
}

static int
serve(const Arguments *arguments)
{
    Command command = {0};
    g_autoptr(GError) error = NULL;
    ipb_program_init(&command.program, true, close_server, &command);
    if (set_up(&command, arguments, &error))
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
    if (arguments->port < 0 || arguments->port > 65535)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "--port: %d is no port",
                    arguments->port);
    else if (!(arguments->connect_timeout_s > 0 && arguments->connect_timeout_s <= 86400))
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--connect-timeout must be seconds, up to a day");
    else if (!(arguments->approval_timeout_s >= 0 && arguments->approval_timeout_s <= 1e9))
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--approval-timeout must be seconds");
    else if (arguments->log_level == NULL || ipb_cli_set_log_level(arguments->log_level, error))
        return true;
    return false;
}

static int
run_tool_server(int argc, char **argv)
{
    Arguments arguments = {.port = DEFAULT_PORT, .connect_timeout_s = DEFAULT_CONNECT_TIMEOUT_S};
    const GOptionEntry options[] = {
        {"host", 0, 0, G_OPTION_ARG_STRING, &arguments.host,
         "name or address to listen on (default: localhost)", "HOST"},
        {"port", 0, 0, G_OPTION_ARG_INT, &arguments.port,
         "port to listen on; 0: a free one (default: 8900)", "PORT"},
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.workspace,
         "working directory of MCP servers; its .env is read (default: .)", "DIR"},
        {"approval-required", 0, 0, G_OPTION_ARG_NONE, &arguments.is_approval_required,
         "the same as --approve=ask: the client that is connected to /approval decides", NULL},
        {"approval-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.approval_timeout_s,
         "a question not answered in so many seconds is a no (default: wait)", "SECONDS"},
        {"approve", 0, 0, G_OPTION_ARG_FILENAME, &arguments.approve,
         "tool calls: allow (the default), ask, deny, or a file of rules", "POLICY|FILE"},
        {"audit-log", 0, 0, G_OPTION_ARG_FILENAME, &arguments.audit_log,
         "append a line of JSON for each decision on a tool call", "FILE"},
        {"connect-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.connect_timeout_s,
         "seconds for starting an MCP server (default: 30)", "SECONDS"},
        {"allow-host", 0, 0, G_OPTION_ARG_STRING_ARRAY, &arguments.hosts,
         "another name that the Host header may have", "NAME"},
        {"allow-origin", 0, 0, G_OPTION_ARG_STRING_ARRAY, &arguments.origins,
         "take requests of web pages of this origin, e.g. http://localhost:3000", "ORIGIN"},
        {"log-level", 0, 0, G_OPTION_ARG_STRING, &arguments.log_level,
         "DEBUG, INFO, WARNING, ERROR or CRITICAL (default: WARNING); logs go to stderr", "LEVEL"},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_tool_server, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (arguments.host == NULL)
        arguments.host = g_strdup(DEFAULT_HOST);
    if (argc > 1)
        status =
            ipb_cli_fail(&ipb_verb_tool_server, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    else if (!check(&arguments, &error))
        status = ipb_cli_fail(&ipb_verb_tool_server, IPB_EXIT_USAGE, "%s", error->message);
    else
        status = serve(&arguments);
    g_free(arguments.host);
    g_free(arguments.workspace);
    g_free(arguments.approve);
    g_free(arguments.audit_log);
    g_strfreev(arguments.hosts);
    g_strfreev(arguments.origins);
    g_free(arguments.log_level);
    return status;
}

const IpbVerb ipb_verb_tool_server = {
    "tool-server", "", "runs tools of MCP servers for applications, over HTTP", run_tool_server};
