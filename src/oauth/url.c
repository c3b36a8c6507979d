/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict URLs and forms; see the header.
 */
#include "oauth/url.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/error.h"

#define MAX_HOST 253
#define MAX_FORM_MEMBERS 64

G_GNUC_PRINTF(3, 4)
static bool
refuse(GError **error, const char *what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "%s is not a usable URL: %s", what,
                text);
    return false;
}

static bool
is_name(const char *host)
{
    for (const char *c = host; *c != '\0'; c++)
        if (!g_ascii_isalnum(*c) && strchr("-._", *c) == NULL)
            return false;
    return *host != '\0' && *host != '.' && *host != '-' && strlen(host) <= MAX_HOST;
}

static bool
is_loopback(const char *host)
{
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) == 1)
        return (ntohl(address.s_addr) >> 24) == 127;
    return g_str_equal(host, "localhost") || g_str_equal(host, "[::1]");
}

/* Takes the host from the start of *@rest. NULL: it is malformed. */
static char *
take_host(const char **rest)
{
    if (**rest != '[') {
        size_t size = strcspn(*rest, ":/?");
        g_autofree char *host = g_ascii_strdown(*rest, (gssize) size);
        *rest += size;
        return is_name(host) ? g_steal_pointer(&host) : NULL;
    }
    struct in6_addr address;
    const char *end = strchr(*rest, ']');
    if (end == NULL)
        return NULL;
    g_autofree char *text = g_strndup(*rest + 1, (gsize) (end - *rest - 1));
    char normal[INET6_ADDRSTRLEN];
    if (inet_pton(AF_INET6, text, &address) != 1 ||
        inet_ntop(AF_INET6, &address, normal, sizeof normal) == NULL)
        return NULL;
    *rest = end + 1;
    return g_strdup_printf("[%s]", normal);
}

/* Takes ":port" from the start of *@rest, if it is there. *ret_port 0: it is not. */
static bool
take_port(const char **rest, unsigned *ret_port)
{
    unsigned port = 0;
    *ret_port = 0;
    if (**rest != ':')
        return true;
    size_t digits = strspn(++*rest, "0123456789");
    if (digits == 0 || digits > 5)
        return false;
    for (size_t i = 0; i < digits; i++)
        port = port * 10 + (unsigned) ((*rest)[i] - '0');
    *rest += digits;
    *ret_port = port;
    return port > 0 && port <= 65535;
}

static bool
check_characters(const char *text, const char *what, GError **error)
{
    size_t size = strnlen(text, IPB_OAUTH_MAX_URL + 1);
    if (size > IPB_OAUTH_MAX_URL)
        return refuse(error, what, "it has more than %d bytes", IPB_OAUTH_MAX_URL);
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || strchr("\"<>\\^`{|}", text[i]) != NULL)
            return refuse(error, what, "it contains a character that is not allowed in a URL");
    if (strchr(text, '#') != NULL)
        return refuse(error, what, "it has a fragment");
    return true;
}

static bool
parse_authority(const char **rest, IpbOAuthUrl *url, const char *what, GError **error)
{
    unsigned port;
    size_t size = strcspn(*rest, "/?");
    if (memchr(*rest, '@', size) != NULL)
        return refuse(error, what, "it contains a user name");
    g_autofree char *host = take_host(rest);
    if (host == NULL)
        return refuse(error, what, "it has no host, or a malformed one");
    if (!take_port(rest, &port) || strchr("/?", **rest) == NULL)
        return refuse(error, what, "its host is followed by something that is not a port");
    const char *scheme = url->is_https ? "https" : "http";
    if (port == 0 || port == (url->is_https ? 443 : 80))
        url->origin = g_strdup_printf("%s://%s", scheme, host);
    else
        url->origin = g_strdup_printf("%s://%s:%u", scheme, host, port);
    url->is_loopback = is_loopback(host);
    return true;
}

IpbOAuthUrl *
ipb_oauth_url_parse(const char *text, const char *what, GError **error)
{
    g_autoptr(IpbOAuthUrl) url = g_new0(IpbOAuthUrl, 1);
    if (!check_characters(text, what, error))
        return NULL;
    url->is_https = g_ascii_strncasecmp(text, "https://", 8) == 0;
    if (!url->is_https && g_ascii_strncasecmp(text, "http://", 7) != 0) {
        refuse(error, what, "it begins with neither https:// nor http://");
        return NULL;
    }
    const char *rest = text + (url->is_https ? 8 : 7);
    if (!parse_authority(&rest, url, what, error))
        return NULL;
    size_t path = strcspn(rest, "?");
    url->path = g_strndup(rest, path);
    url->query = rest[path] == '?' ? g_strdup(rest + path + 1) : NULL;
    return g_steal_pointer(&url);
}

void
ipb_oauth_url_free(IpbOAuthUrl *url)
{
    if (url == NULL)
        return;
    g_free(url->origin);
    g_free(url->path);
    g_free(url->query);
    g_free(url);
}

bool
ipb_oauth_url_is_safe(const IpbOAuthUrl *url, bool may_be_loopback)
{
    return url->is_https || (may_be_loopback && url->is_loopback);
}

bool
ipb_oauth_url_check(const char *text, const char *what, bool may_be_loopback, GError **error)
{
    g_autoptr(IpbOAuthUrl) url = ipb_oauth_url_parse(text, what, error);
    if (url == NULL)
        return false;
    if (ipb_oauth_url_is_safe(url, may_be_loopback))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                "%s (%s) is not https: no secrets are sent there", what, url->origin);
    return false;
}

char *
ipb_oauth_url_canonical(const IpbOAuthUrl *url)
{
    const char *path = g_str_equal(url->path, "/") && url->query == NULL ? "" : url->path;
    if (url->query == NULL)
        return g_strconcat(url->origin, path, NULL);
    return g_strconcat(url->origin, path, "?", url->query, NULL);
}

char *
ipb_oauth_url_well_known(const IpbOAuthUrl *url, const char *name)
{
    size_t size = strlen(url->path);
    if (size > 0 && url->path[size - 1] == '/')
        size--;
    return g_strdup_printf("%s/.well-known/%s%.*s", url->origin, name, (int) size, url->path);
}

void
ipb_oauth_form_add(GString *form, const char *name, const char *value)
{
    if (value == NULL)
        return;
    g_autofree char *escaped = g_uri_escape_string(value, NULL, false);
    g_string_append_printf(form, "%s%s=%s", form->len > 0 ? "&" : "", name, escaped);
}

/* NULL: a bad escape, a NUL, or not UTF-8. */
static char *
decode(const char *text, size_t size)
{
    g_autofree char *copy = g_strndup(text, size);
    g_strdelimit(copy, "+", ' ');
    g_autofree char *decoded = g_uri_unescape_string(copy, NULL);
    if (decoded == NULL || !g_utf8_validate(decoded, -1, NULL))
        return NULL;
    return g_steal_pointer(&decoded);
}

GHashTable *
ipb_oauth_form_parse(const char *text)
{
    g_autoptr(GHashTable) members = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    while (*text != '\0') {
        size_t size = strcspn(text, "&");
        size_t name_size = strcspn(text, "=&");
        char *name = decode(text, name_size);
        char *value =
            name_size < size ? decode(text + name_size + 1, size - name_size - 1) : g_strdup("");
        bool is_good = name != NULL && value != NULL && !g_hash_table_contains(members, name) &&
                       g_hash_table_size(members) < MAX_FORM_MEMBERS;
        if (!is_good) {
            g_free(name);
            g_free(value);
            return NULL;
        }
        g_hash_table_insert(members, name, value);
        text += size;
        text += *text == '&';
    }
    return g_steal_pointer(&members);
}
