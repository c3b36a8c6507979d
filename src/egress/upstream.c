/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxies of this machine's network; see the header. What is taken is what Python's and uv's clients take.
 */
#include "egress/upstream.h"

#include <string.h>

#include "egress/places.h"
#include "sandbox/address.h"

#define DEFAULT_PORT 80

struct IpbUpstream {
    IpbProxy *http, *https; /* NULL: none */
    char **exceptions;      /* of no_proxy */
    bool has_no_exceptions; /* the installer's own setting */
};

static void
free_proxy(IpbProxy *proxy)
{
    if (proxy == NULL)
        return;
    g_free(proxy->problem);
    g_free(proxy->authorization);
    g_free(proxy);
}

static char *
make_authorization(const char *user_info, size_t size)
{
    /* "user:password"; each may be percent-encoded */
    g_autofree char *text = g_strndup(user_info, size);
    g_autofree char *plain = g_uri_unescape_string(text, NULL);
    const char *used = plain != NULL ? plain : text;
    g_autofree char *both =
        strchr(text, ':') != NULL ? g_strdup(used) : g_strconcat(used, ":", NULL);
    g_autofree char *encoded = g_base64_encode((const unsigned char *) both, strlen(both));
    return g_strconcat("Basic ", encoded, NULL);
}

static IpbProxy *
parse_proxy(const char *variable, const char *value)
{
    IpbProxy *proxy = g_new0(IpbProxy, 1);
    proxy->variable = variable;
    const char *scheme_end = strstr(value, "://");
    const char *authority = scheme_end != NULL ? scheme_end + 3 : value;
    if (scheme_end != NULL && g_ascii_strncasecmp(value, "http://", 7) != 0) {
        proxy->problem = g_strdup(
            "it does not begin with http://, and an installation in a sandbox can use such "
            "proxies only");
        return proxy;
    }
    size_t size = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', size);
    if (at != NULL) {
        proxy->authorization = make_authorization(authority, (size_t) (at - authority));
        size -= (size_t) (at + 1 - authority);
        authority = at + 1;
    }
    if (!ipb_hostname_parse_authority(authority, size, &proxy->address.host, &proxy->address.port,
                                      NULL))
        proxy->problem =
            g_strdup("its value is not http://HOST:PORT or http://USER:PASSWORD@HOST:PORT");
    else if (proxy->address.port == 0)
        proxy->address.port = DEFAULT_PORT;
    return proxy;
}

/* Of the first variable that is set to something. */
static IpbProxy *
find_variable(const char *const *env, const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *value = g_environ_getenv((char **) env, *names);
        if (value != NULL && *value != '\0')
            return parse_proxy(*names, value);
    }
    return NULL;
}

static char **
find_exceptions(const char *const *env)
{
    const char *value = g_environ_getenv((char **) env, "no_proxy");
    if (value == NULL)
        value = g_environ_getenv((char **) env, "NO_PROXY");
    return g_strsplit_set(value != NULL ? value : "", ", ", -1);
}

IpbUpstream *
ipb_upstream_new(const char *const *env, const char *own, const char *own_name)
{
    static const char *const HTTP[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", NULL};
    static const char *const HTTPS[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                        NULL};
    IpbUpstream *upstream = g_new0(IpbUpstream, 1);
    upstream->exceptions = find_exceptions(env);
    upstream->has_no_exceptions = own != NULL;
    upstream->http = own != NULL ? parse_proxy(own_name, own) : find_variable(env, HTTP);
    upstream->https = own != NULL ? parse_proxy(own_name, own) : find_variable(env, HTTPS);
    return upstream;
}

void
ipb_upstream_free(IpbUpstream *upstream)
{
    if (upstream == NULL)
        return;
    free_proxy(upstream->http);
    free_proxy(upstream->https);
    g_strfreev(upstream->exceptions);
    g_free(upstream);
}

static bool
is_name_below(const char *name, const char *suffix)
{
    size_t length = strlen(name), suffix_length = strlen(suffix);
    return length >= suffix_length &&
           g_ascii_strcasecmp(name + length - suffix_length, suffix) == 0 &&
           (length == suffix_length || name[length - suffix_length - 1] == '.');
}

/* "*", "example.com" and ".example.com" (with all below it), "10.0.0.0/8", each with ":port" if it is for one. */
static bool
is_excepted(const char *exception, const IpbDestination *destination)
{
    IpbAddressRange range;
    IpbHost host;
    unsigned port = 0;
    if (g_str_equal(exception, "*"))
        return true;
    if (destination->host.kind != IPB_HOST_NAME && ipb_address_range_parse(exception, &range))
        return ipb_address_range_contains(&range, &destination->host);
    exception += g_str_has_prefix(exception, "*.") ? 2 : *exception == '.' ? 1 : 0;
    if (!ipb_hostname_parse_authority(exception, strlen(exception), &host, &port, NULL) ||
        (port != 0 && port != destination->port))
        return false;
    if (host.kind == IPB_HOST_NAME && destination->host.kind == IPB_HOST_NAME)
        return is_name_below(destination->host.text, host.text);
    return g_str_equal(host.text, destination->host.text);
}

/* Loopback, and other addresses that no name may lead to: only we ourselves can look what is there (egress/rules.h, egress/dial.h). */
static bool
is_here(const IpbHost *host)
{
    const char *name;
    if (host->kind != IPB_HOST_NAME)
        return ipb_place_of(host, &name) >= IPB_PLACE_LOOPBACK;
    return is_name_below(host->text, "localhost");
}

const IpbProxy *
ipb_upstream_find(const IpbUpstream *upstream, const IpbDestination *destination, bool is_http)
{
    const IpbProxy *proxy = is_http ? upstream->http : upstream->https;
    if (proxy == NULL || is_here(&destination->host))
        return NULL;
    if (upstream->has_no_exceptions)
        return proxy;
    for (char **exception = upstream->exceptions; *exception != NULL; exception++)
        if (**exception != '\0' && is_excepted(*exception, destination))
            return NULL;
    return proxy;
}
