/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of kernelspecs in a gateway; see the header.
 */
#include "cli/gateway-kernels.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/jupyter-folders.h"
#include "cli/kernel-command.h"
#include "command/known-paths.h"
#include "sandbox/policy.h"
#include "session/runtimes.h"

/* In the folder below, code in sandboxes can write nothing (src/sandbox/name-table.c). */
#define PROTECTED_FOLDER ".local/share/jupyter/kernels"
#define CONNECTION_FILE "{connection_file}"

struct IpbGatewayKernels {
    IpbGatewayKernelsOptions options;
    char **folders;
    IpbRuntimes *runtimes;
};

typedef struct {
    IpbGatewaySetup public; /* the first member, so that it can be cast */
    IpbKernelCommand command;
    char **env;
    bool has_own_runtime; /* one of the table */
} Setup;

/* --- what is offered -------------------------------------------------------------------------- */

static bool
is_allowed(const IpbGatewayKernels *kernels, const char *name)
{
    for (const char *const *allowed = kernels->options.allowed; allowed != NULL && *allowed != NULL;
         allowed++)
        if (g_ascii_strcasecmp(*allowed, name) == 0)
            return true;
    return false;
}

static bool
is_same_path(const char *one, const char *other)
{
    g_autofree char *a = g_canonicalize_filename(one, NULL);
    g_autofree char *b = other != NULL ? g_canonicalize_filename(other, NULL) : NULL;
    return g_strcmp0(a, b) == 0;
}

/* The option by which it may allow more than the gateway's sandbox; NULL: there is none. */
static const char *
find_wider(const IpbGatewayKernels *kernels, const IpbKernelCommand *command)
{
    const IpbSessionOptions *own = kernels->options.session;
    const char *workspace = own->workspace != NULL ? own->workspace : ".";
    const char *approve = command->approval.approve;
    IpbApprovalPolicy policy;
    if (!own->is_sandboxed)
        return NULL;
    if (!command->kernel.is_sandboxed)
        return "--no-sandbox";
    if (command->kernel.sandbox_config != NULL &&
        !is_same_path(command->kernel.sandbox_config, own->sandbox_config))
        return "--sandbox-config";
    if (command->kernel.workspace != NULL && !is_same_path(command->kernel.workspace, workspace))
        return "--workspace";
    if (approve != NULL &&
        (!ipb_approval_policy_parse(approve, &policy) || policy == IPB_APPROVAL_ALLOW))
        return "--approve";
    return NULL;
}

static bool
check_folder(const IpbGatewayKernels *kernels, const char *path, GError **error)
{
    g_autofree char *folder = g_canonicalize_filename("../..", path);
    g_autofree char *protected = g_build_filename(g_get_home_dir(), PROTECTED_FOLDER, NULL);
    if (strcmp(folder, protected) == 0 ||
        ipb_known_paths_check_directory(kernels->options.state_dir, folder, error))
        return true;
    g_prefix_error(error, "%s: ", path);
    return false;
}

static bool
parse(const IpbGatewayKernelspec *spec, IpbKernelCommand *ret_command, GError **error)
{
    if (!ipb_kernel_command_parse(spec->arguments, ret_command, error)) {
        g_prefix_error(error, "%s: ", spec->path);
        return false;
    }
    if (strcmp(ret_command->connection_file, CONNECTION_FILE) == 0)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "%s: the connection file must be " CONNECTION_FILE, spec->path);
    return false;
}

static bool
check(const IpbGatewayKernelspec *spec, void *data, GError **error)
{
    const IpbGatewayKernels *kernels = data;
    IpbKernelCommand command;
    g_auto(GStrv) env = NULL;
    bool is_valid = parse(spec, &command, error) && check_folder(kernels, spec->path, error) &&
                    (env = ipb_gateway_kernelspec_env(spec, error)) != NULL;
    const char *wider = is_valid ? find_wider(kernels, &command) : NULL;
    ipb_kernel_command_clear(&command);
    if (wider == NULL || is_allowed(kernels, spec->name))
        return is_valid;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                "%s has %s, and this gateway was started with a sandbox: to offer it nevertheless, "
                "start the gateway with --allow-kernelspec %s",
                spec->path, wider, spec->name);
    return false;
}

/* --- what a kernel runs with ------------------------------------------------------------------ */

static void
release(IpbGatewaySetup *setup, void *data)
{
    const IpbGatewayKernels *kernels = data;
    Setup *own = (Setup *) setup;
    if (own->has_own_runtime)
        ipb_runtimes_give_back(kernels->runtimes, setup->runtime);
    else
        ipb_runtime_unref(setup->runtime);
    ipb_kernel_command_clear(&own->command);
    g_strfreev(own->env);
    g_free(own);
}

/* The environment of this program with the kernelspec's variables. Those that name the gateway's
 * tool server are not for kernels with tools of their own. */
static char **
make_env(const IpbGatewayKernelspec *spec, GError **error)
{
    static const char *const TOOL_SERVER[] = {"KERNEL_ENV_TOOL_SERVER_HOST",
                                              "KERNEL_ENV_TOOL_SERVER_PORT",
                                              "KERNEL_ENV_IPYBOX_TOOL_TOKEN"};
    g_auto(GStrv) variables = ipb_gateway_kernelspec_env(spec, error);
    if (variables == NULL)
        return NULL;
    char **env = g_get_environ();
    for (size_t i = 0; i < G_N_ELEMENTS(TOOL_SERVER); i++)
        env = g_environ_unsetenv(env, TOOL_SERVER[i]);
    for (char **entry = variables; *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        g_autofree char *name = g_strndup(*entry, (gsize) (equals - *entry));
        env = g_environ_setenv(env, name, equals + 1, TRUE);
    }
    return env;
}

/* Its modules are imported by its own Python. */
static bool
get_runtime(const IpbGatewayKernels *kernels, Setup *setup, GError **error)
{
    const IpbKernelArguments *kernel = &setup->command.kernel;
    const char *python = kernel->python;
    if (python == NULL &&
        g_strcmp0(g_environ_getenv(setup->env, "IPYBOX_PYTHON"), g_getenv("IPYBOX_PYTHON")) != 0)
        python = g_environ_getenv(setup->env, "IPYBOX_PYTHON");
    if (python == NULL && kernel->preload == NULL) {
        setup->public.runtime = ipb_runtime_ref(kernels->options.runtime);
        return true;
    }
    g_auto(GStrv) preload = ipb_options_split(kernel->preload);
    setup->has_own_runtime = true;
    setup->public.runtime =
        ipb_runtimes_get(kernels->runtimes, python != NULL ? python : kernels->options.python,
                         (const char *const *) preload, error);
    return setup->public.runtime != NULL;
}

static bool
fill_in(const IpbGatewayKernels *kernels, Setup *setup, GError **error)
{
    const IpbSessionOptions *own = kernels->options.session;
    IpbSessionOptions *session = &setup->public.session;
    *session = *own;
    session->tool_server_host = NULL;
    session->tool_server_port = 0;
    session->tool_server_token = NULL;
    session->env = (const char *const *) setup->env;
    if (!ipb_kernel_command_set_up(&setup->command, session, error))
        return false;
    if (session->workspace == NULL)
        session->workspace = own->workspace;
    if (session->is_sandboxed && session->sandbox_config == NULL)
        session->sandbox_config = own->sandbox_config;
    session->is_staged = session->is_staged || (own->is_staged && session->is_sandboxed);
    if (session->is_staged && session->staging_dir == NULL)
        session->staging_dir = own->staging_dir;
    if (!ipb_options_check_workspace(session->workspace, error))
        return false;
    g_autoptr(IpbSandboxPolicy) policy =
        session->sandbox_config != NULL
            ? ipb_sandbox_policy_load(NULL, session->sandbox_config, error)
            : NULL;
    return session->sandbox_config == NULL || policy != NULL;
}

static IpbGatewaySetup *
set_up(const IpbGatewayKernelspec *spec, void *data, GError **error)
{
    const IpbGatewayKernels *kernels = data;
    Setup *setup = g_new0(Setup, 1);
    if (parse(spec, &setup->command, error) && (setup->env = make_env(spec, error)) != NULL) {
        if (fill_in(kernels, setup, error) && get_runtime(kernels, setup, error))
            return &setup->public;
        g_prefix_error(error, "%s: ", spec->path);
    }
    ipb_kernel_command_clear(&setup->command);
    g_strfreev(setup->env);
    g_free(setup);
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

IpbGatewayKernels *
ipb_gateway_kernels_new(const IpbGatewayKernelsOptions *options)
{
    IpbGatewayKernels *kernels = g_new0(IpbGatewayKernels, 1);
    kernels->options = *options;
    kernels->folders = ipb_jupyter_folders_list();
    kernels->runtimes = ipb_runtimes_new();
    return kernels;
}

IpbGatewaySpecSource
ipb_gateway_kernels_source(IpbGatewayKernels *kernels)
{
    return (IpbGatewaySpecSource){
        .folders = (const char *const *) kernels->folders,
        .check = check,
        .set_up = set_up,
        .release = release,
        .data = kernels,
    };
}

void
ipb_gateway_kernels_stop(IpbGatewayKernels *kernels, void (*done)(void *data), void *data)
{
    ipb_runtimes_stop(kernels->runtimes, done, data);
}

void
ipb_gateway_kernels_free(IpbGatewayKernels *kernels)
{
    if (kernels == NULL)
        return;
    g_strfreev(kernels->folders);
    ipb_runtimes_free(kernels->runtimes);
    g_free(kernels);
}
