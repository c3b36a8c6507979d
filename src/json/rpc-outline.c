/* SPDX-License-Identifier: Apache-2.0
 *
 * The outline of a message; see the header. The message may be invalid JSON. Then the outline may
 * be wrong, which does no harm, because the message is refused anyway.
 */
#include "json/rpc-outline.h"

#include <string.h>

#include "json/json.h"

static bool
has_key(const IpbRpcOutline *outline, const char *name)
{
    return outline->key_size == strlen(name) && memcmp(outline->key, name, outline->key_size) == 0;
}

static void
keep(char *buffer, size_t capacity, size_t *size, char c)
{
    if (*size < capacity)
        buffer[*size] = c;
    *size += *size <= capacity; /* capacity + 1 means: too long */
}

/* Keeps a byte of the name or the value of one of the message's own members. */
static void
keep_byte(IpbRpcOutline *outline, char c)
{
    if (outline->depth != 1)
        return;
    if (!outline->is_value)
        keep(outline->key, sizeof outline->key, &outline->key_size, c);
    else if (has_key(outline, "id"))
        keep(outline->id, sizeof outline->id, &outline->id_size, c);
}

static void
begin_value(IpbRpcOutline *outline)
{
    outline->is_value = true;
    outline->has_method |= has_key(outline, "method");
    outline->has_answer |= has_key(outline, "result") || has_key(outline, "error");
}

static void
begin_member(IpbRpcOutline *outline)
{
    outline->is_value = false;
    outline->key_size = 0;
}

static void
add_in_string(IpbRpcOutline *outline, char c)
{
    bool is_end = c == '"' && !outline->is_escaped;
    outline->is_escaped = c == '\\' && !outline->is_escaped;
    outline->in_string = !is_end;
    if (!is_end || outline->is_value)
        keep_byte(outline, c);
}

static void
add_outside(IpbRpcOutline *outline, char c)
{
    switch (c) {
    case '"':
        outline->in_string = true;
        if (outline->is_value)
            keep_byte(outline, c);
        break;
    case '{':
    case '[':
        outline->is_object |= outline->depth == 0 && c == '{';
        outline->depth++;
        break;
    case '}':
    case ']':
        outline->depth -= outline->depth > 0;
        break;
    case ':':
        if (outline->depth == 1)
            begin_value(outline);
        break;
    case ',':
        if (outline->depth == 1)
            begin_member(outline);
        break;
    case ' ':
    case '\t':
    case '\r':
        break;
    default:
        keep_byte(outline, c);
        break;
    }
}

void
ipb_rpc_outline_add(IpbRpcOutline *outline, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (outline->in_string)
            add_in_string(outline, bytes[i]);
        else
            add_outside(outline, bytes[i]);
    }
}

char *
ipb_rpc_outline_id(const IpbRpcOutline *outline)
{
    if (!outline->is_object || outline->id_size == 0 || outline->id_size > sizeof outline->id)
        return NULL;
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(outline->id, outline->id_size, &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *root = doc != NULL ? ipb_json_root(doc) : NULL;
    bool is_id = ipb_json_is(root, IPB_JSON_NUMBER) || ipb_json_is(root, IPB_JSON_STRING);
    return is_id ? g_strndup(outline->id, outline->id_size) : NULL;
}
