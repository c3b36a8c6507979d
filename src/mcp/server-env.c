/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of a stdio server; see the header. A server is somebody else's program: it gets
 * what it needs to run and to find its caches, not the whole environment, which holds secrets meant
 * for others. Whatever else it needs stands in "env" of its parameters, with ${NAME} for a secret.
 */
#include "mcp/server-env.h"

#include <stdbool.h>
#include <string.h>

#include <glib.h>

#define FALLBACK_PATH "/usr/local/bin:/usr/bin:/bin"

static const struct {
    const char *name;
    const char *reason;
} INHERITED[] = {
    {"HOME", "configuration and caches: npx and uvx download anew without it"},
    {"LOGNAME", "who runs it"},
    {"USER", "who runs it"},
    {"PATH", "the command itself is looked up in it, and so are its helpers (node for npx)"},
    {"SHELL", "servers that start commands use it"},
    {"TERM", "libraries ask for it even when there is no terminal"},
    {"LANG", "without a locale, file names and output may not be UTF-8"},
    {"LC_ALL", "as LANG, and it overrides it"},
    {"LC_CTYPE", "as LANG, for characters alone"},
    {"TZ", "local times are the user's"},
    {"TMPDIR", "set where /tmp is small, shared or not executable"},
    {"XDG_CACHE_HOME", "as HOME: moved caches are found"},
    {"XDG_CONFIG_HOME", "as HOME: moved configuration is found"},
    {"XDG_DATA_HOME", "as HOME: uv keeps tools and Pythons there"},
    {"XDG_STATE_HOME", "as HOME: moved state is found"},
};
/* Left out with intent: XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS, SSH_AUTH_SOCK, DISPLAY (they lead
 * to the user's other programs, keys and secrets), the proxies' variables (they may hold a password),
 * PYTHONPATH, NODE_OPTIONS, LD_* (they are about ipybox's process, not about the server's). */

static const struct {
    const char *command;
    const char *hint;
} HINTS[] = {
    {"npx", "npx comes with Node.js: install Node.js (https://nodejs.org)"},
    {"node", "install Node.js (https://nodejs.org)"},
    {"npm", "npm comes with Node.js: install Node.js (https://nodejs.org)"},
    {"uvx", "uvx comes with uv: install uv (https://docs.astral.sh/uv)"},
    {"uv", "install uv (https://docs.astral.sh/uv)"},
    {"pipx", "install pipx (https://pipx.pypa.io)"},
    {"bunx", "bunx comes with Bun: install Bun (https://bun.sh)"},
    {"bun", "install Bun (https://bun.sh)"},
    {"deno", "install Deno (https://deno.com)"},
    {"docker", "install Docker (https://docs.docker.com/get-docker)"},
    {"podman", "install Podman (https://podman.io)"},
    {"python", "install Python, or write python3"},
    {"python3", "install Python"},
};

static bool
is_name(const char *variable, const char *name, size_t size)
{
    return strncmp(variable, name, size) == 0 && variable[size] == '=';
}

static bool
is_in(char *const *list, const char *name, size_t size)
{
    for (; list != NULL && *list != NULL; list++)
        if (is_name(*list, name, size))
            return true;
    return false;
}

static const char *
find(const char *const *env, const char *name)
{
    for (; env != NULL && *env != NULL; env++)
        if (is_name(*env, name, strlen(name)))
            return *env;
    return NULL;
}

char **
ipb_server_env_make(const char *const *base_env, char *const *own)
{
    g_autoptr(GStrvBuilder) list = g_strv_builder_new();
    for (size_t i = 0; i < G_N_ELEMENTS(INHERITED); i++) {
        const char *name = INHERITED[i].name;
        const char *variable = find(base_env, name);
        if (is_in(own, name, strlen(name)))
            continue;
        /* A value that begins "()" was once a function to a shell. */
        if (variable != NULL && !g_str_has_prefix(variable + strlen(name) + 1, "()"))
            g_strv_builder_add(list, variable);
        else if (strcmp(name, "PATH") == 0)
            g_strv_builder_add(list, "PATH=" FALLBACK_PATH);
    }
    for (; own != NULL && *own != NULL; own++)
        g_strv_builder_add(list, *own);
    return g_strv_builder_end(list);
}

char *
ipb_server_env_hint(const char *command)
{
    g_autofree char *base = g_path_get_basename(command);
    for (size_t i = 0; i < G_N_ELEMENTS(HINTS); i++)
        if (strcmp(base, HINTS[i].command) == 0)
            return g_strdup_printf(
                "%s, or give the command's whole path, or a PATH in \"env\" of server_params",
                HINTS[i].hint);
    if (strpbrk(command, " \t") != NULL)
        return g_strdup("\"command\" is one program; its arguments belong in \"args\"");
    return NULL;
}
