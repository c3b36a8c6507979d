/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel can read the forkserver's memory, because it is forked from it. So the forkserver
 * gets the variables that it needs to run and no others. Secrets of this process's environment
 * never reach it. A kernel gets its own environment after the fork, by its start frame.
 */
#include "kernel/forkserver-env.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *name; /* a name; or with "_*" at the end, all names with this prefix */
    const char *reason;
} AllowedVariable;

static const AllowedVariable allowed[] = {
    {"PATH", "finds the interpreter, and programs that preloaded modules look for"},
    {"LD_LIBRARY_PATH",
     "an interpreter outside the system's directories may need it for libpython"},
    {"HOME", "preloaded modules read their settings from there"},
    {"USER", "getpass.getuser() in preloaded modules"},
    {"LOGNAME", "likewise, asked first"},
    {"TMPDIR", "tempfile looks for its directory once, before the fork"},
    {"LANG", "encoding and language of messages"},
    {"LC_*", "likewise, by category"},
    {"TZ", "time.tzset() is done once, before the fork"},
    {"XDG_CACHE_HOME", "where preloaded modules keep caches (matplotlib's fonts)"},
    {"XDG_CONFIG_HOME", "where preloaded modules have settings"},
    {"MPLCONFIGDIR", "matplotlib's, where neither is given or may be written"},
};

static bool
is_allowed(const char *variable)
{
    const char *equals = strchr(variable, '=');
    if (equals == NULL)
        return false;
    size_t size = (size_t) (equals - variable);
    for (size_t i = 0; i < G_N_ELEMENTS(allowed); i++) {
        const char *name = allowed[i].name;
        size_t name_size = strlen(name);
        if (name[name_size - 1] == '*'
                ? size >= name_size && strncmp(variable, name, name_size - 1) == 0
                : size == name_size && strncmp(variable, name, size) == 0)
            return true;
    }
    return false;
}

char **
ipb_forkserver_env(void)
{
    GPtrArray *env = g_ptr_array_new();
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        if (is_allowed(*variable))
            g_ptr_array_add(env, g_strdup(*variable));
    g_ptr_array_add(env, NULL);
    return (char **) g_ptr_array_free(env, FALSE);
}
