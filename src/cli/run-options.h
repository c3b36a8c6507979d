/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRunArguments: the options of the verbs that run cells in a session of their own, `ipybox run`
 * and `ipybox record --replay`. As the groups of cli/options.h, the struct is zero before the
 * command line is parsed, except that kernel.is_sandboxed is TRUE, and the verb clears it.
 */
#pragma once

#include "cli/options.h"

typedef struct {
    IpbKernelArguments kernel;
    IpbApprovalArguments approval;
    char *images_dir;
    char *log_level;
    double timeout_s; /* of each cell; 0: none */
    char *seed_text;
    int64_t seed; /* set by _check if there is a seed_text */
} IpbRunArguments;

/* clang-format off */
#define IPB_OPTIONS_RUN(run)                                                                       \
    {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &(run)->kernel.workspace,                           \
     "working directory of the kernel (default: .)", "DIR"},                                       \
    {"images-dir", 0, 0, G_OPTION_ARG_FILENAME, &(run)->images_dir,                                \
     "directory for saved plots (default: images in the workspace)", "DIR"},                       \
    {"timeout", 0, 0, G_OPTION_ARG_DOUBLE, &(run)->timeout_s,                                      \
     "interrupt the code after this time (default: never)", "SECONDS"},                            \
    IPB_OPTION_APPROVE(&(run)->approval, "allow, ask (default), deny, or a file of rules"),        \
    IPB_OPTION_AUDIT_LOG(&(run)->approval),                                                        \
    IPB_OPTION_RECORD(&(run)->kernel),                                                             \
    IPB_OPTION_APPROVAL_TIMEOUT(&(run)->approval),                                                 \
    IPB_OPTION_PYTHON(&(run)->kernel),                                                             \
    IPB_OPTION_PRELOAD(&(run)->kernel),                                                            \
    IPB_OPTION_SANDBOX_CONFIG(&(run)->kernel, ""),                                                 \
    IPB_OPTION_ALLOWED_DOMAINS(&(run)->kernel, ""),                                                \
    {"no-sandbox", 0, G_OPTION_FLAG_REVERSE, G_OPTION_ARG_NONE, &(run)->kernel.is_sandboxed,       \
     "run without a sandbox: the code has all your permissions", NULL},                            \
    {"seed", 0, 0, G_OPTION_ARG_STRING, &(run)->seed_text,                                         \
     "seed for random, numpy.random and torch", "N"},                                              \
    IPB_OPTION_LOG_LEVEL(&(run)->log_level)
/* clang-format on */

/* Checks the values, and sets the log level. */
bool ipb_run_arguments_check(IpbRunArguments *arguments, GError **error);
/* The absolute path of the workspace. The caller frees it. */
char *ipb_run_arguments_workspace(const IpbRunArguments *arguments);
void ipb_run_arguments_clear(IpbRunArguments *arguments);
