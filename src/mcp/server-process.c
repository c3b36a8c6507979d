/* SPDX-License-Identifier: Apache-2.0
 *
 * The process of a stdio server; see the header.
 *
 * A sandboxed server has the environment and the directory that it would have without a sandbox,
 * and sees what its configuration allows. Two things are protected whatever the configuration says:
 * our state, which has the parameters of other servers, and the names that no sandboxed program may
 * create or change (sandbox/name-rules.h).
 */
#include "mcp/server-process.h"

#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/file.h"
#include "base/installed-files.h"
#include "command/known-paths.h"
#include "command/sandboxed-command.h"

struct IpbServerProcess {
    IpbChild *child;                /* one of these two is set */
    IpbSandboxedCommand *sandboxed; /* in a sandbox */
    IpbServerLog *log;
    IpbServerExitFunc on_exit;
    void *data;
    bool has_ended;
};

/* --- what runs --- */

static bool
is_in_path(const char *command, const char *const *env)
{
    const char *path = g_environ_getenv((char **) env, "PATH");
    g_auto(GStrv) directories = g_strsplit(path != NULL ? path : "", ":", -1);
    for (char **directory = directories; *directory != NULL; directory++) {
        g_autofree char *candidate = g_build_filename(*directory, command, NULL);
        if (**directory != '\0' && g_file_test(candidate, G_FILE_TEST_IS_EXECUTABLE))
            return true;
    }
    return false;
}

/* The path of ipybox; NULL: not found. */
static char *
find_ipybox(void)
{
    static const char *const PLACES[] = {
        ".",         /* the program itself; a build tree */
        "../..",     /* tests in the build tree */
        "../bin",    /* the library is in lib */
        "../../bin", /* or in lib/<triplet> */
        NULL,
    };
    return ipb_installed_files_find(PLACES, "ipybox", "program", NULL);
}

/* The command and its arguments; free with g_strfreev. */
static char **
make_argv(const IpbServerProcessOptions *options)
{
    const IpbServerParams *params = options->params;
    g_autoptr(GStrvBuilder) argv = g_strv_builder_new();
    bool is_srt = strcmp(params->command, "srt") == 0 && !is_in_path("srt", options->env);
    g_autofree char *ipybox = is_srt ? find_ipybox() : NULL;
    if (ipybox != NULL)
        g_strv_builder_add_many(argv, ipybox, "sandbox", NULL);
    else
        g_strv_builder_add(argv, params->command);
    if (params->args != NULL)
        g_strv_builder_addv(argv, (const char **) params->args);
    return g_strv_builder_end(argv);
}

/* --- without a sandbox --- */

static void
on_child_exit(IpbChild *child, int wait_status, void *data)
{
    IpbServerProcess *process = data;
    process->has_ended = true;
    process->on_exit(process, wait_status, NULL, process->data);
}

static bool
start_child(IpbServerProcess *process, IpbLoop *loop, const IpbServerProcessOptions *options,
            char **argv, const char *cwd, GError **error)
{
    const IpbChildOptions child = {
        .argv = (const char *const *) argv,
        .envp = options->env,
        .cwd = cwd,
        .stdin_fd = options->stdin_fd,
        .stdout_fd = options->stdout_fd,
        .stderr_fd = options->stderr_fd,
        .extra_fd = -1,
    };
    process->child = ipb_child_spawn(loop, &child, on_child_exit, process, error);
    return process->child != NULL;
}

/* --- in a sandbox --- */

static void
tell(const IpbServerProcess *process, const char *text)
{
    ipb_server_log_write(process->log, "warning", text, strlen(text));
}

static void
on_violation(const IpbViolation *violation, void *data)
{
    g_autofree char *text = ipb_violation_to_text(violation);
    tell(data, text);
}

static void
on_warning(const char *text, void *data)
{
    tell(data, text);
}

static void
on_sandboxed_end(IpbSandboxedCommand *sandboxed, int wait_status, const GError *error, void *data)
{
    IpbServerProcess *process = data;
    process->has_ended = true;
    process->on_exit(process, wait_status, error, process->data);
}

/* Keeps a virtual environment, and the parts of the Python installation that it was made from. The
 * prefix of that installation may contain other things. */
static void
keep_environment(GStrvBuilder *kept, const char *prefix)
{
    g_autofree char *python = g_build_filename(prefix, "bin", "python", NULL);
    char *real = realpath(python, NULL);
    g_strv_builder_add(kept, prefix);
    if (real != NULL) {
        g_autofree char *bin = g_path_get_dirname(real);
        g_autofree char *base = g_path_get_dirname(bin);
        g_autofree char *lib = g_build_filename(base, "lib", NULL);
        g_strv_builder_add_many(kept, bin, lib, NULL);
    }
    free(real);
}

/* A command that is given by its path stays readable, with the virtual environment that it is
 * in. */
static char **
find_kept(const char *command)
{
    g_autoptr(GStrvBuilder) kept = g_strv_builder_new();
    if (g_path_is_absolute(command)) {
        g_autofree char *bin = g_path_get_dirname(command);
        g_autofree char *prefix = g_path_get_dirname(bin);
        g_autofree char *config = g_build_filename(prefix, "pyvenv.cfg", NULL);
        if (g_file_test(config, G_FILE_TEST_EXISTS))
            keep_environment(kept, prefix);
        else
            g_strv_builder_add(kept, command);
    }
    return g_strv_builder_end(kept);
}

static IpbSandboxPlan *
make_plan(const IpbServerProcessOptions *options, const char *workspace, const char *state_dir,
          GError **error)
{
    const char *const hide[] = {state_dir, NULL};
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_strv_builder_add(builder, state_dir);
    if (options->keep_out != NULL)
        g_strv_builder_addv(builder, (const char **) options->keep_out);
    g_auto(GStrv) keep_out = g_strv_builder_end(builder);
    g_auto(GStrv) kept = find_kept(options->params->command);
    g_auto(GStrv) environments = ipb_known_paths_environments(state_dir, workspace, error);
    if (environments == NULL)
        return NULL;
    return ipb_sandbox_plan_new(
        &(IpbPlanOptions){
            .policy = options->params->sandbox,
            .workspace = workspace,
            .home = g_get_home_dir(),
            .keep = (const char *const *) kept,
            .keep_out = (const char *const *) keep_out,
            .hide = hide,
            .environments = (const char *const *) environments,
            .limits = IPB_SANDBOX_LIMITS_DEFAULT,
        },
        error);
}

static bool
start_sandboxed(IpbServerProcess *process, IpbLoop *loop, const IpbServerProcessOptions *options,
                char **argv, const char *cwd, GError **error)
{
    g_autofree char *here = g_get_current_dir();
    g_autofree char *workspace =
        g_canonicalize_filename(options->cwd != NULL ? options->cwd : here, here);
    g_autofree char *place = g_canonicalize_filename(cwd != NULL ? cwd : workspace, workspace);
    g_autofree char *state_dir = options->state_dir != NULL
                                     ? g_canonicalize_filename(options->state_dir, here)
                                     : g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    ipb_file_make_directories(state_dir, 0700, NULL); /* an existing directory is protected */
    g_autoptr(IpbSandboxPlan) plan = make_plan(options, workspace, state_dir, error);
    if (plan == NULL)
        return false;
    g_autoptr(GError) failure = NULL;
    if (!ipb_known_paths_add_plan(state_dir, plan, &failure))
        tell(process, failure->message);
    for (guint i = 0; i < plan->warnings->len; i++)
        tell(process, g_ptr_array_index(plan->warnings, i));
    const IpbSandboxedCommandOptions command = {
        .plan = plan,
        .argv = (const char *const *) argv,
        .env = options->env,
        .cwd = place,
        .stdin_fd = options->stdin_fd,
        .stdout_fd = options->stdout_fd,
        .stderr_fd = options->stderr_fd,
        .on_end = on_sandboxed_end,
        .on_violation = on_violation,
        .on_warning = on_warning,
        .data = process,
    };
    process->sandboxed = ipb_sandboxed_command_new(loop, &command, error);
    return process->sandboxed != NULL;
}

/* --- both --- */

IpbServerProcess *
ipb_server_process_new(IpbLoop *loop, const IpbServerProcessOptions *options,
                       IpbServerExitFunc on_exit, void *data, GError **error)
{
    IpbServerProcess *process = g_new0(IpbServerProcess, 1);
    process->log = ipb_server_log_ref(options->log);
    process->on_exit = on_exit;
    process->data = data;
    g_auto(GStrv) argv = make_argv(options);
    const char *cwd = options->params->cwd != NULL ? options->params->cwd : options->cwd;
    bool is_started = options->params->sandbox != NULL
                          ? start_sandboxed(process, loop, options, argv, cwd, error)
                          : start_child(process, loop, options, argv, cwd, error);
    if (!is_started)
        g_clear_pointer(&process, ipb_server_process_free);
    return process;
}

bool
ipb_server_process_is_running(const IpbServerProcess *process)
{
    return !process->has_ended;
}

void
ipb_server_process_stop(IpbServerProcess *process, unsigned grace_ms)
{
    if (process->child != NULL)
        ipb_child_stop(process->child, grace_ms);
    else
        ipb_sandboxed_command_stop(process->sandboxed, grace_ms);
}

void
ipb_server_process_free(IpbServerProcess *process)
{
    if (process == NULL)
        return;
    ipb_child_free(process->child);
    ipb_sandboxed_command_free(process->sandboxed);
    ipb_server_log_unref(process->log);
    g_free(process);
}
