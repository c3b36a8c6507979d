/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that several verbs have. Each group has entries for the verb's table, and a plain struct
 * for their values. The struct is zero before the command line is parsed, and the verb clears it.
 * Options that differ between verbs are in the verbs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* --- the log -------------------------------------------------------------------------------- */

#define IPB_OPTION_LOG_LEVEL(value)                                                                \
    {                                                                                              \
        "log-level", 0, 0, G_OPTION_ARG_STRING, (value),                                           \
            "log from DEBUG, INFO, WARNING (default), ERROR or CRITICAL on", "LEVEL"               \
    }

/* --- kernels -------------------------------------------------------------------------------- */

typedef struct {
    char *workspace; /* each verb has its own entry for it */
    char *python;
    char *preload;
    char *sandbox_config;
    char **domains;         /* each item of --allowed-domains, which may be a list */
    char **allowed_domains; /* set by ipb_kernel_arguments_split_domains(); NULL: none */
    char *record;
    char *staging_dir;
    int is_staged;
    int is_sandboxed; /* --sandbox was given, or --no-sandbox was not */
} IpbKernelArguments;

/* clang-format off */
#define IPB_OPTION_PYTHON(kernel)                                                                  \
    {"python", 0, 0, G_OPTION_ARG_FILENAME, &(kernel)->python,                                     \
     "interpreter for kernels (default: see IPYBOX_PYTHON in ipybox(1))", \
     "PYTHON"}
#define IPB_OPTION_PRELOAD(kernel)                                                                 \
    {"preload", 0, 0, G_OPTION_ARG_STRING, &(kernel)->preload,                                     \
     "modules to import once, before kernels start, e.g. numpy,pandas", "MODULES"}
#define IPB_OPTION_RECORD(kernel)                                                                  \
    {"record", 0, 0, G_OPTION_ARG_FILENAME, &(kernel)->record,                                     \
     "append what happens in the session to FILE, see ipybox-record(5)", "FILE"}
#define IPB_OPTION_SANDBOX(kernel)                                                                 \
    {"sandbox", 0, 0, G_OPTION_ARG_NONE, &(kernel)->is_sandboxed,                                  \
     "run kernels in sandboxes: writable workspace, no network", NULL}
#define IPB_OPTION_STAGED(kernel, details)                                                         \
    {"staged", 0, 0, G_OPTION_ARG_NONE, &(kernel)->is_staged,                                      \
     "keep what cells write in the workspace aside" details, NULL}
#define IPB_OPTION_STAGING_DIR(kernel)                                                             \
    {"staging-dir", 0, 0, G_OPTION_ARG_FILENAME, &(kernel)->staging_dir,                           \
     "with --staged: where it is kept (default: the state directory)", "DIR"}
#define IPB_OPTION_ALLOWED_DOMAINS(kernel, details)                                                \
    {"allowed-domains", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(kernel)->domains,                       \
     "domains that sandboxes may reach, e.g. pypi.org,*.example.com (repeatable)" details,         \
     "DOMAINS"}
#define IPB_OPTION_SANDBOX_CONFIG(kernel, details)                                                 \
    {"sandbox-config", 0, 0, G_OPTION_ARG_FILENAME, &(kernel)->sandbox_config,                     \
     "what sandboxes allow: ipybox-sandbox-config(5)" details, "FILE"}
/* clang-format on */

/* INVALID: --allowed-domains has an empty item. The session finds out whether each is a domain. */
bool ipb_kernel_arguments_split_domains(IpbKernelArguments *arguments, GError **error);
void ipb_kernel_arguments_clear(IpbKernelArguments *arguments);

/* --- approvals ------------------------------------------------------------------------------ */

typedef struct {
    char *approve; /* a policy's name, or the path of a rules file */
    char *audit_log;
    double timeout_s; /* 0: none */
} IpbApprovalArguments;

/* clang-format off */
#define IPB_OPTION_APPROVE(approval, policies)                                                     \
    {"approve", 0, 0, G_OPTION_ARG_FILENAME, &(approval)->approve, "tool calls: " policies,        \
     "POLICY|FILE"}
#define IPB_OPTION_APPROVAL_TIMEOUT(approval)                                                      \
    {"approval-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &(approval)->timeout_s,                        \
     "refuse a call that no one answers within this time (default: wait)", "SECONDS"}
#define IPB_OPTION_AUDIT_LOG(approval)                                                             \
    {"audit-log", 0, 0, G_OPTION_ARG_FILENAME, &(approval)->audit_log,                             \
     "append a JSON line to FILE for each decision on a tool call", "FILE"}
/* clang-format on */

bool ipb_approval_arguments_check(const IpbApprovalArguments *arguments, GError **error);
/* -1: no timeout. */
int64_t ipb_approval_arguments_timeout_ms(const IpbApprovalArguments *arguments);
/* Whether the file that --approve names exists. INVALID if not: it may be a misspelt policy. */
bool ipb_approval_arguments_check_file(const IpbApprovalArguments *arguments, GError **error);
void ipb_approval_arguments_clear(IpbApprovalArguments *arguments);

/* --- values --------------------------------------------------------------------------------- */

/* Splits "a,b" into a vector, which the caller frees. NULL for NULL. */
char **ipb_options_split(const char *list);
/* Whether --workspace is a directory. NULL, if the option is not given, is fine. */
bool ipb_options_check_workspace(const char *path, GError **error);
