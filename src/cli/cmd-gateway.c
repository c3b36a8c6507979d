/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox gateway`: kernels for Jupyter's clients. A signal, or the end of the program that started
 * it, ends it in order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli-runtime.h"
#include "cli/cli.h"
#include "cli/gateway-kernels.h"
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
#define MAX_KERNEL_NAME 100
#define MAX_BASE_URL 256
/* Bytes of the value of a header */
#define MAX_HEADER 1024
/* Variables of the gateway that kernels get by --inherit-env */
#define MAX_INHERITED 100

typedef struct {
    IpbListenArguments listen;
    IpbKernelArguments kernel;
    char *token_file;
    int max_kernels;
    int idle_s;
    int culls_connected;
    char *base_url;
    char *kernel_name;
    int forces_kernel_name;
    char **allowed_specs;
    int n_prespawned;
    char *record_dir;
    int hides_kernels;
    char *seed_notebook;
    char **client_variables;
    char **inherited_variables;
    struct {
        char *credentials, *headers, *methods, *exposed, *max_age;
    } cors;
    char *log_level;
} GatewayArguments;

typedef struct {
    IpbProgram program;
    IpbRuntime *runtime;
    IpbGatewayKernels *kernels;
    IpbGateway *gateway;
    IpbGatewaySeed *seed;
} GatewayCommand;

static void
on_kernels_stopped(void *data)
{
    GatewayCommand *command = data;
    ipb_runtime_stop(command->runtime, ipb_program_quit, &command->program);
}

static void
on_gateway_closed(void *data)
{
    GatewayCommand *command = data;
    ipb_gateway_kernels_stop(command->kernels, on_kernels_stopped, command);
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

static bool
allows_all_origins(const IpbListenArguments *listen)
{
    return listen->origins != NULL && g_strv_contains((const char *const *) listen->origins, "*");
}

/* Admits clients that have the token. Without a token it admits the user's own processes on this
 * machine, and a browser is one of them. */
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
    if (token == NULL && allows_all_origins(&arguments->listen)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "with --allow-origin=* each web page could run code here: set a token, "
                            "with --token-file or in " TOKEN_VARIABLE);
        return NULL;
    }
    IpbHttpGate *gate = ipb_http_gate_new();
    ipb_http_gate_take_query_token(gate);
    if (allows_all_origins(&arguments->listen))
        ipb_http_gate_allow_all_origins(gate);
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

/* The variables of the gateway that --inherit-env names, those that are set: "NAME=value". */
static char **
read_inherited(const GatewayArguments *arguments)
{
    g_autoptr(GPtrArray) env = g_ptr_array_new();
    for (char **name = arguments->inherited_variables; name != NULL && *name != NULL; name++) {
        const char *value = getenv(*name);
        if (value != NULL)
            g_ptr_array_add(env, g_strdup_printf("%s=%s", *name, value));
    }
    g_ptr_array_add(env, NULL);
    return (char **) g_ptr_array_steal(env, NULL);
}

/* Requests without an Origin get the allowed one if there is only one, as from Jupyter's gateway.
 */
static IpbHttpCors
get_cors(const GatewayArguments *arguments)
{
    char **origins = arguments->listen.origins;
    bool is_one = origins != NULL && origins[0] != NULL && origins[1] == NULL;
    return (IpbHttpCors){
        .origin = allows_all_origins(&arguments->listen) ? "*"
                  : is_one                               ? origins[0]
                                                         : NULL,
        .credentials = arguments->cors.credentials,
        .headers = arguments->cors.headers,
        .methods = arguments->cors.methods,
        .exposed = arguments->cors.exposed,
        .max_age = arguments->cors.max_age,
    };
}

static bool
open_gateway(GatewayCommand *command, const GatewayArguments *arguments,
             const IpbSessionOptions *session, GError **error)
{
    IpbHttpGate *gate = make_gate(arguments, error);
    if (gate == NULL)
        return false;
    command->runtime = ipb_cli_runtime_new(&arguments->kernel, error);
    if (command->runtime == NULL) {
        ipb_http_gate_free(gate);
        return false;
    }
    command->kernels = ipb_gateway_kernels_new(&(IpbGatewayKernelsOptions){
        .session = session,
        .python = arguments->kernel.python,
        .runtime = command->runtime,
        .state_dir = ipb_runtime_state_dir(command->runtime),
        .allowed = (const char *const *) arguments->allowed_specs,
    });
    command->gateway = ipb_gateway_new(&(IpbGatewayOptions){
        .runtime = command->runtime,
        .session = session,
        .max_kernels = (unsigned) arguments->max_kernels,
        .kernel_name = arguments->kernel_name,
        .takes_all_names = arguments->forces_kernel_name,
        .specs = ipb_gateway_kernels_source(command->kernels),
        .hides_kernels = arguments->hides_kernels,
        .record_dir = arguments->record_dir,
        .seed = command->seed,
        .client_variables = (const char *const *) arguments->client_variables,
        .base_path = arguments->base_url,
        .cors = get_cors(arguments),
        .idle_s = (unsigned) arguments->idle_s,
        .culls_connected = arguments->culls_connected,
        .gate = gate,
        .on_log = ipb_cli_log,
    });
    return ipb_gateway_listen(command->gateway, ipb_listen_arguments_host(&arguments->listen),
                              (unsigned) arguments->listen.port, error) &&
           ipb_gateway_prespawn(command->gateway, (unsigned) arguments->n_prespawned, error) &&
           ipb_program_end_with_input(&command->program, ipb_runtime_loop(command->runtime), error);
}

/* Only the user can read what is in it. */
static bool
make_record_dir(const char *path, GError **error)
{
    if (path == NULL || g_mkdir_with_parents(path, 0700) == 0)
        return true;
    ipb_error_set_errno(error, errno, "--record-dir %s: cannot make the directory", path);
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

/* *ret_seed is NULL if there is none. */
static bool
read_seed(const GatewayArguments *arguments, IpbGatewaySeed **ret_seed, GError **error)
{
    if (arguments->seed_notebook == NULL)
        return true;
    *ret_seed = ipb_gateway_seed_read(arguments->seed_notebook, error);
    if (*ret_seed == NULL)
        g_prefix_error(error, "--seed-notebook: ");
    return *ret_seed != NULL;
}

static int
serve(const GatewayArguments *arguments)
{
    GatewayCommand command = {0};
    g_auto(GStrv) inherited = read_inherited(arguments);
    IpbSessionOptions session = {
        .kernel_env = (const char *const *) inherited,
        .workspace = arguments->kernel.workspace,
        .approval = IPB_APPROVAL_DENY, /* kernels call the tools of the tool server */
        .approval_timeout_ms = -1,
        .is_sandboxed = arguments->kernel.is_sandboxed || arguments->kernel.is_staged ||
                        arguments->kernel.sandbox_config != NULL,
        .is_staged = arguments->kernel.is_staged,
        .staging_dir = arguments->kernel.staging_dir,
        .sandbox_config = arguments->kernel.sandbox_config,
        .on_log = ipb_cli_log,
    };
    g_autoptr(GError) error = NULL;
    if (ipb_program_init(&command.program, true, close_gateway, &command, &error) &&
        ipb_options_check_workspace(arguments->kernel.workspace, &error) &&
        find_tool_server(&session, &error) &&
        check_sandbox_config(arguments->kernel.sandbox_config, &error) &&
        make_record_dir(arguments->record_dir, &error) &&
        read_seed(arguments, &command.seed, &error) &&
        open_gateway(&command, arguments, &session, &error)) {
        ipb_listen_arguments_report(&arguments->listen, ipb_gateway_port(command.gateway), NULL,
                                    NULL);
        ipb_runtime_start(command.runtime);
        ipb_program_run(&command.program);
    } else {
        command.program.status =
            ipb_cli_fail(&ipb_verb_gateway, ipb_cli_status(error), "%s", error->message);
    }
    ipb_program_clear(&command.program);
    ipb_gateway_free(command.gateway);
    ipb_gateway_kernels_free(command.kernels);
    ipb_gateway_seed_free(command.seed);
    g_clear_pointer(&command.runtime, ipb_runtime_unref);
    return command.program.status;
}

/* --- the command line ------------------------------------------------------------------------- */

/* Is it NULL, or does it have from 1 to @max_size characters, letters, digits and @others? */
static bool
is_text_of(const char *text, size_t max_size, const char *others)
{
    if (text == NULL)
        return true;
    for (const char *at = text; *at != '\0'; at++)
        if (!g_ascii_isalnum(*at) && strchr(others, *at) == NULL)
            return false;
    return *text != '\0' && strlen(text) <= max_size;
}

static bool
is_header(const char *value)
{
    return is_text_of(value, MAX_HEADER, " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~");
}

static bool
are_specs(char **names)
{
    for (; names != NULL && *names != NULL; names++)
        if (!ipb_gateway_kernelspec_check_name(*names, NULL))
            return false;
    return true;
}

static bool
are_variables(char **names)
{
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        if (i == MAX_INHERITED || !is_text_of(names[i], MAX_HEADER, "_"))
            return false;
    return true;
}

/* "/some/path" without a slash at its end; NULL for "/". */
static bool
normalize_base_url(char **base_url, GError **error)
{
    char *text = *base_url;
    if (text == NULL)
        return true;
    if (text[0] != '/' || strstr(text, "//") != NULL ||
        !is_text_of(text, MAX_BASE_URL, "/-._~%!$&'()*+,;=:@")) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--base-url must be a path such as /some/path, as clients send it, of at most "
                    "%d bytes",
                    MAX_BASE_URL);
        return false;
    }
    if (g_str_has_suffix(text, "/"))
        text[strlen(text) - 1] = '\0';
    if (*text == '\0')
        g_clear_pointer(base_url, g_free);
    return true;
}

static const char *
find_wrong(const GatewayArguments *arguments)
{
    if (arguments->max_kernels < 1)
        return "--max-kernels must be at least 1";
    if (arguments->idle_s < 0)
        return "--cull-idle must be 0 or a number of seconds";
    if (arguments->n_prespawned < 0 || arguments->n_prespawned > arguments->max_kernels)
        return "--prespawn must be a number from 0 to --max-kernels";
    if (!is_text_of(arguments->kernel_name, MAX_KERNEL_NAME, "-._"))
        return "--kernel-name must have letters, digits, \"-\", \".\" and \"_\" only, at most 100";
    if (!are_specs(arguments->allowed_specs))
        return "--allow-kernelspec must be the name of a kernelspec";
    for (char **origin = arguments->listen.origins; origin != NULL && *origin != NULL; origin++)
        if (!is_header(*origin))
            return "--allow-origin must be an origin, such as http://localhost:3000, or *";
    if (!are_variables(arguments->client_variables) ||
        !are_variables(arguments->inherited_variables))
        return "--allow-env and --inherit-env must name at most 100 variables each";
    if (arguments->cors.credentials != NULL && strcmp(arguments->cors.credentials, "true") != 0 &&
        strcmp(arguments->cors.credentials, "false") != 0)
        return "--allow-credentials must be true or false";
    if (!is_header(arguments->cors.headers) || !is_header(arguments->cors.methods) ||
        !is_header(arguments->cors.exposed))
        return "--allow-headers, --allow-methods and --expose-headers must be values of a header";
    if (!is_text_of(arguments->cors.max_age, 10, "") ||
        (arguments->cors.max_age != NULL &&
         strspn(arguments->cors.max_age, "0123456789") != strlen(arguments->cors.max_age)))
        return "--max-age must be a number of seconds";
    if (arguments->kernel.staging_dir != NULL && !arguments->kernel.is_staged)
        return "--staging-dir needs --staged";
    return NULL;
}

static bool
check_arguments(GatewayArguments *arguments, GError **error)
{
    const char *wrong = find_wrong(arguments);
    if (wrong != NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, wrong);
    if (arguments->record_dir != NULL) {
        g_autofree char *given = g_steal_pointer(&arguments->record_dir);
        arguments->record_dir = g_canonicalize_filename(given, NULL);
    }
    return wrong == NULL && normalize_base_url(&arguments->base_url, error) &&
           ipb_listen_arguments_check(&arguments->listen, error) &&
           (arguments->log_level == NULL || ipb_cli_set_log_level(arguments->log_level, error));
}

static void
clear_arguments(GatewayArguments *arguments)
{
    ipb_listen_arguments_clear(&arguments->listen);
    ipb_kernel_arguments_clear(&arguments->kernel);
    g_free(arguments->token_file);
    g_free(arguments->base_url);
    g_free(arguments->kernel_name);
    g_strfreev(arguments->allowed_specs);
    g_free(arguments->seed_notebook);
    g_free(arguments->record_dir);
    g_strfreev(arguments->client_variables);
    g_strfreev(arguments->inherited_variables);
    g_free(arguments->cors.credentials);
    g_free(arguments->cors.headers);
    g_free(arguments->cors.methods);
    g_free(arguments->cors.exposed);
    g_free(arguments->cors.max_age);
    g_free(arguments->log_level);
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
        IPB_OPTION_STAGED(&arguments.kernel, " until it is committed; implies --sandbox"),
        IPB_OPTION_STAGING_DIR(&arguments.kernel),
        {"max-kernels", 0, 0, G_OPTION_ARG_INT, &arguments.max_kernels,
         "maximum number of kernels (default: 100)", "N"},
        {"cull-idle", 0, 0, G_OPTION_ARG_INT, &arguments.idle_s,
         "end kernels without clients that idle for this time (default: 0, never)", "SECONDS"},
        {"cull-connected", 0, 0, G_OPTION_ARG_NONE, &arguments.culls_connected,
         "with --cull-idle: end kernels with clients, too", NULL},
        {"prespawn", 0, 0, G_OPTION_ARG_INT, &arguments.n_prespawned,
         "start this number of kernels now (default: 0)", "N"},
        {"record-dir", 0, 0, G_OPTION_ARG_FILENAME, &arguments.record_dir,
         "write what happens in each kernel to DIR/ID.jsonl", "DIR"},
        {"kernel-name", 0, 0, G_OPTION_ARG_STRING, &arguments.kernel_name,
         "name of the gateway's own kernelspec (default: python3)", "NAME"},
        {"allow-kernelspec", 0, 0, G_OPTION_ARG_STRING_ARRAY, &arguments.allowed_specs,
         "with a sandbox: offer this kernelspec although it allows more (repeatable)", "NAME"},
        {"force-kernel-name", 0, 0, G_OPTION_ARG_NONE, &arguments.forces_kernel_name,
         "start a kernel whatever name a client gives", NULL},
        {"seed-notebook", 0, 0, G_OPTION_ARG_FILENAME, &arguments.seed_notebook,
         "each kernel first runs the code cells of this notebook", "FILE"},
        {"hide-kernels", 0, 0, G_OPTION_ARG_NONE, &arguments.hides_kernels,
         "list no kernels and sessions", NULL},
        {"allow-env", 0, 0, G_OPTION_ARG_STRING_ARRAY, &arguments.client_variables,
         "clients may set this variable of their kernels (repeatable)", "NAME"},
        {"inherit-env", 0, 0, G_OPTION_ARG_STRING_ARRAY, &arguments.inherited_variables,
         "kernels get this variable of the gateway (repeatable)", "NAME"},
        {"base-url", 0, 0, G_OPTION_ARG_STRING, &arguments.base_url,
         "path before all paths of requests (default: /)", "PATH"},
        {"allow-credentials", 0, 0, G_OPTION_ARG_STRING, &arguments.cors.credentials,
         "header Access-Control-Allow-Credentials: true or false", "VALUE"},
        {"allow-headers", 0, 0, G_OPTION_ARG_STRING, &arguments.cors.headers,
         "header Access-Control-Allow-Headers", "NAMES"},
        {"allow-methods", 0, 0, G_OPTION_ARG_STRING, &arguments.cors.methods,
         "header Access-Control-Allow-Methods", "METHODS"},
        {"expose-headers", 0, 0, G_OPTION_ARG_STRING, &arguments.cors.exposed,
         "header Access-Control-Expose-Headers", "NAMES"},
        {"max-age", 0, 0, G_OPTION_ARG_STRING, &arguments.cors.max_age,
         "header Access-Control-Max-Age", "SECONDS"},
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
    clear_arguments(&arguments);
    return status;
}

const IpbVerb ipb_verb_gateway = {"gateway", "", "serve kernels to Jupyter clients over HTTP",
                                  run_gateway};
