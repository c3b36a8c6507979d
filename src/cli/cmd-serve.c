/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox serve`: the MCP server over HTTP, for any number of clients. When the first kernel is
 * ready, it prints its address in one line of JSON to standard output. A signal, or the end of the
 * program that started it, ends it in order.
 */
#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/mcp-servers-file.h"
#include "cli/program.h"
#include "cli/serve-options.h"
#include "serve/mcp-http/private-sandbox.h"
#include "serve/mcp-http/server.h"

#define DEFAULT_PORT 8901 /* these are also in --help */
#define DEFAULT_MAX_SESSIONS 200
#define DEFAULT_MAX_SESSIONS_EACH 100
#define DEFAULT_MAX_CONNECTIONS 1000
#define DEFAULT_IDLE_S 3600
#define DEFAULT_APPROVAL_TIMEOUT_S 600
#define MAX_SESSIONS 10000
#define MAX_CONNECTIONS 20000
#define MAX_IDLE_S (30 * 24 * 60 * 60)
#define TOKEN_VARIABLE "IPYBOX_SERVE_TOKEN"

typedef struct {
    IpbListenArguments listen;
    IpbKernelArguments kernel;
    IpbApprovalArguments approval;
    char *token_file;
    char *servers;
    char *server_variables;
    int offers_register;
    int allows_builds;
    int max_sessions;
    int max_sessions_each;
    int max_connections;
    double idle_s;
    char *log_level;
} Arguments;

typedef struct {
    IpbProgram program;
    const Arguments *arguments;
    IpbRuntime *runtime;
    IpbMcpHttpServer *server;
    /* The token that was made, and is printed once; NULL: it was given */
    char *token;
    /* These live as long as the server. */
    IpbMcpServiceOptions *services;
    GPtrArray *texts;
    IpbJsonDoc *servers;
    char **server_variables;
} Command;

static void
on_closed(void *data)
{
    Command *command = data;
    ipb_runtime_stop(command->runtime, ipb_program_quit, &command->program);
}

static void
close_server(void *data)
{
    Command *command = data;
    ipb_mcp_http_server_close(command->server, on_closed, command);
}

static void
on_ready(const GError *why, void *data)
{
    Command *command = data;
    if (why != NULL)
        ipb_program_end(why, &command->program);
    else
        ipb_listen_arguments_report(&command->arguments->listen,
                                    ipb_mcp_http_server_port(command->server), command->token);
}

/* --- setting up ------------------------------------------------------------------------------- */

static IpbPrincipals *
make_principals(Command *command, GError **error)
{
    const char *given = g_getenv(TOKEN_VARIABLE);
    if (command->arguments->token_file != NULL)
        return ipb_principals_load(command->arguments->token_file, error);
    if (given != NULL && *given != '\0') {
        IpbPrincipals *principals = ipb_principals_new(given, error);
        if (principals == NULL)
            g_prefix_error(error, TOKEN_VARIABLE ": ");
        return principals;
    }
    command->token = ipb_http_gate_make_token(error);
    return command->token != NULL ? ipb_principals_new(command->token, error) : NULL;
}

static const char *
keep(Command *command, char *text)
{
    g_ptr_array_add(command->texts, text);
    return text;
}

/* With a token file, each principal has a workspace of its own, in which only it can read. */
static bool
make_private(Command *command, const char *root, const char *name, IpbSessionOptions *session,
             GError **error)
{
    session->workspace = keep(command, g_build_filename(root, name, NULL));
    if (!ipb_file_make_directories(session->workspace, 0700, error))
        return false;
    if (!session->is_sandboxed)
        return true;
    g_autofree char *tokens = g_canonicalize_filename(command->arguments->token_file, NULL);
    g_autofree char *log =
        session->audit_log != NULL ? g_canonicalize_filename(session->audit_log, NULL) : NULL;
    const char *const hidden[] = {tokens, log, NULL};
    char *config = ipb_private_sandbox_write(ipb_runtime_state_dir(command->runtime), root, name,
                                             session->sandbox_config, hidden, error);
    session->sandbox_config = config != NULL ? keep(command, config) : NULL;
    return config != NULL;
}

static bool
make_services(Command *command, const IpbPrincipals *principals, const IpbMcpServiceOptions *common,
              GError **error)
{
    const Arguments *arguments = command->arguments;
    size_t n = ipb_principals_count(principals);
    g_autofree char *root = g_canonicalize_filename(
        arguments->kernel.workspace != NULL ? arguments->kernel.workspace : ".", NULL);
    if (!g_file_test(root, G_FILE_TEST_IS_DIR)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "--workspace %s is not a directory", root);
        return false;
    }
    if (n > 1 && !arguments->kernel.is_sandboxed) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "--unsandboxed-kernels is for one client: without sandboxes, the "
                            "clients of --token-file could read each other's files");
        return false;
    }
    command->services = g_new0(IpbMcpServiceOptions, n);
    for (size_t i = 0; i < n; i++) {
        command->services[i] = *common;
        if (arguments->token_file != NULL &&
            !make_private(command, root, ipb_principals_name(principals, i),
                          &command->services[i].session, error))
            return false;
    }
    return true;
}

static bool
make_common(Command *command, IpbMcpServiceOptions *ret_common, GError **error)
{
    const Arguments *arguments = command->arguments;
    command->server_variables =
        ipb_options_split(arguments->server_variables != NULL ? arguments->server_variables : "");
    *ret_common = (IpbMcpServiceOptions){
        .session =
            {
                .workspace = arguments->kernel.workspace,
                .saves_images = true,
                .approval = IPB_APPROVAL_ALLOW,
                .is_approval_default = arguments->approval.approve == NULL,
                .audit_log = arguments->approval.audit_log,
                .approval_timeout_ms = ipb_approval_arguments_timeout_ms(&arguments->approval),
                .is_sandboxed = arguments->kernel.is_sandboxed,
                .makes_packages = true,
                .server_variables = (const char *const *) command->server_variables,
                .allows_builds = arguments->allows_builds,
                .sandbox_config = arguments->kernel.sandbox_config,
            },
        .offers_register = arguments->offers_register,
        .keeps_results = true,
        .servers_path = arguments->servers,
        .max_connections = MAX_SESSIONS,
        .on_log = ipb_cli_log,
    };
    if (!ipb_approval_arguments_read(&arguments->approval, &ret_common->session.approval,
                                     &ret_common->session.approval_rules, error))
        return false;
    if (arguments->servers != NULL) {
        command->servers =
            ipb_mcp_servers_file_load(arguments->servers, &ret_common->servers, error);
        if (command->servers == NULL)
            return false;
    }
    return true;
}

static bool
open_server(Command *command, GError **error)
{
    const Arguments *arguments = command->arguments;
    IpbMcpServiceOptions common;
    g_auto(GStrv) preload = ipb_options_split(arguments->kernel.preload);
    g_autoptr(IpbPrincipals) principals = make_principals(command, error);
    if (principals == NULL || !make_common(command, &common, error))
        return false;
    command->runtime =
        ipb_runtime_new(NULL,
                        &(IpbRuntimeOptions){.python = arguments->kernel.python,
                                             .preload = (const char *const *) preload},
                        error);
    if (command->runtime == NULL || !make_services(command, principals, &common, error))
        return false;
    command->server = ipb_mcp_http_server_new(&(IpbMcpHttpServerOptions){
        .runtime = command->runtime,
        .services = command->services,
        .principals = g_steal_pointer(&principals),
        .origins = arguments->listen.origins,
        .hosts = arguments->listen.hosts,
        .max_sessions = (unsigned) arguments->max_sessions,
        .max_sessions_each = (unsigned) arguments->max_sessions_each,
        .max_connections = (unsigned) arguments->max_connections,
        .idle_ms = (unsigned) (arguments->idle_s * 1000),
        .on_ready = on_ready,
        .on_log = ipb_cli_log,
        .data = command,
    });
    return ipb_mcp_http_server_listen(command->server,
                                      ipb_listen_arguments_host(&arguments->listen),
                                      (unsigned) arguments->listen.port, error) &&
           ipb_program_end_with_input(&command->program, ipb_runtime_loop(command->runtime), error);
}

static int
serve(const Arguments *arguments)
{
    Command command = {.arguments = arguments, .texts = g_ptr_array_new_with_free_func(g_free)};
    g_autoptr(GError) error = NULL;
    if (ipb_program_init(&command.program, true, close_server, &command, &error) &&
        open_server(&command, &error))
        ipb_program_run(&command.program);
    else
        command.program.status =
            ipb_cli_fail(&ipb_verb_serve, ipb_cli_status(error), "%s", error->message);
    ipb_program_clear(&command.program);
    ipb_mcp_http_server_free(command.server);
    g_clear_pointer(&command.runtime, ipb_runtime_unref);
    ipb_json_doc_free(command.servers);
    g_strfreev(command.server_variables);
    g_ptr_array_unref(command.texts);
    g_free(command.services);
    g_free(command.token);
    return command.program.status;
}

/* --- the command line ------------------------------------------------------------------------- */

static bool
is_in_range(int value, int max)
{
    return value >= 1 && value <= max;
}

static const char *
find_wrong(const Arguments *arguments)
{
    if (!ipb_listen_arguments_is_loopback(&arguments->listen))
        return "--host must be localhost or a loopback address: ipybox serve has no TLS yet. Put "
               "a proxy with TLS on this machine, and name it with --allow-host";
    if (!is_in_range(arguments->max_sessions, MAX_SESSIONS) ||
        !is_in_range(arguments->max_sessions_each, MAX_SESSIONS))
        return "--max-sessions and --max-sessions-each must be numbers from 1 to 10000";
    if (!is_in_range(arguments->max_connections, MAX_CONNECTIONS))
        return "--max-connections must be a number from 1 to 20000";
    if (!(arguments->idle_s > 0 && arguments->idle_s <= MAX_IDLE_S))
        return "--idle-timeout must be a number of seconds, at most 30 days";
    for (char **origin = arguments->listen.origins; origin != NULL && *origin != NULL; origin++)
        if (g_str_equal(*origin, "*"))
            return "--allow-origin must be an origin, such as http://localhost:3000";
    return NULL;
}

static bool
check_arguments(const Arguments *arguments, GError **error)
{
    const char *wrong = find_wrong(arguments);
    if (wrong != NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, wrong);
    return wrong == NULL && ipb_listen_arguments_check(&arguments->listen, error) &&
           ipb_approval_arguments_check(&arguments->approval, error) &&
           (arguments->log_level == NULL || ipb_cli_set_log_level(arguments->log_level, error));
}

static int
run_serve(int argc, char **argv)
{
    Arguments arguments = {
        .listen.port = DEFAULT_PORT,
        .kernel.is_sandboxed = TRUE,
        .approval.timeout_s = DEFAULT_APPROVAL_TIMEOUT_S,
        .offers_register = TRUE,
        .max_sessions = DEFAULT_MAX_SESSIONS,
        .max_sessions_each = DEFAULT_MAX_SESSIONS_EACH,
        .max_connections = DEFAULT_MAX_CONNECTIONS,
        .idle_s = DEFAULT_IDLE_S,
    };
    const GOptionEntry options[] = {
        IPB_OPTION_HOST(&arguments.listen, "; loopback only"),
        IPB_OPTION_PORT(&arguments.listen, "8901"),
        {"token-file", 0, 0, G_OPTION_ARG_FILENAME, &arguments.token_file,
         "file with a line \"NAME TOKEN\" for each client (default: one token)", "FILE"},
        IPB_OPTION_ALLOW_HOST(&arguments.listen),
        IPB_OPTION_ALLOW_ORIGIN(&arguments.listen),
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.kernel.workspace,
         "working directory of kernels; with --token-file, where each client has one (default: .)",
         "DIR"},
        IPB_OPTION_PYTHON(&arguments.kernel),
        IPB_OPTION_PRELOAD(&arguments.kernel),
        {"unsandboxed-kernels", 0, G_OPTION_FLAG_REVERSE, G_OPTION_ARG_NONE,
         &arguments.kernel.is_sandboxed, "run kernels without sandboxes; for one client only",
         NULL},
        IPB_OPTION_SANDBOX_CONFIG(&arguments.kernel, ""),
        {"idle-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.idle_s,
         "end sessions whose client sends nothing for so long (default: 3600)", "SECONDS"},
        {"max-sessions", 0, 0, G_OPTION_ARG_INT, &arguments.max_sessions,
         "maximum number of sessions (default: 200)", "N"},
        {"max-sessions-each", 0, 0, G_OPTION_ARG_INT, &arguments.max_sessions_each,
         "maximum number of sessions of one client (default: 100)", "N"},
        {"max-connections", 0, 0, G_OPTION_ARG_INT, &arguments.max_connections,
         "maximum number of HTTP connections (default: 1000)", "N"},
        IPB_OPTION_APPROVE(&arguments.approval, "allow (default), ask, deny, or a file of rules"),
        {"approval-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.approval.timeout_s,
         "refuse a call that no one answers within this time (default: 600)", "SECONDS"},
        IPB_OPTION_AUDIT_LOG(&arguments.approval),
        {"servers", 0, 0, G_OPTION_ARG_FILENAME, &arguments.servers,
         "register the servers of a {\"mcpServers\": …} file first", "FILE"},
        {"no-register", 0, G_OPTION_FLAG_REVERSE, G_OPTION_ARG_NONE, &arguments.offers_register,
         "do not offer the tool register_mcp_server", NULL},
        {"server-variables", 0, 0, G_OPTION_ARG_STRING, &arguments.server_variables,
         "variables that server parameters may use as ${NAME} (default: none)", "NAMES"},
        {"allow-builds", 0, 0, G_OPTION_ARG_NONE, &arguments.allows_builds,
         "install_package also builds packages and accepts URLs", NULL},
        IPB_OPTION_LOG_LEVEL(&arguments.log_level),
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_serve, options, NULL, &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (argc > 1)
        status = ipb_cli_fail(&ipb_verb_serve, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    else if (!check_arguments(&arguments, &error))
        status = ipb_cli_fail(&ipb_verb_serve, IPB_EXIT_USAGE, "%s", error->message);
    else
        status = serve(&arguments);
    ipb_listen_arguments_clear(&arguments.listen);
    ipb_kernel_arguments_clear(&arguments.kernel);
    ipb_approval_arguments_clear(&arguments.approval);
    g_free(arguments.token_file);
    g_free(arguments.servers);
    g_free(arguments.server_variables);
    g_free(arguments.log_level);
    return status;
}

const IpbVerb ipb_verb_serve = {"serve", "", "run the MCP server over HTTP, for several clients",
                                run_serve};
