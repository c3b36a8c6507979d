/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox apigen`: registers an MCP server and generates the Python package of its tools.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <glib-unix.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/program.h"

typedef struct {
    char *name;
    char *params;
    char *root_dir;
    char *workspace;
    char *log_level;
    double connect_timeout_s;
    int async_api;
} ApigenArguments;

static gboolean
on_signal(gpointer data)
{
    IpbProgram *program = data;
    program->status = IPB_EXIT_INTERRUPTED;
    ipb_program_end(program);
    return G_SOURCE_CONTINUE;
}

static void
on_registered(const char *const *modules, const GError *error, void *data)
{
    IpbProgram *program = data;
    if (error != NULL) {
        program->status =
            ipb_cli_fail(&ipb_verb_apigen, ipb_cli_status(error), "%s", error->message);
    } else {
        for (; *modules != NULL; modules++)
            puts(*modules);
        fflush(stdout);
    }
    if (!program->is_ending)
        ipb_program_end(program);
}

/* The parameters given, or those of the registered server of that name. */
static IpbJsonDoc *
find_params(IpbRuntime *runtime, const ApigenArguments *arguments, GError **error)
{
    if (arguments->params != NULL) {
        IpbJsonDoc *given = ipb_json_parse(arguments->params, strlen(arguments->params),
                                           &IPB_JSON_LIMITS_SMALL, error);
        if (given == NULL)
            g_prefix_error(error, "--server-params: ");
        return given;
    }
    g_autoptr(GPtrArray) all = ipb_registry_list(ipb_runtime_registry(runtime), error);
    for (guint i = all != NULL ? all->len : 0; i > 0; i--) {
        const IpbRegistration *registration = g_ptr_array_index(all, i - 1);
        if (g_str_equal(registration->name, arguments->name))
            return ipb_json_parse(registration->params_json, strlen(registration->params_json),
                                  &IPB_JSON_LIMITS_SMALL, error);
    }
    if (all != NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no server named %s is registered: give --server-params", arguments->name);
    return NULL;
}

static bool
start(IpbProgram *program, const ApigenArguments *arguments, GError **error)
{
    if (!ipb_program_open(program, &(IpbRuntimeOptions){0}, error))
        return false;
    g_autoptr(IpbJsonDoc) params = find_params(program->runtime, arguments, error);
    if (params == NULL)
        return false;
    IpbSessionOptions session = {
        .workspace = arguments->workspace,
        .connect_timeout_ms = (unsigned) (MAX(arguments->connect_timeout_s, 0) * 1000),
        .approval = IPB_APPROVAL_DENY,
        .approval_timeout_ms = -1,
        .on_log = ipb_cli_log,
    };
    if (!ipb_program_open_session(program, &session, error))
        return false;
    /* As the original: relative to the current directory, not to the workspace. */
    g_autofree char *root_dir = g_canonicalize_filename(
        arguments->root_dir != NULL ? arguments->root_dir : "mcptools", NULL);
    IpbRegisterOptions options = {
        .name = arguments->name,
        .params = ipb_json_root(params),
        .root_dir = root_dir,
        .async_api = arguments->async_api,
    };
    return ipb_session_register(program->session, &options, on_registered, program, error) != 0;
}

static int
generate(const ApigenArguments *arguments)
{
    IpbProgram program = {0};
    guint on_int = g_unix_signal_add(SIGINT, on_signal, &program);
    guint on_term = g_unix_signal_add(SIGTERM, on_signal, &program);
    g_autoptr(GError) error = NULL;
    if (start(&program, arguments, &error))
        ipb_program_run(&program);
    else
        program.status =
            ipb_cli_fail(&ipb_verb_apigen, ipb_cli_status(error), "%s", error->message);
    g_source_remove(on_int);
    g_source_remove(on_term);
    ipb_program_clear(&program);
    return program.status;
}

static int
run_apigen(int argc, char **argv)
{
    ApigenArguments arguments = {0};
    const GOptionEntry options[] = {
        {"server-name", 0, 0, G_OPTION_ARG_STRING, &arguments.name,
         "name of the package, a Python identifier", "NAME"},
        {"server-params", 0, 0, G_OPTION_ARG_STRING, &arguments.params,
         "how to reach the server: {\"command\", \"args\", \"env\"} (default: as registered under "
         "the name)",
         "JSON"},
        {"root-dir", 0, 0, G_OPTION_ARG_FILENAME, &arguments.root_dir,
         "where the package is written (default: mcptools)", "DIR"},
        {"async", 0, 0, G_OPTION_ARG_NONE, &arguments.async_api, "generate coroutine functions",
         NULL},
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.workspace,
         "working directory of the server, its .env gives variables (default: .)", "DIR"},
        {"connect-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.connect_timeout_s,
         "seconds the server may take to start (default: 30)", "SECONDS"},
        {"log-level", 0, 0, G_OPTION_ARG_STRING, &arguments.log_level,
         "DEBUG, INFO, WARNING, ERROR or CRITICAL (default: WARNING)", "LEVEL"},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(
            &ipb_verb_apigen, options,
            "Prints the names of the generated modules, one a line.\n\nExample:\n"
            "  ipybox apigen --server-name time \\\n"
            "      --server-params '{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}'",
            &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (argc > 1)
        status = ipb_cli_fail(&ipb_verb_apigen, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    else if (arguments.name == NULL)
        status = ipb_cli_fail(&ipb_verb_apigen, IPB_EXIT_USAGE, "--server-name is missing");
    else if (arguments.log_level != NULL && !ipb_cli_set_log_level(arguments.log_level, &error))
        status = ipb_cli_fail(&ipb_verb_apigen, IPB_EXIT_USAGE, "%s", error->message);
    else
        status = generate(&arguments);
    g_free(arguments.name);
    g_free(arguments.params);
    g_free(arguments.root_dir);
    g_free(arguments.workspace);
    g_free(arguments.log_level);
    return status;
}

const IpbVerb ipb_verb_apigen = {"apigen", "", "generate the Python API of an MCP server",
                                 run_apigen};
