/* SPDX-License-Identifier: Apache-2.0
 *
 * The installer's part of the application's environment; see the header.
 */
#include "session/install-env.h"

#include <string.h>

/* Inherited by name in a sandbox, beside PIP_… and UV_…. */
static const char *const INHERITED[] = {"HOME",
                                        "PATH",
                                        "LANG",
                                        "LC_ALL",
                                        "SSL_CERT_FILE",
                                        "SSL_CERT_DIR",
                                        "CURL_CA_BUNDLE",
                                        "VIRTUAL_ENV",
                                        "LD_LIBRARY_PATH",
                                        "REQUESTS_CA_BUNDLE",
                                        "NETRC",
                                        NULL};

/* Not inherited: a sandbox has its own proxies. */
static const char *const PROXIES[] = {"PIP_PROXY", "UV_HTTP_PROXY", "UV_HTTPS_PROXY", "UV_NO_PROXY",
                                      NULL};

/* The values of these are paths, or contain paths. */
static const char *const PATHS[] = {
    "SSL_CERT_FILE",   "SSL_CERT_DIR",    "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT",
    "PIP_CLIENT_CERT", "PIP_CONFIG_FILE", "PIP_FIND_LINKS", "UV_CONFIG_FILE",     "UV_FIND_LINKS"};

/* Without these an installer may not find the index that the user means, */
static const char *const WAYS[] = {"http_proxy",         "HTTP_PROXY",    "https_proxy",
                                   "HTTPS_PROXY",        "all_proxy",     "ALL_PROXY",
                                   "PIP_PROXY",          "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL",
                                   "PIP_FIND_LINKS",     "PIP_NO_INDEX",  "PIP_CONFIG_FILE",
                                   "UV_DEFAULT_INDEX",   "UV_INDEX",      "UV_INDEX_URL",
                                   "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE"};
/* or not trust it. */
static const char *const TRUST[] = {"PIP_CERT",      "PIP_CLIENT_CERT", "PIP_TRUSTED_HOST",
                                    "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_INSECURE_HOST"};

/* How pip and uv describe connection errors. */
static const char *const NETWORK_ERRORS[] = {"connection broken by",
                                             "Failed to establish a new connection",
                                             "error sending request", "dns error"};
static const char *const CERTIFICATE_ERRORS[] = {
    "CERTIFICATE_VERIFY_FAILED", "certificate verify failed", "invalid peer certificate"};

static const char *
get(const char *const *env, const char *name)
{
    const char *value = g_environ_getenv((char **) env, name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static char **
add(char **result, const char *const *entries, bool is_replacing)
{
    for (; entries != NULL && *entries != NULL; entries++) {
        const char *equals = strchr(*entries, '=');
        if (equals == NULL)
            continue;
        g_autofree char *name = g_strndup(*entries, (gsize) (equals - *entries));
        bool is_meant = g_str_has_prefix(name, "PIP_") || g_str_has_prefix(name, "UV_") ||
                        g_strv_contains(INHERITED, name);
        /* Nothing is published here. */
        is_meant = is_meant && !g_str_has_prefix(name, "UV_PUBLISH_");
        if (is_meant && !g_strv_contains(PROXIES, name))
            result = g_environ_setenv(result, name, equals + 1, is_replacing);
    }
    return result;
}

char **
ipb_install_env_make(const char *const *env, const char *const *settings, const char *proxy)
{
    char **result = add(add(g_new0(char *, 1), env, true), settings, false);
    return proxy != NULL ? g_environ_setenv(result, "PIP_PROXY", proxy, TRUE) : result;
}

char **
ipb_install_env_paths(const char *const *env)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    for (size_t i = 0; i < G_N_ELEMENTS(PATHS); i++) {
        const char *value = get(env, PATHS[i]);
        g_auto(GStrv) words = g_strsplit_set(value != NULL ? value : "", " ,", -1);
        for (char **word = words; *word != NULL; word++)
            if (g_path_is_absolute(*word) && g_file_test(*word, G_FILE_TEST_EXISTS))
                g_strv_builder_add(builder, *word);
    }
    return g_strv_builder_end(builder);
}

static void
append_names(GString *names, const char *const *env, const char *const *settings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (get(env, settings[i]) != NULL)
            g_string_append_printf(names, "%s%s", names->len > 0 ? ", " : "", settings[i]);
}

char *
ipb_install_env_names(const char *const *env)
{
    g_autoptr(GString) names = g_string_new(NULL);
    append_names(names, env, WAYS, G_N_ELEMENTS(WAYS));
    append_names(names, env, TRUST, G_N_ELEMENTS(TRUST));
    return names->len > 0 ? g_string_free(g_steal_pointer(&names), FALSE) : NULL;
}

static bool
says_any(const char *output, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(output, texts[i]) != NULL)
            return true;
    return false;
}

#define WHERE                                                                                      \
    "where ipybox is started (the \"env\" of an MCP host's configuration) or in .env of the "      \
    "workspace"

char *
ipb_install_env_advise(const char *const *env, const char *output)
{
    if (says_any(output, CERTIFICATE_ERRORS, G_N_ELEMENTS(CERTIFICATE_ERRORS)))
        return g_strdup("The certificate of the package index is not trusted. If an authority of "
                        "your own has signed it, set "
                        "SSL_CERT_FILE and PIP_CERT to the file of that authority, " WHERE ".");
    if (!says_any(output, NETWORK_ERRORS, G_N_ELEMENTS(NETWORK_ERRORS)))
        return NULL;
    g_autoptr(GString) names = g_string_new(NULL);
    append_names(names, env, WAYS, G_N_ELEMENTS(WAYS));
    if (names->len == 0)
        return g_strdup("The package index cannot be reached, and ipybox's environment names "
                        "neither a proxy nor an index. If this "
                        "machine needs them, set https_proxy or PIP_INDEX_URL " WHERE ".");
    return g_strdup_printf("The package index cannot be reached. ipybox's environment sets %s: "
                           "check that it is right. To change it, set "
                           "it " WHERE ".",
                           names->str);
}
