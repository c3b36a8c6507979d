/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of messages; see the header.
 */
#include "serve/zmq/signature.h"

#include <string.h>

#include <glib.h>

#define MAX_REMEMBERED 65536

struct IpbZmqSigner {
    char *key;
    GHashTable *accepted; /* a set of signatures, which `order` owns */
    GQueue order;         /* the oldest first */
};

IpbZmqSigner *
ipb_zmq_signer_new(const char *key)
{
    IpbZmqSigner *signer = g_new0(IpbZmqSigner, 1);
    signer->key = g_strdup(key);
    signer->accepted = g_hash_table_new(g_str_hash, g_str_equal);
    g_queue_init(&signer->order);
    return signer;
}

void
ipb_zmq_signer_free(IpbZmqSigner *signer)
{
    if (signer == NULL)
        return;
    g_hash_table_unref(signer->accepted);
    g_queue_clear_full(&signer->order, g_free);
    g_free(signer->key);
    g_free(signer);
}

void
ipb_zmq_signer_sign(const IpbZmqSigner *signer, const IpbSpan parts[static IPB_ZMQ_N_SIGNED],
                    char ret_signature[static IPB_ZMQ_SIGNATURE_SIZE])
{
    GHmac *hmac = g_hmac_new(G_CHECKSUM_SHA256, (const guchar *) signer->key, strlen(signer->key));
    for (size_t i = 0; i < IPB_ZMQ_N_SIGNED; i++)
        g_hmac_update(hmac, (const guchar *) parts[i].start, (gssize) parts[i].size);
    g_strlcpy(ret_signature, g_hmac_get_string(hmac), IPB_ZMQ_SIGNATURE_SIZE);
    g_hmac_unref(hmac);
}

/* In the same time wherever they differ. */
static bool
is_same(IpbSpan given, const char *expected)
{
    unsigned char difference = 0;
    if (given.size != IPB_ZMQ_SIGNATURE_SIZE - 1)
        return false;
    for (size_t i = 0; i < given.size; i++)
        difference |= (unsigned char) (given.start[i] ^ expected[i]);
    return difference == 0;
}

bool
ipb_zmq_signer_accept(IpbZmqSigner *signer, IpbSpan signature,
                      const IpbSpan parts[static IPB_ZMQ_N_SIGNED])
{
    char expected[IPB_ZMQ_SIGNATURE_SIZE];
    ipb_zmq_signer_sign(signer, parts, expected);
    if (!is_same(signature, expected) || g_hash_table_contains(signer->accepted, expected))
        return false;
    char *kept = g_strdup(expected);
    g_queue_push_tail(&signer->order, kept);
    g_hash_table_add(signer->accepted, kept);
    if (g_queue_get_length(&signer->order) > MAX_REMEMBERED) {
        g_autofree char *oldest = g_queue_pop_head(&signer->order);
        g_hash_table_remove(signer->accepted, oldest);
    }
    return true;
}
