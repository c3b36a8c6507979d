/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers that want a handshake; see the header.
 */
#include "mcp/eras.h"

/* Servers that are remembered; when there are more, all are forgotten: a probe is cheap. */
#define MAX_ERAS 1000

struct IpbMcpEras {
    unsigned refs;
    GHashTable *legacy; /* set of keys */
};

IpbMcpEras *
ipb_mcp_eras_new(void)
{
    IpbMcpEras *eras = g_new0(IpbMcpEras, 1);
    eras->refs = 1;
    eras->legacy = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return eras;
}

IpbMcpEras *
ipb_mcp_eras_ref(IpbMcpEras *eras)
{
    eras->refs++;
    return eras;
}

void
ipb_mcp_eras_unref(IpbMcpEras *eras)
{
    if (eras == NULL || --eras->refs > 0)
        return;
    g_hash_table_unref(eras->legacy);
    g_free(eras);
}

/* With the NUL behind it, so that "a", "bc" is not "ab", "c". */
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
ipb_mcp_eras_make_key(const IpbServerParams *params)
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
ipb_mcp_eras_is_legacy(const IpbMcpEras *eras, const char *key)
{
    return eras != NULL && g_hash_table_contains(eras->legacy, key);
}

void
ipb_mcp_eras_set_legacy(IpbMcpEras *eras, const char *key, bool is_legacy)
{
    if (eras == NULL)
        return;
    if (!is_legacy) {
        g_hash_table_remove(eras->legacy, key);
        return;
    }
    if (g_hash_table_size(eras->legacy) >= MAX_ERAS)
        g_hash_table_remove_all(eras->legacy);
    g_hash_table_add(eras->legacy, g_strdup(key));
}
