/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers that need a handshake; see the header.
 */
#include "mcp/legacy-servers.h"

/* Servers that are remembered. When there are more, all are forgotten: a probe is cheap. */
#define MAX_SERVERS 1000

struct IpbLegacyServers {
    unsigned refs;
    GHashTable *legacy; /* set of keys */
};

IpbLegacyServers *
ipb_legacy_servers_new(void)
{
    IpbLegacyServers *legacy_servers = g_new0(IpbLegacyServers, 1);
    legacy_servers->refs = 1;
    legacy_servers->legacy = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return legacy_servers;
}

IpbLegacyServers *
ipb_legacy_servers_ref(IpbLegacyServers *legacy_servers)
{
    legacy_servers->refs++;
    return legacy_servers;
}

void
ipb_legacy_servers_unref(IpbLegacyServers *legacy_servers)
{
    if (legacy_servers == NULL || --legacy_servers->refs > 0)
        return;
    g_hash_table_unref(legacy_servers->legacy);
    g_free(legacy_servers);
}

/* With its NUL, so that "a", "bc" differs from "ab", "c". */
static void
add_text(GChecksum *sum, const char *text)
{
    const char *value = text != NULL ? text : "";
    g_checksum_update(sum, (const guchar *) value, (gssize) strlen(value) + 1);
}

static void
add_list(GChecksum *sum, char *const *list)
{
    for (; list != NULL && *list != NULL; list++)
        add_text(sum, *list);
    add_text(sum, NULL);
}

char *
ipb_legacy_servers_make_key(const IpbServerParams *params)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    add_text(sum, params->command);
    add_list(sum, params->args);
    add_list(sum, params->env);
    add_text(sum, params->cwd);
    add_text(sum, params->url);
    return g_strdup(g_checksum_get_string(sum));
}

bool
ipb_legacy_servers_has(const IpbLegacyServers *legacy_servers, const char *key)
{
    return legacy_servers != NULL && g_hash_table_contains(legacy_servers->legacy, key);
}

void
ipb_legacy_servers_set(IpbLegacyServers *legacy_servers, const char *key, bool is_legacy)
{
    if (legacy_servers == NULL)
        return;
    if (!is_legacy) {
        g_hash_table_remove(legacy_servers->legacy, key);
        return;
    }
    if (g_hash_table_size(legacy_servers->legacy) >= MAX_SERVERS)
        g_hash_table_remove_all(legacy_servers->legacy);
    g_hash_table_add(legacy_servers->legacy, g_strdup(key));
}
