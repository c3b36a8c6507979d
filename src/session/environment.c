/* SPDX-License-Identifier: Apache-2.0
 *
 * Environments; see the header.
 */
#include "session/environment.h"

#include <string.h>

#include "base/dotenv.h"
#include "mcp/server-env.h"
#include "session/install-env.h"

#define KERNEL_PREFIX "KERNEL_ENV_"
#define MATPLOTLIB_CACHE ".ipybox/matplotlib"

/* The variables that a kernel inherits. None of them could contain a secret. */
static const char *const INHERITED[] = {
    "HOME", /* ~ in paths, caches of tools */
    "USER",
    "LOGNAME", /* getpass.getuser(), git */
    "SHELL",   /* !cmd of some tools */
    "LANG",
    "LANGUAGE",           /* encoding and language of programs */
    "TZ",                 /* local time */
    "TMPDIR",             /* where temporary files may be large */
    "SSL_CERT_FILE",      /* the machine's own trust store: pip and requests fail without it */
    "SSL_CERT_DIR",       /* likewise */
    "REQUESTS_CA_BUNDLE", /* likewise */
};

/* The variables of every kernel, whatever the application's environment says. */
static const char *const FIXED[][2] = {
    {"MPLBACKEND", "module://matplotlib_inline.backend_inline"},
    {"PAGER", "cat"}, /* git log and man must not wait for a key */
    {"GIT_PAGER", "cat"},
    {"GIT_TERMINAL_PROMPT", "0"},
    {"PYDANTIC_ERRORS_INCLUDE_URL", "0"}, /* errors for wrong arguments are short */
};

/* Output of other clients is for agents. */
static const char *const PLAIN[][2] = {
    {"TERM", "dumb"},
    {"NO_COLOR", "1"},
};

/* As in Jupyter's own kernel: programs write to a pipe, and would take it for a client without
 * colour. */
static const char *const COLOURED[][2] = {
    {"TERM", "xterm-color"},
    {"CLICOLOR", "1"},
    {"CLICOLOR_FORCE", "1"},
    {"FORCE_COLOR", "1"},
};

char **
ipb_environment_application(const char *const *env, const char *workspace, bool is_sandboxed,
                            void (*on_warning)(const char *text, void *data), void *data)
{
    char **result = env != NULL ? g_strdupv((char **) env) : g_get_environ();
    g_autofree char *path = g_build_filename(workspace, ".env", NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) file = NULL;
    if (!ipb_dotenv_load(is_sandboxed ? workspace : NULL, path, warnings, &file, &error))
        g_ptr_array_add(warnings,
                        g_strdup_printf("its variables are not used: %s", error->message));
    for (guint i = 0; on_warning != NULL && i < warnings->len; i++)
        on_warning(g_ptr_array_index(warnings, i), data);
    for (char **entry = file; entry != NULL && *entry != NULL; entry++) {
        char *equals = strchr(*entry, '=');
        g_autofree char *name = g_strndup(*entry, (gsize) (equals - *entry));
        result = g_environ_setenv(result, name, equals + 1, FALSE);
    }
    return result;
}

char **
ipb_environment_servers(const char *const *env, const char *const *names)
{
    if (names == NULL)
        return g_strdupv((char **) env);
    char **result = ipb_server_env_make(env, NULL);
    for (; *names != NULL; names++) {
        const char *value = g_environ_getenv((char **) env, *names);
        if (value != NULL)
            result = g_environ_setenv(result, *names, value, TRUE);
    }
    return result;
}

/* The programs of the overlay come first, then those of the interpreter, so that `!pip` is its
 * pip. */
static char *
make_path(const IpbKernelEnvironment *options)
{
    g_autofree char *bin = g_path_get_dirname(options->python);
    const char *inherited = g_environ_getenv((char **) options->application, "PATH");
    g_autoptr(GString) path = g_string_new(NULL);
    if (options->overlay != NULL)
        g_string_append_printf(path, "%s/bin:", options->overlay);
    g_string_append_printf(path, "%s:%s", bin,
                           inherited != NULL ? inherited : "/usr/local/bin:/usr/bin:/bin");
    return g_string_free(g_steal_pointer(&path), FALSE);
}

static char **
add_packages(char **env, const IpbKernelEnvironment *options)
{
    if (options->overlay != NULL) {
        env = g_environ_setenv(env, "PIP_TARGET", options->overlay, TRUE);
        env = g_environ_setenv(env, "PIP_UPGRADE", "1", TRUE);
        env = g_environ_setenv(env, "PYTHONPATH", options->overlay, TRUE); /* for child processes */
    }
    g_autofree char *bin = g_path_get_dirname(options->python);
    g_autofree char *prefix = g_path_get_dirname(bin);
    g_autofree char *config = g_build_filename(prefix, "pyvenv.cfg", NULL);
    if (g_file_test(config, G_FILE_TEST_EXISTS))
        env = g_environ_setenv(env, "VIRTUAL_ENV", prefix, TRUE); /* for uv */
    env = g_environ_setenv(env, "PIP_DISABLE_PIP_VERSION_CHECK", "1", TRUE);
    return env;
}

/* Without a sandbox, `!pip install` runs in the cell. The cell needs the names of the settings that
 * it did not get, to report them if the installation fails. It does not get their values, which may
 * contain passwords. */
static char **
add_withheld(char **env, const IpbKernelEnvironment *options)
{
    g_autofree char *names =
        options->is_sandboxed ? NULL : ipb_install_env_names(options->application);
    return names != NULL ? g_environ_setenv(env, "IPYBOX_WITHHELD_SETTINGS", names, TRUE) : env;
}

/* In a sandbox the home directory is not writable. So matplotlib's cache, which takes seconds to
 * make, is in the workspace. */
static char **
add_caches(char **env, const IpbKernelEnvironment *options)
{
    if (!options->is_sandboxed)
        return env;
    /* "1": `!pip install` calls our tool. */
    env = g_environ_setenv(env, "IPYBOX_INSTALLS", options->can_install ? "1" : "0", TRUE);
    g_autofree char *matplotlib = g_build_filename(options->workspace, MATPLOTLIB_CACHE, NULL);
    return g_environ_setenv(env, "MPLCONFIGDIR", matplotlib, TRUE);
}

static char **
add_kernel_variables(char **env, const IpbKernelEnvironment *options)
{
    for (const char *const *entry = options->application; *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals == NULL)
            continue;
        g_autofree char *name = g_strndup(*entry, (gsize) (equals - *entry));
        if (g_str_has_prefix(name, KERNEL_PREFIX) && name[strlen(KERNEL_PREFIX)] != '\0')
            env = g_environ_setenv(env, name + strlen(KERNEL_PREFIX), equals + 1, TRUE);
        else if (g_str_has_prefix(name, "LC_"))
            env = g_environ_setenv(env, name, equals + 1, TRUE);
    }
    for (const char *const *entry = options->kernel_env; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals == NULL || equals == *entry)
            continue;
        g_autofree char *name = g_strndup(*entry, (gsize) (equals - *entry));
        env = g_environ_setenv(env, name, equals + 1, TRUE);
    }
    return env;
}

static char **
add_colour(char **env, const IpbKernelEnvironment *options)
{
    const char *const(*variables)[2] = options->has_rich_client ? COLOURED : PLAIN;
    size_t n = options->has_rich_client ? G_N_ELEMENTS(COLOURED) : G_N_ELEMENTS(PLAIN);
    for (size_t i = 0; i < n; i++)
        env = g_environ_setenv(env, variables[i][0], variables[i][1], TRUE);
    return env;
}

/* The user's NO_COLOR takes precedence. Some programs would warn of both. */
static char **
obey_no_color(char **env, const IpbKernelEnvironment *options)
{
    const char *no_color = g_environ_getenv(env, "NO_COLOR");
    if (!options->has_rich_client || no_color == NULL || no_color[0] == '\0')
        return env;
    env = g_environ_unsetenv(env, "FORCE_COLOR");
    return g_environ_unsetenv(env, "CLICOLOR_FORCE");
}

char **
ipb_environment_kernel(const IpbKernelEnvironment *options)
{
    char **env = g_new0(char *, 1);
    for (size_t i = 0; i < G_N_ELEMENTS(INHERITED); i++) {
        const char *value = g_environ_getenv((char **) options->application, INHERITED[i]);
        if (value != NULL)
            env = g_environ_setenv(env, INHERITED[i], value, TRUE);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(FIXED); i++)
        env = g_environ_setenv(env, FIXED[i][0], FIXED[i][1], TRUE);
    env = add_colour(env, options);
    g_autofree char *path = make_path(options);
    env = g_environ_setenv(env, "PATH", path, TRUE);
    env = add_packages(env, options);
    env = add_caches(env, options);
    env = add_withheld(env, options);
    env = add_kernel_variables(env, options);
    env = obey_no_color(env, options);
    g_autofree char *port = g_strdup_printf("%u", options->tool_port);
    env = g_environ_setenv(env, "TOOL_SERVER_HOST", "127.0.0.1", TRUE);
    env = g_environ_setenv(env, "TOOL_SERVER_PORT", port, TRUE);
    if (options->tool_token[0] != '\0')
        env = g_environ_setenv(env, "IPYBOX_TOOL_TOKEN", options->tool_token, TRUE);
    return env;
}
