/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of verbs that run cells; see the header.
 */
#include "cli/run-options.h"

#include "base/error.h"
#include "cli/cli.h"

static bool
check_timeout(const IpbRunArguments *arguments, GError **error)
{
    if (arguments->timeout_s >= 0) /* false for NaN, too */
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "--timeout must be a number of seconds");
    return false;
}

static bool
parse_seed(IpbRunArguments *arguments, GError **error)
{
    if (arguments->seed_text == NULL ||
        g_ascii_string_to_signed(arguments->seed_text, 10, 0, UINT32_MAX, &arguments->seed, NULL))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "--seed must be an integer from 0 to 4294967295");
    return false;
}

static bool
check_sandbox(const IpbRunArguments *arguments, GError **error)
{
    const IpbKernelArguments *kernel = &arguments->kernel;
    const char *problem = NULL;
    if (!kernel->is_sandboxed && kernel->sandbox_config != NULL)
        problem = "--no-sandbox and --sandbox-config cannot be used together";
    else if (!kernel->is_sandboxed && kernel->domains != NULL)
        problem = "--no-sandbox and --allowed-domains cannot be used together";
    else if (!kernel->is_sandboxed && kernel->is_staged)
        problem = "--staged needs a sandbox: it cannot be used with --no-sandbox";
    else if (!kernel->is_staged && kernel->staging_dir != NULL)
        problem = "--staging-dir needs --staged";
    if (problem != NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, problem);
    return problem == NULL;
}

bool
ipb_run_arguments_check(IpbRunArguments *arguments, GError **error)
{
    return check_sandbox(arguments, error) &&
           ipb_kernel_arguments_split_domains(&arguments->kernel, error) &&
           (arguments->log_level == NULL || ipb_cli_set_log_level(arguments->log_level, error)) &&
           ipb_approval_arguments_check(&arguments->approval, error) &&
           check_timeout(arguments, error) && parse_seed(arguments, error);
}

char *
ipb_run_arguments_workspace(const IpbRunArguments *arguments)
{
    const char *given = arguments->kernel.workspace;
    return g_canonicalize_filename(given != NULL ? given : ".", NULL);
}

void
ipb_run_arguments_clear(IpbRunArguments *arguments)
{
    ipb_kernel_arguments_clear(&arguments->kernel);
    ipb_approval_arguments_clear(&arguments->approval);
    g_free(arguments->images_dir);
    g_free(arguments->log_level);
    g_free(arguments->seed_text);
}
