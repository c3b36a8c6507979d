/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the user's environment for kernels, with the interpreter's own venv and pip, so that the
 * user's settings for pip (an index, a proxy) apply. Distributions have no IPython and pydantic
 * that are new enough, and want nothing installed into their own Python.
 *
 * Programs run one after the other in our process group. Ctrl-C ends them and not us, so we can
 * remove an environment that is not finished.
 */
#include "cli/python-setup.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd-limit.h"
#include "base/file.h"
#include "cli/cli.h"
#include "session/python.h"

/* Exit statuses of CHECK. */
#define STATUS_TOO_OLD 3
#define STATUS_NO_VENV 4

static const char CHECK[] = "import sys\n"
                            "if sys.version_info < (3, 10): sys.exit(3)\n"
                            "try:\n"
                            "    import ensurepip, venv\n"
                            "except ImportError:\n"
                            "    sys.exit(4)\n";

/* --- programs --------------------------------------------------------------------------------- */

static void
on_interrupt(int number)
{
}

static int
await(pid_t pid)
{
    /* A handler and not SIG_IGN, so that the child gets the default back. */
    struct sigaction ours = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, before;
    sigaction(SIGINT, &ours, &before);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &before, NULL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs @argv. Its output goes to our stderr, or nowhere. Returns its exit status, or -1 with
 * @error. */
static int
run(const char *const *argv, bool is_quiet, GError **error)
{
    GPid pid;
    GSpawnFlags flags = G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_CHILD_INHERITS_STDIN |
                        (is_quiet ? G_SPAWN_STDERR_TO_DEV_NULL | G_SPAWN_STDOUT_TO_DEV_NULL : 0);
    g_autoptr(GError) cause = NULL;
    if (!g_spawn_async_with_pipes_and_fds(NULL, argv, NULL, flags, ipb_fd_limit_restore, NULL, -1,
                                          is_quiet ? -1 : STDERR_FILENO, -1, NULL, NULL, 0, &pid,
                                          NULL, NULL, NULL, &cause)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "cannot run %s: %s", argv[0],
                    cause->message);
        return -1;
    }
    return await(pid);
}

/* --- the environment -------------------------------------------------------------------------- */

static bool
check_base(const char *python, GError **error)
{
    const char *const argv[] = {python, "-I", "-c", CHECK, NULL};
    int status = run(argv, true, error);
    if (status == STATUS_TOO_OLD)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "%s is older than Python 3.10. Name a newer one: ipybox doctor --setup "
                    "--python PYTHON",
                    python);
    else if (status == STATUS_NO_VENV)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "%s cannot make virtual environments. Run: sudo apt-get install python3-venv",
                    python);
    else if (status > 0)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "%s does not work: it ended with %d", python, status);
    return status == 0;
}

static char *
find_base(const char *asked, GError **error)
{
    g_autofree char *python = g_find_program_in_path(asked != NULL ? asked : "python3");
    if (python == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    asked != NULL
                        ? "no such interpreter: %s"
                        : "there is no %s. Run: sudo apt-get install python3 python3-venv",
                    asked != NULL ? asked : "python3");
    return python != NULL && check_base(python, error) ? g_steal_pointer(&python) : NULL;
}

/* Whether the environment works. If its Python was replaced or removed, it has no pip. */
static bool
is_usable(const char *python)
{
    const char *const argv[] = {python, "-I", "-m", "pip", "--version", NULL};
    return access(python, X_OK) == 0 && run(argv, true, NULL) == 0;
}

static bool
make_environment(const char *base, const char *directory, GError **error)
{
    ipb_cli_say(&ipb_verb_doctor, "making %s with %s", directory, base);
    g_autofree char *parent = g_path_get_dirname(directory);
    if (!ipb_file_make_directories(parent, 0700, error))
        return false;
    const char *const argv[] = {base, "-I", "-m", "venv", "--clear", directory, NULL};
    int status = run(argv, false, error);
    if (status > 0)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "%s could not make the environment; see above. If ensurepip is missing: sudo "
                    "apt-get install python3-venv",
                    base);
    return status == 0;
}

static bool
install(const char *python, const char *const *packages, GError **error)
{
    g_autofree char *requirements = ipb_python_find_requirements(error);
    if (requirements == NULL)
        return false;
    ipb_cli_say(&ipb_verb_doctor, "installing the packages of %s", requirements);
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    const char *const words[] = {python,       "-m",        "pip", "install",
                                 "--no-input", "--upgrade", "-r",  requirements};
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        g_ptr_array_add(argv, (char *) words[i]);
    for (; *packages != NULL; packages++)
        g_ptr_array_add(argv, (char *) *packages);
    g_ptr_array_add(argv, NULL);
    int status = run((const char *const *) argv->pdata, false, error);
    if (status > 0)
        g_set_error_literal(
            error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
            "pip could not install the packages; see above. It needs a package index: behind a "
            "proxy set https_proxy, for another index PIP_INDEX_URL or pip.conf, and for other "
            "certificate authorities PIP_CERT");
    return status == 0;
}

/* Warns if another Python takes precedence over the new environment. */
static void
warn_if_not_used(const char *python)
{
    g_autofree char *used = ipb_python_find(NULL, NULL, NULL);
    if (used != NULL && !g_str_equal(used, python))
        ipb_cli_say(&ipb_verb_doctor,
                    "note: kernels do not use %s, because %s takes precedence (see IPYBOX_PYTHON "
                    "in ipybox(1))",
                    python, used);
}

/* Keeps an existing environment until the new one is complete. */
static bool
make_and_fill(const char *asked, const char *directory, const char *python,
              const char *const *packages, GError **error)
{
    g_autofree char *base = find_base(asked, error);
    if (base == NULL)
        return false;
    g_autofree char *before = g_strconcat(directory, ".before", NULL);
    ipb_file_remove_tree(before, NULL);
    bool has_before = rename(directory, before) == 0;
    if (!make_environment(base, directory, error) || !install(python, packages, error)) {
        ipb_file_remove_tree(directory, NULL);
        if (has_before)
            rename(before, directory);
        return false;
    }
    ipb_file_remove_tree(before, NULL);
    return true;
}

bool
ipb_python_setup_run(const char *asked, const char *const *packages, GError **error)
{
    g_autofree char *directory = ipb_python_user_environment();
    g_autofree char *python = g_build_filename(directory, "bin", "python3", NULL);
    bool is_new = asked != NULL || !is_usable(python);
    if (!(is_new ? make_and_fill(asked, directory, python, packages, error)
                 : install(python, packages, error)))
        return false;
    warn_if_not_used(python);
    return true;
}
