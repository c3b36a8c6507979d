/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox sandbox`: runs a command in a sandbox, or explains the sandbox. It accepts the command
 * line of srt (Anthropic's sandbox-runtime), so a configuration can name it in srt's place.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/sandboxed-run.h"
#include "command/known-paths.h"
#include "sandbox/explain.h"
#include "session/installation-paths.h"

/* The file that srt reads, in the home directory. */
#define DEFAULT_SETTINGS ".srt-settings.json"

/* --control-fd was not given. No user gives this number; 0 is standard input, which is refused. */
#define NO_CONTROL_FD INT_MIN

typedef struct {
    char *settings, *command_string, *workspace, *violation_log;
    int is_explain, as_json, is_debug, is_weaker_allowed, is_version;
    int control_fd; /* NO_CONTROL_FD: not given */
} Arguments;

static int
fail(const GError *error)
{
    return ipb_cli_fail(&ipb_verb_sandbox, ipb_cli_status(error), "%s", error->message);
}

/* A file that was named must exist. The one in the home directory may be missing; then srt's
 * default applies. */
static IpbSandboxPolicy *
load_policy(const Arguments *arguments, const char *workspace, GError **error)
{
    if (arguments->settings != NULL)
        return ipb_sandbox_policy_load(workspace, arguments->settings, error);
    g_autofree char *path = g_build_filename(g_get_home_dir(), DEFAULT_SETTINGS, NULL);
    g_autoptr(GError) cause = NULL;
    IpbSandboxPolicy *policy = ipb_sandbox_policy_load(NULL, path, &cause);
    if (g_error_matches(cause, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND))
        return ipb_sandbox_policy_closed();
    if (cause != NULL)
        g_propagate_error(error, g_steal_pointer(&cause));
    return policy;
}

static IpbSandboxPlan *
make_plan(const Arguments *arguments, const char *workspace, GError **error)
{
    g_autoptr(IpbSandboxPolicy) policy = load_policy(arguments, workspace, error);
    if (policy == NULL)
        return NULL;
    bool is_weaker = arguments->is_weaker_allowed || policy->allow_weaker_nested;
    g_autofree char *state = g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    g_autofree char *log = arguments->violation_log != NULL
                               ? g_canonicalize_filename(arguments->violation_log, NULL)
                               : NULL;
    const char *const keep_out[] = {state, log, NULL};
    /* Hides the registry and the tokens of MCP servers. The weaker sandbox cannot hide anything. */
    const char *const hide[] = {is_weaker ? NULL : state, NULL};
    IpbRegistry *registry = ipb_registry_new(NULL);
    g_auto(GStrv) packages = ipb_installation_paths_packages(registry, workspace, error);
    ipb_registry_free(registry);
    g_auto(GStrv) environments =
        packages != NULL ? ipb_known_paths_environments(state, workspace, error) : NULL;
    if (environments == NULL)
        return NULL;
    return ipb_sandbox_plan_new(
        &(IpbPlanOptions){
            .policy = policy,
            .workspace = workspace,
            .home = g_get_home_dir(),
            .keep_out = keep_out,
            .hide = hide,
            .packages = (const char *const *) packages,
            .environments = (const char *const *) environments,
            .is_network_kept = arguments->control_fd != NO_CONTROL_FD,
            .limits = IPB_SANDBOX_LIMITS_DEFAULT,
        },
        error);
}

static int
explain(const IpbSandboxPlan *plan, bool as_json)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = ipb_sandbox_explain(plan, as_json, &error);
    if (text == NULL)
        return fail(error);
    g_autofree char *printable = ipb_cli_printable(text);
    fputs(printable, stdout);
    return fflush(stdout) == 0 ? IPB_EXIT_OK : IPB_EXIT_FAILED;
}

/* Whether the command is one word such as "npm test", as in srt's documentation. */
static bool
is_shell_line(char **words)
{
    return words[0] != NULL && words[1] == NULL && strpbrk(words[0], " \t\n") != NULL &&
           access(words[0], F_OK) < 0;
}

/* The command to run, NULL-terminated. The caller frees the vector only. NULL: there is no
 * command. */
static const char **
make_command(const Arguments *arguments, char **words)
{
    const char *line = arguments->command_string;
    if (line == NULL && is_shell_line(words))
        line = words[0];
    if (line == NULL)
        return words[0] != NULL
                   ? (const char **) g_memdup2(words, (g_strv_length(words) + 1) * sizeof *words)
                   : NULL;
    g_autofree char *bash = g_find_program_in_path("bash");
    const char **argv = g_new0(const char *, 4);
    argv[0] = bash != NULL ? "bash" : "sh";
    argv[1] = "-c";
    argv[2] = line;
    return argv;
}

static int
run_command(const Arguments *arguments, const IpbSandboxPlan *plan, IpbViolationLog *log,
            const char *cwd, char **words)
{
    g_autofree const char **argv = make_command(arguments, words);
    if (argv == NULL)
        return ipb_cli_fail(&ipb_verb_sandbox, IPB_EXIT_USAGE,
                            "no command: write one after the options, or use -c");
    g_autofree char *state = g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    g_autoptr(GError) error = NULL;
    if (!ipb_known_paths_add_plan(state, plan, &error))
        ipb_cli_log("warning", error->message, NULL);
    return ipb_sandboxed_run(&(IpbSandboxedRunOptions){
        .plan = plan,
        .argv = argv,
        .cwd = cwd,
        .is_debug = arguments->is_debug,
        .is_weaker_allowed = arguments->is_weaker_allowed || plan->policy->allow_weaker_nested,
        .control_fd = arguments->control_fd != NO_CONTROL_FD ? arguments->control_fd : -1,
        .violation_log = log,
    });
}

/* Makes our own files before the plan, which protects what exists. Files that are made later would
 * count as made by the command. */
static bool
make_own_files(const Arguments *arguments, IpbViolationLog **ret_log, GError **error)
{
    g_autofree char *state = g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    ipb_file_make_directories(state, 0700, NULL); /* if we cannot, the command cannot either */
    if (arguments->violation_log == NULL)
        return true;
    *ret_log = ipb_violation_log_open(arguments->violation_log, error);
    return *ret_log != NULL;
}

/* An open directory would lead the command past all mounts. */
static bool
check_standard_streams(GError **error)
{
    struct stat status;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &status) < 0 || !S_ISDIR(status.st_mode))
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "file descriptor %d is a directory, through which the command could leave its "
                    "sandbox: redirect it to a file, a pipe or /dev/null",
                    fd);
        return false;
    }
    return true;
}

static bool
check_arguments(const Arguments *arguments, int *ret_status)
{
    int fd = arguments->control_fd;
    if (fd == NO_CONTROL_FD)
        return true;
    int mode = fcntl(fd, F_GETFL);
    struct stat status;
    if (fd >= 3 && fstat(fd, &status) == 0 && !S_ISFIFO(status.st_mode) &&
        !S_ISSOCK(status.st_mode)) {
        *ret_status = ipb_cli_fail(&ipb_verb_sandbox, IPB_EXIT_USAGE,
                                   "--control-fd: %d is neither a pipe nor a socket", fd);
        return false;
    }
    if (fd < 3 || mode < 0 || (mode & O_ACCMODE) == O_WRONLY) {
        *ret_status =
            ipb_cli_fail(&ipb_verb_sandbox, IPB_EXIT_USAGE,
                         "--control-fd: %d is not an open, readable descriptor from 3 on", fd);
        return false;
    }
    return true;
}

static int
run_with(const Arguments *arguments, char **words)
{
    int status;
    if (arguments->is_version) {
        puts("ipybox " IPYBOX_VERSION);
        return IPB_EXIT_OK;
    }
    if (!check_arguments(arguments, &status))
        return status;
    g_autoptr(GError) error = NULL;
    g_autofree char *cwd = g_get_current_dir();
    g_autofree char *workspace = arguments->workspace != NULL
                                     ? g_canonicalize_filename(arguments->workspace, cwd)
                                     : g_strdup(cwd);
    g_autoptr(IpbViolationLog) log = NULL;
    if (!arguments->is_explain &&
        (!check_standard_streams(&error) || !make_own_files(arguments, &log, &error)))
        return fail(error);
    g_autoptr(IpbSandboxPlan) plan = make_plan(arguments, workspace, &error);
    if (plan == NULL)
        return fail(error);
    if (arguments->is_explain)
        return explain(plan, arguments->as_json);
    return run_command(arguments, plan, log, cwd, words);
}

static int
run_sandbox(int argc, char **argv)
{
    Arguments arguments = {.control_fd = NO_CONTROL_FD};
    const GOptionEntry options[] = {
        {"settings", 's', 0, G_OPTION_ARG_FILENAME, &arguments.settings,
         "configuration (default: ~/" DEFAULT_SETTINGS " if it exists)", "FILE"},
        {"command", 'c', 0, G_OPTION_ARG_STRING, &arguments.command_string,
         "run COMMAND in a shell", "COMMAND"},
        {"explain", 0, 0, G_OPTION_ARG_NONE, &arguments.is_explain,
         "print what the sandbox allows, with reasons; run nothing", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &arguments.as_json, "with --explain: print JSON", NULL},
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.workspace,
         "directory for relative paths in the configuration (default: .)", "DIR"},
        {"allow-weaker", 0, 0, G_OPTION_ARG_NONE, &arguments.is_weaker_allowed,
         "if namespaces are forbidden, use Landlock and seccomp only", NULL},
        {"control-fd", 0, 0, G_OPTION_ARG_INT, &arguments.control_fd,
         "read new configurations from FD, one JSON line each", "FD"},
        {"violation-log", 0, 0, G_OPTION_ARG_FILENAME, &arguments.violation_log,
         "append a JSON line to FILE for each denial", "FILE"},
        {"debug", 'd', 0, G_OPTION_ARG_NONE, &arguments.is_debug, "report on stderr what is done",
         NULL},
        {"version", 'V', 0, G_OPTION_ARG_NONE, &arguments.is_version, "show the version and exit",
         NULL},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (ipb_cli_parse(&ipb_verb_sandbox, options,
                      "Without a configuration everything can be read, nothing written, and there "
                      "is no network.\n\n"
                      "Exit status: that of the command, or 128 + the number of the signal that "
                      "ended it.\n\nExample:\n  ipybox sandbox --settings sandbox.json -- npm test",
                      &argc, &argv, &status)) {
        status = run_with(&arguments, argv + 1);
    }
    g_free(arguments.settings);
    g_free(arguments.command_string);
    g_free(arguments.workspace);
    g_free(arguments.violation_log);
    return status;
}

const IpbVerb ipb_verb_sandbox = {"sandbox", "[--] COMMAND [ARGUMENT…]",
                                  "run a command in a sandbox, or explain what it may do",
                                  run_sandbox, .takes_command = true};
