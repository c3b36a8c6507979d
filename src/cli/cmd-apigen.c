/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox apigen`: registers an MCP server and generates the Python package of its tools.
 */
#include <signal.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/api-client.h"
#include "cli/options.h"
#include "cli/signals.h"

typedef struct {
    char *name;
    char *params;
    char *root_dir;
    char *workspace;
    char *log_level;
    double connect_timeout_s;
    int async_api;
    int signatures, stubs;
} ApigenArguments;

static void
on_signal(int number, void *data)
{
    IpbApiClient *client = data;
    client->status = IPB_EXIT_INTERRUPTED;
    ipb_api_client_end(client);
}

static void
on_registered(GObject *source, GAsyncResult *result, gpointer data)
{
    IpbApiClient *client = data;
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) modules = ipybox_session_register_finish(client->session, result, &error);
    if (modules == NULL)
        client->status =
            ipb_cli_fail(&ipb_verb_apigen, ipb_cli_status(error), "%s", error->message);
    for (size_t i = 0; modules != NULL && modules[i] != NULL; i++)
        puts(modules[i]);
    fflush(stdout);
    if (!client->is_ending)
        ipb_api_client_end(client);
}

/* The parameters that were given, or those of the server of that name that was registered last.
 * Caller frees. */
static char *
find_params(IpyboxRuntime *runtime, const ApigenArguments *arguments, GError **error)
{
    if (arguments->params != NULL)
        return g_strdup(arguments->params);
    g_autoptr(GPtrArray) all = ipybox_runtime_list_servers(runtime, error);
    for (guint i = all != NULL ? all->len : 0; i > 0; i--) {
        const IpyboxServer *server = g_ptr_array_index(all, i - 1);
        if (g_str_equal(ipybox_server_get_name(server), arguments->name))
            return g_strdup(ipybox_server_get_params(server));
    }
    if (all != NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no server named %s is registered: use --server-params", arguments->name);
    return NULL;
}

static bool
start(IpbApiClient *client, const ApigenArguments *arguments, GError **error)
{
    if (!ipb_api_client_open(client, NULL, error))
        return false;
    g_autofree char *params = find_params(client->runtime, arguments, error);
    if (params == NULL)
        return false;
    IpyboxSessionOptions session = IPYBOX_SESSION_OPTIONS_INIT;
    session.workspace = arguments->workspace;
    session.connect_timeout_ms = (unsigned) (MAX(arguments->connect_timeout_s, 0) * 1000);
    session.approval = IPYBOX_APPROVAL_DENY;
    session.on_log = ipb_api_client_log;
    client->session = ipybox_session_new(client->runtime, &session, error);
    if (client->session == NULL)
        return false;
    /* As in ipybox 0.9: relative to the current directory, not to the workspace. */
    g_autofree char *root_dir = g_canonicalize_filename(
        arguments->root_dir != NULL ? arguments->root_dir : "mcptools", NULL);
    IpyboxRegisterOptions options = IPYBOX_REGISTER_OPTIONS_INIT;
    options.root_dir = root_dir;
    options.async_api = arguments->async_api;
    options.listing = arguments->stubs        ? IPYBOX_LISTING_STUBS
                      : arguments->signatures ? IPYBOX_LISTING_SIGNATURES
                                              : IPYBOX_LISTING_MODULES;
    ipybox_session_register_async(client->session, arguments->name, params, &options, NULL,
                                  on_registered, client);
    return true;
}

static int
generate(const ApigenArguments *arguments)
{
    IpbApiClient client = {0};
    g_autoptr(GError) error = NULL;
    IpbSignals *signals = ipb_signals_new((int[]){SIGINT, SIGTERM}, 2, on_signal, &client, &error);
    if (signals != NULL && start(&client, arguments, &error))
        ipb_api_client_run(&client);
    else
        client.status = ipb_cli_fail(&ipb_verb_apigen, ipb_cli_status(error), "%s", error->message);
    ipb_signals_free(signals);
    ipb_api_client_clear(&client);
    return client.status;
}

static int
run_apigen(int argc, char **argv)
{
    ApigenArguments arguments = {0};
    const GOptionEntry options[] = {
        {"server-name", 0, 0, G_OPTION_ARG_STRING, &arguments.name,
         "name of the package, a Python identifier (required)", "NAME"},
        {"server-params", 0, 0, G_OPTION_ARG_STRING, &arguments.params,
         "how to start or reach the server (default: as registered under NAME)", "JSON"},
        {"root-dir", 0, 0, G_OPTION_ARG_FILENAME, &arguments.root_dir,
         "directory for the package (default: mcptools)", "DIR"},
        {"async", 0, 0, G_OPTION_ARG_NONE, &arguments.async_api, "generate coroutine functions",
         NULL},
        {"signatures", 0, 0, G_OPTION_ARG_NONE, &arguments.signatures,
         "print a signature of each tool, not the name of its module", NULL},
        {"stubs", 0, 0, G_OPTION_ARG_NONE, &arguments.stubs,
         "print the classes and run() of each tool in short form", NULL},
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.workspace,
         "working directory of the server; its .env is read (default: .)", "DIR"},
        {"connect-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.connect_timeout_s,
         "time for the server to start (default: 30)", "SECONDS"},
        IPB_OPTION_LOG_LEVEL(&arguments.log_level),
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(
            &ipb_verb_apigen, options,
            "Prints the names of the generated modules, one on each line. Signatures and stubs are "
            "for models\n"
            "that must save tokens.\n\nExample:\n"
            "  ipybox apigen --server-name time \\\n"
            "      --server-params '{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}'",
            &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (argc > 1)
        status = ipb_cli_fail(&ipb_verb_apigen, IPB_EXIT_USAGE, "unexpected argument: %s", argv[1]);
    else if (arguments.name == NULL)
        status = ipb_cli_fail(&ipb_verb_apigen, IPB_EXIT_USAGE, "--server-name is missing");
    else if (arguments.signatures && arguments.stubs)
        status = ipb_cli_fail(&ipb_verb_apigen, IPB_EXIT_USAGE,
                              "--signatures and --stubs cannot be used together");
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
