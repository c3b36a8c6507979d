/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that several verbs have; see the header.
 */
#include "cli/options.h"

#include "base/error.h"

#define MAX_APPROVAL_TIMEOUT_S 1e9

bool
ipb_kernel_arguments_split_domains(IpbKernelArguments *arguments, GError **error)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    if (arguments->domains == NULL)
        return true;
    for (char **item = arguments->domains; *item != NULL; item++) {
        g_auto(GStrv) parts = ipb_options_split(*item);
        bool is_good = parts[0] != NULL;
        for (char **part = parts; *part != NULL; part++) {
            is_good = is_good && *g_strstrip(*part) != '\0';
            g_strv_builder_add(builder, *part);
        }
        if (!is_good) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "--allowed-domains must be domains, separated by commas: \"%s\"", *item);
            return false;
        }
    }
    arguments->allowed_domains = g_strv_builder_end(builder);
    return true;
}

void
ipb_kernel_arguments_clear(IpbKernelArguments *arguments)
{
    g_free(arguments->workspace);
    g_free(arguments->python);
    g_free(arguments->preload);
    g_free(arguments->sandbox_config);
    g_strfreev(arguments->domains);
    g_strfreev(arguments->allowed_domains);
    g_free(arguments->staging_dir);
    g_free(arguments->record);
}

bool
ipb_approval_arguments_check(const IpbApprovalArguments *arguments, GError **error)
{
    if (arguments->timeout_s >= 0 && arguments->timeout_s <= MAX_APPROVAL_TIMEOUT_S)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "--approval-timeout must be a number of seconds");
    return false;
}

int64_t
ipb_approval_arguments_timeout_ms(const IpbApprovalArguments *arguments)
{
    return arguments->timeout_s > 0 ? (int64_t) (arguments->timeout_s * 1000) : -1;
}

bool
ipb_approval_arguments_check_file(const IpbApprovalArguments *arguments, GError **error)
{
    if (g_file_test(arguments->approve, G_FILE_TEST_EXISTS))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "--approve must be allow, ask, deny or a file of rules: there is no file %s",
                arguments->approve);
    return false;
}

void
ipb_approval_arguments_clear(IpbApprovalArguments *arguments)
{
    g_free(arguments->approve);
    g_free(arguments->audit_log);
}

char **
ipb_options_split(const char *list)
{
    return list != NULL ? g_strsplit(list, ",", -1) : NULL;
}

bool
ipb_options_check_workspace(const char *path, GError **error)
{
    if (path == NULL || g_file_test(path, G_FILE_TEST_IS_DIR))
        return true;
    bool is_there = g_file_test(path, G_FILE_TEST_EXISTS);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                is_there ? "--workspace %s is not a directory"
                         : "--workspace %s does not exist: create the directory first",
                path);
    return false;
}
