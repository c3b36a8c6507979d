/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshakes of WebSockets; see the header.
 */
#include "http/handshake.h"

#include <string.h>

#define VERSION "13"

static bool
fail(IpbHttpHead *head, unsigned status, const char *reason)
{
    head->status = status;
    head->reason = reason;
    return false;
}

/* The server's answer to @key. */
static void
compute_accept(IpbSpan key, char ret_accept[IPB_HANDSHAKE_ACCEPT_SIZE])
{
    static const char MAGIC[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    uint8_t digest[20];
    gsize size = sizeof digest;
    g_autoptr(GChecksum) sha1 = g_checksum_new(G_CHECKSUM_SHA1);
    g_checksum_update(sha1, (const guchar *) key.start, (gssize) key.size);
    g_checksum_update(sha1, (const guchar *) MAGIC, sizeof MAGIC - 1);
    g_checksum_get_digest(sha1, digest, &size);
    g_autofree char *text = g_base64_encode(digest, size);
    g_strlcpy(ret_accept, text, IPB_HANDSHAKE_ACCEPT_SIZE);
}

/* Removes the next item of a comma-separated list, without the white space around it. */
static bool
take_item(IpbSpan *list, IpbSpan *ret_item)
{
    if (list->start == NULL)
        return false;
    const char *comma = memchr(list->start, ',', list->size);
    IpbSpan item = {list->start, comma != NULL ? (size_t) (comma - list->start) : list->size};
    if (comma != NULL)
        *list = (IpbSpan){comma + 1, list->size - item.size - 1};
    else
        *list = (IpbSpan){NULL, 0};
    while (item.size > 0 && (item.start[0] == ' ' || item.start[0] == '\t')) {
        item.start++;
        item.size--;
    }
    while (item.size > 0 && (item.start[item.size - 1] == ' ' || item.start[item.size - 1] == '\t'))
        item.size--;
    *ret_item = item;
    return true;
}

static bool
has_item(const IpbHttpHead *head, const char *name, const char *text)
{
    IpbSpan list, item;
    if (!ipb_http_head_get(head, name, &list))
        return false;
    while (take_item(&list, &item))
        if (ipb_span_equal_nocase(item, text))
            return true;
    return false;
}

static const char *
find_protocol(IpbSpan name, const char *const *protocols)
{
    for (; protocols != NULL && *protocols != NULL; protocols++)
        if (ipb_span_equal(name, *protocols))
            return *protocols;
    return NULL;
}

/* 16 bytes in base64: 22 of its characters and "==". */
static bool
is_key(IpbSpan text)
{
    if (text.size != IPB_HANDSHAKE_KEY_SIZE - 1 || memcmp(text.start + 22, "==", 2) != 0)
        return false;
    for (size_t i = 0; i < 22; i++)
        if (!g_ascii_isalnum(text.start[i]) && text.start[i] != '+' && text.start[i] != '/')
            return false;
    return true;
}

bool
ipb_handshake_check_request(IpbHttpHead *head, const char *const *protocols,
                            const char **ret_protocol, char ret_accept[IPB_HANDSHAKE_ACCEPT_SIZE])
{
    IpbSpan value, item;
    const char *protocol = NULL;
    if (head->is_http_1_0 || !has_item(head, "Upgrade", "websocket") ||
        !has_item(head, "Connection", "upgrade"))
        return fail(head, 426, "this is for WebSockets: the request is no WebSocket handshake");
    if (!ipb_http_head_get(head, "Sec-WebSocket-Version", &value) ||
        !ipb_span_equal(value, VERSION))
        return fail(head, 426, "the only version of WebSocket that is spoken here is 13");
    if (head->content_length > 0)
        return fail(head, 400, "a WebSocket handshake has no body");
    if (!ipb_http_head_get(head, "Sec-WebSocket-Key", &value) || !is_key(value))
        return fail(head, 400, "Sec-WebSocket-Key is not 16 bytes in base64");
    compute_accept(value, ret_accept);
    if (ipb_http_head_get(head, "Sec-WebSocket-Protocol", &value))
        while (protocol == NULL && take_item(&value, &item))
            protocol = find_protocol(item, protocols);
    *ret_protocol = protocol;
    return true;
}

bool
ipb_handshake_check_answer(IpbHttpHead *head, const char *key, const char *const *protocols,
                           const char **ret_protocol)
{
    char accept[IPB_HANDSHAKE_ACCEPT_SIZE];
    IpbSpan value;
    const char *protocol = NULL;
    if (head->status != 101)
        return fail(head, head->status, "it does not switch to WebSocket");
    if (!has_item(head, "Upgrade", "websocket") || !has_item(head, "Connection", "upgrade"))
        return fail(head, 101, "it switches to a protocol that is not WebSocket");
    compute_accept((IpbSpan){key, strlen(key)}, accept);
    if (!ipb_http_head_get(head, "Sec-WebSocket-Accept", &value) || !ipb_span_equal(value, accept))
        return fail(head, 101, "its Sec-WebSocket-Accept is no answer to our key");
    if (ipb_http_head_get(head, "Sec-WebSocket-Extensions", &value))
        return fail(head, 101, "it chose an extension that was not offered");
    if (ipb_http_head_get(head, "Sec-WebSocket-Protocol", &value) &&
        (protocol = find_protocol(value, protocols)) == NULL)
        return fail(head, 101, "it chose a subprotocol that was not offered");
    *ret_protocol = protocol;
    return true;
}
