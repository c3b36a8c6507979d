/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of a stdio server; see the header. A server is another party's program. It gets
 * what it needs to run and to find its caches, but not the whole environment, which holds secrets
 * for other programs. Anything else that it needs must be listed in "env" of its parameters, with
 * ${NAME} for a secret.
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
    {"HOME", "configuration and caches: npx and uvx download again without it"},
    {"LOGNAME", "the user that runs it"},
    {"USER", "the user that runs it"},
    {"PATH", "the command is looked up in it, and so are its helpers (node for npx)"},
    {"SHELL", "servers that start commands use it"},
    {"TERM", "libraries ask for it even when there is no terminal"},
    {"LANG", "without a locale, file names and output may not be UTF-8"},
    {"LC_ALL", "as LANG, and it overrides it"},
    {"LC_CTYPE", "as LANG, for characters alone"},
    {"TZ", "local times are the user's"},
    {"TMPDIR", "set where /tmp is small, shared or not executable"},
    {"XDG_CACHE_HOME", "as HOME: the user may have moved caches"},
    {"XDG_CONFIG_HOME", "as HOME: the user may have moved configuration"},
    {"XDG_DATA_HOME", "as HOME: uv keeps tools and Pythons there"},
    {"XDG_STATE_HOME", "as HOME: the user may have moved state"},
};
/* Left out on purpose: XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS, SSH_AUTH_SOCK and DISPLAY,
 * because they lead to the user's other programs, keys and secrets; the variables of proxies,
 * because they may hold a password; PYTHONPATH, NODE_OPTIONS and LD_*, because they concern the
 * process of ipybox. */

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
        /* Old shells took a value that begins with "()" for a function. */
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
