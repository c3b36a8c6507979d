/* SPDX-License-Identifier: Apache-2.0
 *
 * Host names: an accepted name is canonical, parses to itself, and holds no byte that another
 * program could read in another way.
 */
#include <string.h>

#include <glib.h>

#include "sandbox/address.h"
#include "sandbox/hostname.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_host(const IpbHost *host)
{
    size_t size = strlen(host->text);
    g_assert(size > 0 && size <= IPB_HOST_MAX);
    bool is_ipv6 = host->kind == IPB_HOST_IPV6;
    const char *allowed =
        is_ipv6 ? "0123456789abcdef:." : "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    g_assert(strspn(host->text, allowed) == size);
    g_assert(is_ipv6 || (host->text[0] != '.' && host->text[size - 1] != '.'));
    g_assert(strstr(host->text, "..") == NULL);
    IpbHost again;
    g_assert(ipb_hostname_parse(host->text, size, &again, NULL));
    g_assert(again.kind == host->kind && strcmp(again.text, host->text) == 0);
    g_assert(memcmp(again.address, host->address, sizeof again.address) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *) data;
    IpbHost host;
    const char *reason = NULL;
    bool ok = ipb_hostname_parse(text, size, &host, &reason);
    g_assert(ok == (reason == NULL));
    if (ok)
        check_host(&host);
    unsigned port;
    reason = NULL;
    ok = ipb_hostname_parse_authority(text, size, &host, &port, &reason);
    g_assert(ok == (reason == NULL));
    if (ok) {
        check_host(&host);
        g_assert(port <= 65535);
    }
    g_autofree char *copy = g_strndup(text, size);
    IpbAddressRange range;
    if (ipb_address_range_parse(copy, &range)) {
        IpbHost first;
        g_assert(range.kind != IPB_HOST_NAME);
        g_assert(range.prefix <= (range.kind == IPB_HOST_IPV4 ? 32 : 128));
        ipb_hostname_from_address(range.address, range.kind == IPB_HOST_IPV4 ? 4 : 16, &first);
        g_assert(ipb_address_range_contains(&range, &first));
    }
    return 0;
}
