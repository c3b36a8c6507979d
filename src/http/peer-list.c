/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses that may connect; see the header. All are kept as IPv6: IPv4 as ::ffff:a.b.c.d.
 */
#include "http/peer-list.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/error.h"

#define IPV4_BITS 32
#define IPV6_BITS 128

typedef struct {
    struct in6_addr address;
    unsigned n_bits;
} Network;

struct IpbPeerList {
    Network networks[IPB_PEER_LIST_MAX];
    size_t n;
};

static struct in6_addr
map_ipv4(struct in_addr address)
{
    struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(mapped.s6_addr + 12, &address, sizeof address);
    return mapped;
}

/* @text is changed. */
static bool
parse(char *text, Network *ret_network)
{
    struct in_addr ipv4;
    guint64 n_bits;
    char *slash = strchr(text, '/');
    if (slash != NULL)
        *slash = '\0';
    bool is_ipv4 = inet_pton(AF_INET, text, &ipv4) == 1;
    if (is_ipv4)
        ret_network->address = map_ipv4(ipv4);
    else if (inet_pton(AF_INET6, text, &ret_network->address) != 1)
        return false;
    unsigned max = is_ipv4 ? IPV4_BITS : IPV6_BITS;
    n_bits = max;
    if (slash != NULL && !g_ascii_string_to_unsigned(slash + 1, 10, 0, max, &n_bits, NULL))
        return false;
    ret_network->n_bits = IPV6_BITS - max + (unsigned) n_bits;
    return true;
}

static bool
get_bit(const struct in6_addr *address, unsigned index)
{
    return (address->s6_addr[index / 8] >> (7 - index % 8) & 1) != 0;
}

static bool
has_further_bits(const Network *network)
{
    for (unsigned i = network->n_bits; i < IPV6_BITS; i++)
        if (get_bit(&network->address, i))
            return true;
    return false;
}

IpbPeerList *
ipb_peer_list_new(const char *const *texts, GError **error)
{
    g_autoptr(IpbPeerList) list = g_new0(IpbPeerList, 1);
    for (; *texts != NULL; texts++) {
        g_autofree char *copy = g_strdup(*texts);
        if (list->n == IPB_PEER_LIST_MAX) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "there are more than %d addresses",
                        IPB_PEER_LIST_MAX);
            return NULL;
        }
        if (!parse(copy, &list->networks[list->n])) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "\"%s\" is no address and no network, such as 10.0.0.5 or 10.1.0.0/16",
                        *texts);
            return NULL;
        }
        if (has_further_bits(&list->networks[list->n++])) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "the network \"%s\" has bits after its prefix: is an address meant?",
                        *texts);
            return NULL;
        }
    }
    return g_steal_pointer(&list);
}

static bool
is_in(const struct in6_addr *address, const Network *network)
{
    for (unsigned i = 0; i < network->n_bits; i++)
        if (get_bit(address, i) != get_bit(&network->address, i))
            return false;
    return true;
}

bool
ipb_peer_list_contains(const IpbPeerList *list, const IpbSocketAddress *address)
{
    struct in6_addr wanted;
    if (address->any.sa_family == AF_INET)
        wanted = map_ipv4(address->in.sin_addr);
    else if (address->any.sa_family == AF_INET6)
        wanted = address->in6.sin6_addr;
    else
        return false;
    for (size_t i = 0; i < list->n; i++)
        if (is_in(&wanted, &list->networks[i]))
            return true;
    return false;
}

void
ipb_peer_list_free(IpbPeerList *list)
{
    g_free(list);
}
