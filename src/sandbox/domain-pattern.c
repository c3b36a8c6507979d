/* SPDX-License-Identifier: Apache-2.0
 *
 * Both sides of a comparison come from the one parser of host names (hostname.h), so comparing is
 * comparing bytes.
 */
#include "sandbox/domain-pattern.h"

#include <string.h>

#include <glib.h>

static const char TOO_BROAD[] =
    "too broad: a wildcard matches names below a domain with a dot, as in \"*.example.com\"";

void
ipb_domain_pattern_free(IpbDomainPattern *pattern)
{
    g_free(pattern->text);
    g_free(pattern->host);
    g_free(pattern->reason);
    g_free(pattern);
}

/* Splits ":port" off a pattern that begins with "*"; a host-name parser would refuse the star. */
static bool
split_port(const char *text, size_t *size, unsigned *ret_port, const char **ret_reason)
{
    const char *colon = memchr(text, ':', *size);
    *ret_port = 0;
    if (colon == NULL)
        return true;
    size_t host_size = (size_t) (colon - text);
    if (!ipb_hostname_parse_port(colon + 1, *size - host_size - 1, ret_port)) {
        *ret_reason = "the text after \":\" is not a port (1 to 65535)";
        return false;
    }
    *size = host_size;
    return true;
}

static bool
parse_wildcard(IpbDomainPattern *pattern, const char *text, size_t size, bool may_be_all,
               const char **ret_reason)
{
    if (!split_port(text, &size, &pattern->port, ret_reason))
        return false;
    if (size == 1 && may_be_all)
        return true;
    *ret_reason = TOO_BROAD;
    if (size < 2 || text[1] != '.')
        return false;
    IpbHost host;
    if (!ipb_hostname_parse(text + 2, size - 2, &host, ret_reason))
        return false;
    *ret_reason = TOO_BROAD;
    if (host.kind != IPB_HOST_NAME || strchr(host.text, '.') == NULL || text[size - 1] == '.')
        return false;
    pattern->is_wildcard = true;
    pattern->host = g_strdup(host.text);
    return true;
}

static bool
parse_exact(IpbDomainPattern *pattern, const char *text, size_t size, const char **ret_reason)
{
    IpbHost host;
    if (!ipb_hostname_parse_authority(text, size, &host, &pattern->port, ret_reason))
        return false;
    bool is_name = host.kind == IPB_HOST_NAME;
    if (is_name && strchr(host.text, '.') == NULL && strcmp(host.text, "localhost") != 0) {
        *ret_reason = "a domain contains a dot (\"localhost\" is the exception)";
        return false;
    }
    if (memmem(text, size, ".:", 2) != NULL || text[size - 1] == '.') {
        *ret_reason = "remove the dot at the end";
        return false;
    }
    pattern->is_address = !is_name;
    pattern->host = g_strdup(host.text);
    return true;
}

IpbDomainPattern *
ipb_domain_pattern_parse(const char *text, size_t size, bool may_be_all, const char **ret_reason)
{
    IpbDomainPattern *pattern = g_new0(IpbDomainPattern, 1);
    bool is_fine = size > 0 && text[0] == '*'
                       ? parse_wildcard(pattern, text, size, may_be_all, ret_reason)
                       : parse_exact(pattern, text, size, ret_reason);
    if (!is_fine) {
        ipb_domain_pattern_free(pattern);
        return NULL;
    }
    pattern->text = g_strndup(text, size);
    return pattern;
}

/* Is @name below @parent, and not @parent itself? */
static bool
is_below(const char *name, const char *parent)
{
    size_t size = strlen(name), parent_size = strlen(parent);
    return size > parent_size + 1 && name[size - parent_size - 1] == '.' &&
           strcmp(name + size - parent_size, parent) == 0;
}

bool
ipb_domain_pattern_matches(const IpbDomainPattern *pattern, const IpbHost *host)
{
    if (pattern->host == NULL)
        return true;
    if (pattern->is_wildcard)
        return host->kind == IPB_HOST_NAME && is_below(host->text, pattern->host);
    return strcmp(host->text, pattern->host) == 0;
}
