/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox serve`: the MCP server over HTTP, for any number of clients. When the first kernel is
 * ready, it prints its address in one line of JSON to standard output. A signal, or the end of the
 * program that started it, ends it in order. SIGHUP reads the files with tokens, rules,
 * certificates and sandboxes again.
 */
#include <math.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli-runtime.h"
#include "cli/cli.h"
#include "cli/mcp-servers-file.h"
#include "cli/program.h"
#include "cli/serve-options.h"
#include "cli/systemd.h"
#include "cli/tool-options.h"
#include "http/listener.h"
#include "http/unix-listener.h"
#include "sandbox/policy.h"
#include "serve/mcp-http/private-sandbox.h"
#include "serve/mcp-http/server.h"
#include "serve/mcp/tools.h"

#define DEFAULT_PORT 8901 /* these are also in --help */
#define DEFAULT_MAX_SESSIONS 200
#define DEFAULT_MAX_SESSIONS_EACH 100
#define DEFAULT_MAX_CONNECTIONS 1000
#define DEFAULT_IDLE_S 3600
#define DEFAULT_GRACE_S 60
#define DEFAULT_APPROVAL_TIMEOUT_S 600
#define MAX_SESSIONS 10000
#define MAX_RULES (1024 * 1024)
#define MAX_CONNECTIONS 20000
#define MAX_POOL 1000
/* More in one answer would keep other clients waiting. */
#define MAX_OUTPUT_CHARS 1000000
#define MAX_IDLE_S (30 * 24 * 60 * 60)
#define MAX_LIFETIME_S (30 * 24 * 60 * 60)
#define TOKEN_VARIABLE "IPYBOX_SERVE_TOKEN"

typedef struct {
    IpbListenArguments listen;
    IpbKernelArguments kernel;
    IpbApprovalArguments approval;
    char *token_file;
    char *tls_certificate, *tls_key;
    char *unix_socket, *unix_group;
    char **proxies;
    char *servers;
    char *server_variables;
    int offers_register;
    int allows_builds;
    int max_sessions;
    int max_sessions_each;
    int max_connections;
    int pool;
    double idle_s;
    double lifetime_s; /* 0: no limit */
    double grace_s;
    char *log_level;
    IpbToolArguments tool;
    IpbMcpToolOptions tools; /* what `tool` says */
} Arguments;

/* What is read from files, at the start and again with SIGHUP. */
typedef struct {
    IpbPrincipals *principals; /* NULL: unchanged */
    IpbTlsKeys *tls;           /* NULL: no TLS */
    char *rules;               /* the text of --approve FILE, or NULL */
    size_t rules_size;
} Files;

typedef struct {
    IpbProgram program;
    const Arguments *arguments;
    IpbRuntime *runtime;
    IpbMcpHttpServer *server;
    IpbNotifier *notifier;
    IpbTlsKeys *tls;
    IpbUnixListener *unix_listener;
    /* The token that was made, and is printed once; NULL: it was given */
    char *token;
    /* The directory that has the workspaces */
    char *root;
    /* What the services of all principals have in common */
    IpbMcpServiceOptions common;
    /* These live as long as the server: texts of options, each once; servers */
    GHashTable *texts;
    IpbJsonDoc *servers;
    char **server_variables;
} Command;

static void
clear_files(Files *files)
{
    ipb_principals_free(files->principals);
    ipb_tls_keys_unref(files->tls);
    g_free(files->rules);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Files, clear_files)

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
    ipb_notifier_send(command->notifier, "STOPPING=1");
    ipb_mcp_http_server_close(command->server, on_closed, command);
}

static void
on_ready(const GError *why, void *data)
{
    Command *command = data;
    const Arguments *arguments = command->arguments;
    if (why != NULL) {
        ipb_program_end(why, &command->program);
        return;
    }
    ipb_listen_arguments_report(&arguments->listen, ipb_mcp_http_server_port(command->server),
                                arguments->unix_socket, command->token);
    ipb_notifier_send(command->notifier, "READY=1");
}

/* --- files that are read again with SIGHUP ---------------------------------------------------- */

static bool
read_principals(Command *command, IpbPrincipals **ret_principals, GError **error)
{
    const char *given = g_getenv(TOKEN_VARIABLE);
    const char *path = command->arguments->token_file;
    if (path == NULL && command->server != NULL)
        return true;
    if (path != NULL) {
        *ret_principals = ipb_principals_load(path, error);
    } else if (given != NULL && *given != '\0') {
        *ret_principals = ipb_principals_new(given, error);
        if (*ret_principals == NULL)
            g_prefix_error(error, TOKEN_VARIABLE ": ");
    } else {
        command->token = ipb_http_gate_make_token(error);
        if (command->token != NULL)
            *ret_principals = ipb_principals_new(command->token, error);
    }
    return *ret_principals != NULL;
}

static bool
read_rules(const char *path, Files *files, GError **error)
{
    if (!ipb_file_read(path, MAX_RULES, &files->rules, &files->rules_size, error)) {
        g_prefix_error(error, "--approve: ");
        return false;
    }
    g_autoptr(IpbApprovalRules) rules =
        ipb_approval_rules_parse(files->rules, files->rules_size, path, error);
    return rules != NULL;
}

static bool
check_sandbox_config(const char *path, GError **error)
{
    g_autoptr(IpbSandboxPolicy) policy =
        path != NULL ? ipb_sandbox_policy_load(NULL, path, error) : ipb_sandbox_policy_default();
    return policy != NULL;
}

/* Changes nothing. */
static bool
read_files(Command *command, Files *files, GError **error)
{
    const Arguments *arguments = command->arguments;
    IpbApprovalPolicy policy;
    const char *rules = NULL;
    if (!read_principals(command, &files->principals, error))
        return false;
    if (arguments->tls_key != NULL &&
        (files->tls = ipb_tls_keys_load(arguments->tls_certificate, arguments->tls_key, error)) ==
            NULL)
        return false;
    return ipb_approval_arguments_read(&arguments->approval, &policy, &rules, error) &&
           (rules == NULL || read_rules(rules, files, error)) &&
           check_sandbox_config(arguments->kernel.sandbox_config, error);
}

/* --- the services of principals --------------------------------------------------------------- */

/* Takes @text. The same text is kept once, however often files are read. */
static const char *
keep(Command *command, char *text)
{
    const char *found = g_hash_table_lookup(command->texts, text);
    if (found == NULL) {
        g_hash_table_add(command->texts, text);
        return text;
    }
    g_free(text);
    return found;
}

static void
add_path(GPtrArray *paths, const char *path)
{
    if (path != NULL)
        g_ptr_array_add(paths, g_canonicalize_filename(path, NULL));
}

/* Sessions read their rules and the configuration of their sandbox from copies in the state
 * directory: a file that is being edited does not count before SIGHUP. */
static bool
write_rules(Command *command, const Files *files, GError **error)
{
    const char *state_dir = ipb_runtime_state_dir(command->runtime);
    if (files->rules == NULL)
        return true;
    g_autofree char *place =
        g_strconcat(command->root, "\n", command->arguments->approval.approve, NULL);
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, place, -1);
    g_autofree char *name = g_strdup_printf("%.16s-rules.json", digest);
    g_autofree char *directory = g_build_filename(state_dir, "serve", NULL);
    const char *path = keep(command, g_build_filename(directory, name, NULL));
    command->common.session.approval_rules = path;
    return ipb_file_make_directories(directory, 0700, error) &&
           ipb_file_write_atomic(path, files->rules, files->rules_size, 0600, error);
}

/* With a token file, each principal has a workspace of its own, in which only it can read. @name
 * NULL: there is none. */
static bool
make_private(Command *command, const char *name, IpbSessionOptions *session, GError **error)
{
    const Arguments *arguments = command->arguments;
    g_autoptr(GPtrArray) hidden = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) fixed = g_ptr_array_new_with_free_func(g_free);
    if (name != NULL) {
        session->workspace = keep(command, g_build_filename(command->root, name, NULL));
        if (!ipb_file_make_directories(session->workspace, 0700, error))
            return false;
        add_path(hidden, arguments->token_file);
        add_path(hidden, session->audit_log);
    }
    add_path(hidden, arguments->tls_key);
    add_path(fixed, arguments->tls_certificate);
    add_path(fixed, arguments->kernel.sandbox_config);
    if (session->approval_rules != NULL)
        add_path(fixed, arguments->approval.approve);
    if (!session->is_sandboxed || (hidden->len == 0 && fixed->len == 0))
        return true;
    g_ptr_array_add(hidden, NULL);
    g_ptr_array_add(fixed, NULL);
    char *config = ipb_private_sandbox_write(ipb_runtime_state_dir(command->runtime), command->root,
                                             name, arguments->kernel.sandbox_config,
                                             (const char *const *) hidden->pdata,
                                             (const char *const *) fixed->pdata, error);
    session->sandbox_config = config != NULL ? keep(command, config) : NULL;
    return config != NULL;
}

/* Of each principal of @principals; of the one without a name if that is NULL. Caller frees. */
static IpbMcpServiceOptions *
make_services(Command *command, const IpbPrincipals *principals, GError **error)
{
    bool has_names = command->arguments->token_file != NULL;
    size_t n = principals != NULL ? ipb_principals_count(principals) : 1;
    if (n > 1 && !command->arguments->kernel.is_sandboxed) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "--unsandboxed-kernels is for one client: without sandboxes, the "
                            "clients of --token-file could read each other's files");
        return NULL;
    }
    g_autofree IpbMcpServiceOptions *services = g_new0(IpbMcpServiceOptions, n);
    for (size_t i = 0; i < n; i++) {
        services[i] = command->common;
        const char *name = has_names ? ipb_principals_name(principals, i) : NULL;
        if (!make_private(command, name, &services[i].session, error))
            return NULL;
    }
    return g_steal_pointer(&services);
}

static bool
apply(Command *command, Files *files, GError **error)
{
    if (!write_rules(command, files, error))
        return false;
    g_autofree IpbMcpServiceOptions *services = make_services(command, files->principals, error);
    if (services == NULL)
        return false;
    if (files->principals != NULL)
        ipb_mcp_http_server_set_principals(command->server, g_steal_pointer(&files->principals),
                                           services);
    if (files->tls != NULL) {
        ipb_mcp_http_server_set_tls(command->server, files->tls);
        ipb_tls_keys_unref(command->tls);
        command->tls = g_steal_pointer(&files->tls);
    }
    return true;
}

/* SIGHUP. If a file is bad, nothing changes. */
static void
reload(void *data)
{
    Command *command = data;
    g_autoptr(GError) error = NULL;
    g_auto(Files) files = {0};
    ipb_notifier_send_reloading(command->notifier);
    if (read_files(command, &files, &error) && apply(command, &files, &error)) {
        ipb_cli_log("INFO", "the files were read again", NULL);
    } else {
        g_autofree char *text =
            g_strdup_printf("nothing was changed by SIGHUP: %s", error->message);
        ipb_cli_log("ERROR", text, NULL);
    }
    ipb_notifier_send(command->notifier, "READY=1");
}

/* --- setting up ------------------------------------------------------------------------------- */

static bool
make_common(Command *command, GError **error)
{
    const Arguments *arguments = command->arguments;
    IpbMcpServiceOptions *common = &command->common;
    command->server_variables =
        ipb_options_split(arguments->server_variables != NULL ? arguments->server_variables : "");
    *common = (IpbMcpServiceOptions){
        .session =
            {
                .workspace = arguments->kernel.workspace,
                .saves_images = true,
                .approval = IPB_APPROVAL_ALLOW,
                .is_approval_default = arguments->approval.approve == NULL,
                .audit_log = arguments->approval.audit_log,
                .approval_timeout_ms = ipb_approval_arguments_timeout_ms(&arguments->approval),
                .is_sandboxed = arguments->kernel.is_sandboxed,
                .is_staged = arguments->kernel.is_staged,
                .staging_dir = arguments->kernel.staging_dir,
                .makes_packages = true,
                .server_variables = (const char *const *) command->server_variables,
                .allows_builds = arguments->allows_builds,
                .sandbox_config = arguments->kernel.sandbox_config,
                .allowed_domains = (const char *const *) arguments->kernel.allowed_domains,
                .undo = ipb_mcp_tools_undo(&arguments->tools),
            },
        .offers_register = arguments->offers_register,
        .tools = arguments->tools,
        .keeps_results = true,
        .servers_path = arguments->servers,
        .max_connections = MAX_SESSIONS,
        .on_log = ipb_cli_log,
    };
    common->tools.max_output_chars = MAX_OUTPUT_CHARS;
    if (!ipb_approval_arguments_read(&arguments->approval, &common->session.approval,
                                     &common->session.approval_rules, error))
        return false;
    if (arguments->servers != NULL) {
        command->servers = ipb_mcp_servers_file_load(arguments->servers, &common->servers, error);
        if (command->servers == NULL)
            return false;
    }
    command->root = g_canonicalize_filename(
        arguments->kernel.workspace != NULL ? arguments->kernel.workspace : ".", NULL);
    return ipb_options_check_workspace(command->root, error);
}

/* What other machines can reach needs TLS, or a proxy. */
static bool
check_activation(const Arguments *arguments, const int *fds, size_t n, GError **error)
{
    for (size_t i = 0; i < n; i++) {
        IpbListenerInfo info;
        if (!ipb_http_listener_examine(fds[i], &info, error))
            return false;
        if (info.is_public && arguments->tls_key == NULL && arguments->proxies == NULL) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "the service manager's socket with port %u can be reached by other "
                        "machines: it needs --tls-certificate and --tls-key, or --behind-proxy",
                        info.port);
            return false;
        }
    }
    return true;
}

/* On the sockets of a service manager, on a Unix socket, or on an address. @fds are taken. */
static bool
listen_somewhere(Command *command, const int *fds, size_t n, GError **error)
{
    const Arguments *arguments = command->arguments;
    if (n > 0)
        return ipb_mcp_http_server_adopt(command->server, fds, n, error);
    if (arguments->unix_socket == NULL)
        return ipb_mcp_http_server_listen(command->server,
                                          ipb_listen_arguments_host(&arguments->listen),
                                          (unsigned) arguments->listen.port, error);
    command->unix_listener =
        ipb_unix_listener_open(arguments->unix_socket, arguments->unix_group, error);
    if (command->unix_listener == NULL)
        return false;
    int fd = ipb_unix_listener_take_fd(command->unix_listener);
    return ipb_mcp_http_server_adopt(command->server, &fd, 1, error);
}

static bool
make_peers(const Arguments *arguments, IpbPeerList **ret_peers, GError **error)
{
    *ret_peers = NULL;
    if (arguments->proxies == NULL)
        return true;
    *ret_peers = ipb_peer_list_new((const char *const *) arguments->proxies, error);
    if (*ret_peers == NULL)
        g_prefix_error(error, "--behind-proxy: ");
    return *ret_peers != NULL;
}

static bool
make_server(Command *command, Files *files, GError **error)
{
    const Arguments *arguments = command->arguments;
    IpbPeerList *peers;
    if (!write_rules(command, files, error))
        return false;
    g_autofree IpbMcpServiceOptions *services = make_services(command, files->principals, error);
    if (services == NULL || !make_peers(arguments, &peers, error))
        return false;
    command->tls = g_steal_pointer(&files->tls);
    command->server = ipb_mcp_http_server_new(&(IpbMcpHttpServerOptions){
        .runtime = command->runtime,
        .services = services,
        .principals = g_steal_pointer(&files->principals),
        .tls = command->tls,
        .peers = peers,
        .origins = arguments->listen.origins,
        .hosts = arguments->listen.hosts,
        .max_sessions = (unsigned) arguments->max_sessions,
        .max_sessions_each = (unsigned) arguments->max_sessions_each,
        .max_connections = (unsigned) arguments->max_connections,
        .pool_size = (unsigned) arguments->pool,
        .idle_ms = (unsigned) (arguments->idle_s * 1000),
        .max_lifetime_ms = (int64_t) ceil(arguments->lifetime_s * 1000),
        .lifetime_grace_ms = (int64_t) ceil(arguments->grace_s * 1000),
        .on_ready = on_ready,
        .on_log = ipb_cli_log,
        .data = command,
    });
    return true;
}

static bool
open_server(Command *command, const int *fds, size_t n, GError **error)
{
    const Arguments *arguments = command->arguments;
    g_auto(Files) files = {0};
    if (!check_activation(arguments, fds, n, error) ||
        !ipb_notifier_new(&command->notifier, error) || !make_common(command, error) ||
        !read_files(command, &files, error))
        return false;
    command->runtime = ipb_cli_runtime_new(&arguments->kernel, error);
    if (command->runtime == NULL || !make_server(command, &files, error) ||
        !listen_somewhere(command, fds, n, error))
        return false;
    ipb_program_reload_with_hangup(&command->program, reload);
    return ipb_program_end_with_input(&command->program, ipb_runtime_loop(command->runtime), error);
}

static int
serve(const Arguments *arguments)
{
    Command command = {
        .arguments = arguments,
        .texts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
    };
    int fds[IPB_ACTIVATION_MAX];
    size_t n_fds = 0;
    g_autoptr(GError) error = NULL;
    if (ipb_activation_take(fds, &n_fds, &error) &&
        ipb_program_init(&command.program, true, close_server, &command, &error) &&
        open_server(&command, fds, n_fds, &error))
        ipb_program_run(&command.program);
    else
        command.program.status =
            ipb_cli_fail(&ipb_verb_serve, ipb_cli_status(error), "%s", error->message);
    ipb_program_clear(&command.program);
    ipb_mcp_http_server_free(command.server);
    ipb_unix_listener_free(command.unix_listener);
    ipb_tls_keys_unref(command.tls);
    g_clear_pointer(&command.runtime, ipb_runtime_unref);
    ipb_notifier_free(command.notifier);
    ipb_json_doc_free(command.servers);
    g_strfreev(command.server_variables);
    g_hash_table_unref(command.texts);
    g_free(command.root);
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
    if ((arguments->tls_certificate != NULL) != (arguments->tls_key != NULL))
        return "--tls-certificate and --tls-key belong together: give both";
    if (arguments->unix_socket != NULL &&
        (arguments->listen.host != NULL || arguments->proxies != NULL))
        return "--unix-socket is instead of --host and --behind-proxy: give one of them";
    if (arguments->unix_group != NULL && arguments->unix_socket == NULL)
        return "--unix-socket-group needs --unix-socket";
    if (!ipb_listen_arguments_is_loopback(&arguments->listen) && arguments->tls_key == NULL &&
        arguments->proxies == NULL)
        return "--host must be localhost or a loopback address. Another address needs TLS "
               "(--tls-certificate and --tls-key), or a proxy (--behind-proxy)";
    if (!is_in_range(arguments->max_sessions, MAX_SESSIONS) ||
        !is_in_range(arguments->max_sessions_each, MAX_SESSIONS))
        return "--max-sessions and --max-sessions-each must be numbers from 1 to 10000";
    if (!is_in_range(arguments->max_connections, MAX_CONNECTIONS))
        return "--max-connections must be a number from 1 to 20000";
    if (arguments->pool < 0 || arguments->pool > MAX_POOL)
        return "--pool must be a number from 0 to 1000";
    if (!(arguments->idle_s > 0 && arguments->idle_s <= MAX_IDLE_S))
        return "--idle-timeout must be a number of seconds, at most 30 days";
    if (!(arguments->lifetime_s >= 0 && arguments->lifetime_s <= MAX_LIFETIME_S))
        return "--max-lifetime must be a number of seconds, at most 30 days";
    if (!(arguments->grace_s >= 0 && arguments->grace_s <= MAX_LIFETIME_S))
        return "--lifetime-grace must be a number of seconds, at most 30 days";
    if (arguments->kernel.is_staged && !arguments->kernel.is_sandboxed)
        return "--staged needs a sandbox: it cannot be used with --unsandboxed-kernels";
    if (arguments->kernel.domains != NULL && !arguments->kernel.is_sandboxed)
        return "--allowed-domains is for sandboxes: it cannot be used with --unsandboxed-kernels";
    if (arguments->kernel.staging_dir != NULL && !arguments->kernel.is_staged)
        return "--staging-dir needs --staged";
    for (char **origin = arguments->listen.origins; origin != NULL && *origin != NULL; origin++)
        if (g_str_equal(*origin, "*"))
            return "--allow-origin must be an origin, such as http://localhost:3000";
    return NULL;
}

static bool
check_arguments(Arguments *arguments, GError **error)
{
    const char *wrong = find_wrong(arguments);
    if (wrong != NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, wrong);
    return wrong == NULL && ipb_listen_arguments_check(&arguments->listen, error) &&
           ipb_kernel_arguments_split_domains(&arguments->kernel, error) &&
           ipb_approval_arguments_check(&arguments->approval, error) &&
           ipb_tool_arguments_read(&arguments->tool, arguments->kernel.is_staged, &arguments->tools,
                                   error) &&
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
        .grace_s = DEFAULT_GRACE_S,
    };
    const GOptionEntry options[] = {
        IPB_OPTION_HOST(&arguments.listen, "; others need TLS or a proxy"),
        IPB_OPTION_PORT(&arguments.listen, "8901"),
        {"token-file", 0, 0, G_OPTION_ARG_FILENAME, &arguments.token_file,
         "file with a line \"NAME TOKEN\" for each client (default: one token)", "FILE"},
        {"tls-certificate", 0, 0, G_OPTION_ARG_FILENAME, &arguments.tls_certificate,
         "use TLS with the certificate and its chain in FILE (PEM)", "FILE"},
        {"tls-key", 0, 0, G_OPTION_ARG_FILENAME, &arguments.tls_key,
         "key of the certificate (PEM, without a passphrase)", "FILE"},
        {"unix-socket", 0, 0, G_OPTION_ARG_FILENAME, &arguments.unix_socket,
         "listen on a Unix socket instead, for a proxy", "FILE"},
        {"unix-socket-group", 0, 0, G_OPTION_ARG_STRING, &arguments.unix_group,
         "group that may connect to the Unix socket (default: only you)", "GROUP"},
        {"behind-proxy", 0, 0, G_OPTION_ARG_STRING_ARRAY, &arguments.proxies,
         "only this address or network may connect (repeatable)", "ADDRESS"},
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
        IPB_OPTION_ALLOWED_DOMAINS(&arguments.kernel, ""),
        IPB_OPTION_STAGED(&arguments.kernel, " until it is committed"),
        IPB_OPTION_STAGING_DIR(&arguments.kernel),
        {"idle-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.idle_s,
         "end sessions that nothing used for so long (default: 3600)", "SECONDS"},
        {"max-lifetime", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.lifetime_s,
         "end sessions that are so old (default: no limit)", "SECONDS"},
        {"lifetime-grace", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.grace_s,
         "how long cells of such a session may still run (default: 60)", "SECONDS"},
        {"max-sessions", 0, 0, G_OPTION_ARG_INT, &arguments.max_sessions,
         "maximum number of sessions (default: 200)", "N"},
        {"max-sessions-each", 0, 0, G_OPTION_ARG_INT, &arguments.max_sessions_each,
         "maximum number of sessions of one client (default: 100)", "N"},
        {"max-connections", 0, 0, G_OPTION_ARG_INT, &arguments.max_connections,
         "maximum number of HTTP connections (default: 1000)", "N"},
        {"pool", 0, 0, G_OPTION_ARG_INT, &arguments.pool,
         "kernels that are ready before a client needs them (default: 0)", "N"},
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
        IPB_OPTION_IMAGES(&arguments.tool),
        IPB_OPTION_STRUCTURED(&arguments.tool),
        IPB_OPTION_TOOLS(&arguments.tool),
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
    g_free(arguments.tls_certificate);
    g_free(arguments.tls_key);
    g_free(arguments.unix_socket);
    g_free(arguments.unix_group);
    g_strfreev(arguments.proxies);
    ipb_tool_arguments_clear(&arguments.tool);
    g_free(arguments.servers);
    g_free(arguments.server_variables);
    g_free(arguments.log_level);
    return status;
}

const IpbVerb ipb_verb_serve = {"serve", "", "run the MCP server over HTTP, for several clients",
                                run_serve};
