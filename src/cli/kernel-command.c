/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of `ipybox kernel`; see the header.
 */
#include "cli/kernel-command.h"

#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

void
ipb_kernel_command_init(IpbKernelCommand *command,
                        GOptionEntry ret_options[IPB_KERNEL_COMMAND_N_OPTIONS])
{
    *command = (IpbKernelCommand){.kernel.is_sandboxed = true};
    const GOptionEntry options[] = {
        {"connection-file", 'f', 0, G_OPTION_ARG_FILENAME, &command->connection_file,
         "where to listen, and the key: the front end writes it", "FILE"},
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &command->kernel.workspace,
         "working directory of the kernel (default: .)", "DIR"},
        IPB_OPTION_PYTHON(&command->kernel),
        IPB_OPTION_PRELOAD(&command->kernel),
        IPB_OPTION_SANDBOX_CONFIG(&command->kernel, ""),
        {"no-sandbox", 0, G_OPTION_FLAG_REVERSE, G_OPTION_ARG_NONE, &command->kernel.is_sandboxed,
         "run without a sandbox: code has all your permissions", NULL},
        IPB_OPTION_STAGED(&command->kernel, " until it is committed"),
        IPB_OPTION_STAGING_DIR(&command->kernel),
        IPB_OPTION_APPROVE(&command->approval,
                           "allow, ask (in the front end; default), deny, or a file of rules"),
        IPB_OPTION_APPROVAL_TIMEOUT(&command->approval),
        IPB_OPTION_AUDIT_LOG(&command->approval),
        IPB_OPTION_LOG_LEVEL(&command->log_level),
        /* nbclient and papermill give this to each kernel whose name is python3. */
        {"HistoryManager.hist_file", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING,
         &command->history_file, NULL, NULL},
        G_OPTION_ENTRY_NULL,
    };
    G_STATIC_ASSERT(G_N_ELEMENTS(options) == IPB_KERNEL_COMMAND_N_OPTIONS);
    memcpy(ret_options, options, sizeof options);
}

void
ipb_kernel_command_clear(IpbKernelCommand *command)
{
    g_free(command->connection_file);
    ipb_kernel_arguments_clear(&command->kernel);
    ipb_approval_arguments_clear(&command->approval);
    g_free(command->log_level);
    g_free(command->history_file);
}

bool
ipb_kernel_command_check(const IpbKernelCommand *command, char **arguments, GError **error)
{
    if (*arguments != NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "unexpected argument: %s",
                    *arguments);
    else if (command->connection_file == NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "give the connection file of the front end: -f FILE. Front ends start "
                            "this program themselves, after `ipybox kernelspec install`");
    else if (command->history_file != NULL && strcmp(command->history_file, ":memory:") != 0)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--HistoryManager.hist_file can only be :memory:, because kernels keep their "
                    "history in memory; it was %s",
                    command->history_file);
    else if (command->kernel.is_staged && !command->kernel.is_sandboxed)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "--staged needs a sandbox: it cannot be used with --no-sandbox");
    else if (command->kernel.staging_dir != NULL && !command->kernel.is_staged)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "--staging-dir needs --staged");
    else
        return ipb_approval_arguments_check(&command->approval, error);
    return false;
}

bool
ipb_kernel_command_parse(char **arguments, IpbKernelCommand *ret_command, GError **error)
{
    GOptionEntry options[IPB_KERNEL_COMMAND_N_OPTIONS];
    ipb_kernel_command_init(ret_command, options);
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_option_context_set_help_enabled(context, false);
    g_option_context_add_main_entries(context, options, NULL);
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_strv_builder_add(builder, "ipybox kernel");
    g_strv_builder_addv(builder, (const char **) arguments);
    g_auto(GStrv) rest = g_strv_builder_end(builder);
    if (g_option_context_parse_strv(context, &rest, error))
        return ipb_kernel_command_check(ret_command, rest + 1, error);
    if (error != NULL) {
        g_autoptr(GError) failure = g_steal_pointer(error);
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, failure->message);
    }
    return false;
}

bool
ipb_kernel_command_set_up(const IpbKernelCommand *command, IpbSessionOptions *session,
                          GError **error)
{
    session->workspace = command->kernel.workspace;
    session->approval = IPB_APPROVAL_ASK; /* of calls that no rule names */
    session->approval_timeout_ms = ipb_approval_arguments_timeout_ms(&command->approval);
    session->audit_log = command->approval.audit_log;
    session->is_sandboxed = command->kernel.is_sandboxed;
    session->sandbox_config = command->kernel.sandbox_config;
    session->is_staged = command->kernel.is_staged;
    session->staging_dir = command->kernel.staging_dir;
    return ipb_approval_arguments_read(&command->approval, &session->approval,
                                       &session->approval_rules, error);
}
