/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of package indexes; see the header.
 */
#include "session/package-index.h"

#include <stdbool.h>
#include <string.h>

#define MAX_HOSTS 64
#define PYPI "pypi.org"

struct IpbPackageIndex {
    GPtrArray *hosts; /* char * */
    char **list;      /* the same, made when it is needed */
    bool is_replaced; /* PyPI is not used */
    char **settings;  /* of pip's files, as variables */
};

/* The variables that configure where packages come from. Those marked replace PyPI. */
static const struct {
    const char *name;
    bool is_replacing;
} VARIABLES[] = {
    {"PIP_INDEX_URL", true},       {"PIP_EXTRA_INDEX_URL", false}, {"PIP_FIND_LINKS", false},
    {"UV_INDEX_URL", true},        {"UV_DEFAULT_INDEX", true},     {"UV_INDEX", false},
    {"UV_EXTRA_INDEX_URL", false}, {"UV_FIND_LINKS", false},
};

static bool
has_host(const IpbPackageIndex *index, const char *host)
{
    for (guint i = 0; i < index->hosts->len; i++)
        if (g_ascii_strcasecmp(g_ptr_array_index(index->hosts, i), host) == 0)
            return true;
    return false;
}

static void
add_host(IpbPackageIndex *index, const char *host)
{
    if (!has_host(index, host) && index->hosts->len < MAX_HOSTS)
        g_ptr_array_add(index->hosts, g_strdup(host));
}

/* Adds the hosts of all URLs in @text, whatever is around them. */
static void
add_hosts(IpbPackageIndex *index, const char *text)
{
    for (const char *url; (url = strstr(text, "://")) != NULL; text = url + 3) {
        const char *start = url;
        while (start > text && (g_ascii_isalnum(start[-1]) || start[-1] == '+'))
            start--;
        g_autofree char *whole =
            g_strndup(start, (size_t) (url - start) + strcspn(url, "'\" \t\\,;"));
        char *plus = strchr(whole, '+'); /* git+https */
        g_autoptr(GUri) uri =
            g_uri_parse(plus != NULL && plus < whole + (url - start) ? plus + 1 : whole,
                        G_URI_FLAGS_NONE, NULL);
        if (uri != NULL && g_uri_get_host(uri) != NULL && *g_uri_get_host(uri) != '\0')
            add_host(index, g_uri_get_host(uri));
    }
}

IpbPackageIndex *
ipb_package_index_new(const char *const *env)
{
    IpbPackageIndex *index = g_new0(IpbPackageIndex, 1);
    index->hosts = g_ptr_array_new_with_free_func(g_free);
    index->settings = g_new0(char *, 1);
    for (size_t i = 0; i < G_N_ELEMENTS(VARIABLES); i++) {
        const char *value = g_environ_getenv((char **) env, VARIABLES[i].name);
        if (value == NULL || *value == '\0')
            continue;
        index->is_replaced |= VARIABLES[i].is_replacing;
        add_hosts(index, value);
    }
    return index;
}

/* Makes "https://a https://b" of "'https://a\\nhttps://b'", which is how Python writes a list. */
static char *
unquote(const char *text)
{
    size_t size = strlen(text);
    bool is_quoted = size >= 2 && (*text == '\'' || *text == '"') && text[size - 1] == *text;
    g_autofree char *inner = is_quoted ? g_strndup(text + 1, size - 2) : g_strdup(text);
    g_auto(GStrv) lines = g_strsplit(inner, "\\n", -1);
    g_autofree char *joined = g_strjoinv(" ", lines);
    return g_strdup(g_strstrip(joined));
}

/* Settings of the command `install` take precedence over global ones. */
static void
take_setting(IpbPackageIndex *index, const char *key, const char *value)
{
    static const char *const NAMES[] = {"index-url",   "extra-index-url", "find-links",
                                        "no-index",    "proxy",           "cert",
                                        "client-cert", "trusted-host",    NULL};
    bool is_of_install = g_str_has_prefix(key, "install.");
    const char *dot = strchr(key, '.');
    if (dot == NULL || (!is_of_install && !g_str_has_prefix(key, "global.")) ||
        !g_strv_contains(NAMES, dot + 1))
        return;
    g_autofree char *upper = g_ascii_strup(dot + 1, -1);
    g_autofree char *name = g_strconcat("PIP_", g_strdelimit(upper, "-", '_'), NULL);
    g_autofree char *plain = unquote(value);
    index->settings = g_environ_setenv(index->settings, name, plain, is_of_install);
}

void
ipb_package_index_take_line(IpbPackageIndex *index, const char *line)
{
    const char *equals = strchr(line, '=');
    if (equals == NULL)
        return;
    g_autofree char *key = g_strndup(line, (size_t) (equals - line));
    take_setting(index, key, equals + 1);
    bool is_index = g_str_has_suffix(key, ".index-url");
    if (!is_index && !g_str_has_suffix(key, ".extra-index-url") &&
        !g_str_has_suffix(key, ".find-links"))
        return;
    index->is_replaced |= is_index;
    add_hosts(index, equals + 1);
}

const char *const *
ipb_package_index_settings(const IpbPackageIndex *index)
{
    return (const char *const *) index->settings;
}

void
ipb_package_index_take_package(IpbPackageIndex *index, const char *package)
{
    add_hosts(index, package);
}

const char *const *
ipb_package_index_hosts(IpbPackageIndex *index)
{
    if (!index->is_replaced)
        add_host(index, PYPI);
    if (has_host(index, PYPI))
        add_host(index, "files.pythonhosted.org"); /* where its files are */
    g_strfreev(index->list);
    GStrvBuilder *builder = g_strv_builder_new();
    for (guint i = 0; i < index->hosts->len; i++)
        g_strv_builder_add(builder, g_ptr_array_index(index->hosts, i));
    index->list = g_strv_builder_end(builder);
    g_strv_builder_unref(builder);
    return (const char *const *) index->list;
}

char *
ipb_package_index_describe(IpbPackageIndex *index)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < index->hosts->len; i++)
        g_string_append_printf(text, "%s%s", i > 0 ? ", " : "",
                               (char *) g_ptr_array_index(index->hosts, i));
    if (!index->is_replaced)
        g_string_append_printf(text, "%sPyPI, or the index in pip's configuration files",
                               index->hosts->len > 0 ? ", " : "");
    return g_string_free(g_steal_pointer(&text), FALSE);
}

void
ipb_package_index_free(IpbPackageIndex *index)
{
    if (index == NULL)
        return;
    g_ptr_array_unref(index->hosts);
    g_strfreev(index->list);
    g_strfreev(index->settings);
    g_free(index);
}
