/* SPDX-License-Identifier: Apache-2.0
 *
 * $ref: to a place, an anchor or an $id in the same document. Nothing is ever fetched.
 */
#include <string.h>

#include "apigen/identifier.h"
#include "apigen/schema-private.h"

/* Smaller objects are searched. */
#define MIN_INDEXED 32
/* Values that are looked at for an $id, and subschemas with one. */
#define MAX_SEARCHED 400000
#define MAX_RESOURCES 1000

/* One reference token of a JSON Pointer in a URI fragment: %XX, ~1 and ~0 decoded. */
static char *
decode_token(const char *token, size_t size)
{
    g_autofree char *text = g_strndup(token, size);
    g_autofree char *plain = g_uri_unescape_string(text, NULL);
    GString *out = g_string_new(NULL);
    for (const char *p = plain != NULL ? plain : text; *p != '\0'; p++) {
        if (p[0] == '~' && (p[1] == '0' || p[1] == '1'))
            g_string_append_c(out, *++p == '0' ? '~' : '/');
        else
            g_string_append_c(out, *p);
    }
    return g_string_free(out, FALSE);
}

/* A member of a big object, by an index that is made once: definitions are looked up all the time. */
static const IpbJson *
get_indexed(IpbSchemaReader *reader, const IpbJson *object, const char *name)
{
    GHashTable *index = g_hash_table_lookup(reader->indexes, object);
    if (index == NULL) {
        index = g_hash_table_new(g_str_hash, g_str_equal);
        IPB_JSON_FOREACH (member, object) {
            size_t size;
            const char *text = ipb_json_name(member, &size);
            if (strlen(text) == size)
                g_hash_table_insert(index, (void *) text, (void *) member);
        }
        g_hash_table_insert(reader->indexes, (void *) object, index);
    }
    return g_hash_table_lookup(index, name);
}

static const IpbJson *
get_child(IpbSchemaReader *reader, const IpbJson *node, const char *token)
{
    if (ipb_json_is(node, IPB_JSON_OBJECT))
        return ipb_json_length(node) < MIN_INDEXED ? ipb_json_get(node, token)
                                                   : get_indexed(reader, node, token);
    if (!ipb_json_is(node, IPB_JSON_ARRAY) || token[0] == '\0' ||
        token[strspn(token, "0123456789")] != '\0')
        return NULL;
    guint64 index = g_ascii_strtoull(token, NULL, 10);
    IPB_JSON_FOREACH (item, node)
        if (index-- == 0)
            return item;
    return NULL;
}

static const IpbJson *
resolve_pointer(IpbSchemaReader *reader, const IpbJson *node, const char *pointer)
{
    while (node != NULL && *pointer == '/') {
        size_t size = strcspn(++pointer, "/");
        g_autofree char *token = decode_token(pointer, size);
        node = get_child(reader, node, token);
        pointer += size;
    }
    return node;
}

static bool
is_document(const IpbJson *node)
{
    const char *id = ipb_json_is(node, IPB_JSON_OBJECT) ? ipb_json_get_string(node, "$id") : NULL;
    return id != NULL && id[0] != '#';
}

/* The subschema of @node's document with "$anchor": @name, or with the id "#name" of older drafts. */
static const IpbJson *
find_anchor(IpbSchemaReader *reader, const IpbJson *node, const char *name, GString *notes)
{
    if (ipb_json_is(node, IPB_JSON_OBJECT)) {
        const char *anchor = ipb_json_get_string(node, "$anchor");
        const char *id = ipb_json_get_string(node, "$id");
        id = id != NULL ? id : ipb_json_get_string(node, "id");
        if (g_strcmp0(anchor, name) == 0 ||
            (id != NULL && id[0] == '#' && g_str_equal(id + 1, name)))
            return node;
    }
    if (!ipb_json_is(node, IPB_JSON_OBJECT) && !ipb_json_is(node, IPB_JSON_ARRAY))
        return NULL;
    if (!ipb_schema_spend_work(reader, 1, notes))
        return NULL;
    IPB_JSON_FOREACH (item, node) {
        /* The same name may be another's in a document inside this one. */
        const IpbJson *found = is_document(item) ? NULL : find_anchor(reader, item, name, notes);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* --- documents in the document ---------------------------------------------------------------- */

/* Adds each subschema below @node with an $id of its own. */
static void
find_resources(IpbSchemaReader *reader, const IpbJson *node, size_t *n_seen)
{
    if ((*n_seen)++ > MAX_SEARCHED || reader->resources->len == MAX_RESOURCES)
        return;
    if (is_document(node) && node != reader->root)
        g_ptr_array_add(reader->resources, (void *) node);
    if (ipb_json_is(node, IPB_JSON_OBJECT) || ipb_json_is(node, IPB_JSON_ARRAY))
        IPB_JSON_FOREACH (item, node)
            find_resources(reader, item, n_seen);
}

static const GPtrArray *
get_resources(IpbSchemaReader *reader)
{
    if (reader->resources == NULL) {
        size_t n_seen = 0;
        reader->resources = g_ptr_array_new();
        IpbSpan raw = ipb_json_raw(reader->root);
        const char *end = raw.start + raw.size;
        const char *first = memmem(raw.start, raw.size, "\"$id\"", 5);
        if (first != NULL && memmem(first + 5, (size_t) (end - first) - 5, "\"$id\"", 5) != NULL)
            find_resources(reader, reader->root, &n_seen);
        else if (first != NULL && ipb_json_get(reader->root, "$id") == NULL)
            find_resources(reader, reader->root, &n_seen);
    }
    return reader->resources;
}

/* What "#" means for @ref: the innermost document around it. */
static const IpbJson *
get_document(IpbSchemaReader *reader, const IpbJson *ref)
{
    const GPtrArray *resources = get_resources(reader);
    const IpbJson *found = reader->root;
    IpbSpan inner = ipb_json_raw(ref);
    for (guint i = 0; i < resources->len; i++) { /* outer ones come first */
        IpbSpan outer = ipb_json_raw(g_ptr_array_index(resources, i));
        if (inner.start >= outer.start && inner.start < outer.start + outer.size)
            found = g_ptr_array_index(resources, i);
    }
    return found;
}

/* Does the $id name what the first @size bytes of a $ref name? Equal, or one of both is relative. */
static bool
is_named(const IpbJson *node, const char *ref, size_t size)
{
    const char *id = ipb_json_get_string(node, "$id");
    size_t id_size = id != NULL ? strcspn(id, "#") : 0;
    if (id_size == 0)
        return false;
    size_t common = MIN(size, id_size);
    if (memcmp(ref + size - common, id + id_size - common, common) != 0)
        return false;
    if (size == id_size)
        return true;
    /* https://example.org/item.json and item.json */
    const char *longer = size > id_size ? ref + size : id + id_size;
    return common > 0 && longer[-(ptrdiff_t) common - 1] == '/' &&
           memchr(size > id_size ? id : ref, ':', common) == NULL;
}

static const IpbJson *
find_document(IpbSchemaReader *reader, const IpbJson *ref, const char *text, size_t size)
{
    if (size == 0)
        return get_document(reader, ref);
    if (is_named(reader->root, text, size))
        return reader->root;
    const GPtrArray *resources = get_resources(reader);
    for (guint i = 0; i < resources->len; i++)
        if (is_named(g_ptr_array_index(resources, i), text, size))
            return g_ptr_array_index(resources, i);
    return NULL;
}

/* --- references ---------------------------------------------------------------------------------- */

static const IpbJson *
find_target(IpbSchemaReader *reader, const IpbJson *ref, const char *text, GString *notes)
{
    size_t size = strcspn(text, "#");
    const char *fragment = text + size;
    const IpbJson *document = find_document(reader, ref, text, size);
    if (document == NULL || fragment[0] == '\0' || fragment[1] == '\0')
        return document;
    return fragment[1] == '/' ? resolve_pointer(reader, document, fragment + 1)
                              : find_anchor(reader, document, fragment + 1, notes);
}

const IpbJson *
ipb_schema_resolve(IpbSchemaReader *reader, const IpbJson *ref, GString *notes)
{
    size_t size;
    const char *text = ipb_json_string(ref, &size);
    bool is_text = text != NULL && strlen(text) == size;
    /* With documents in the document, what a text means depends on where it stands. */
    bool is_remembered = is_text && get_resources(reader)->len == 0;
    const IpbJson *target = is_remembered ? g_hash_table_lookup(reader->refs, text) : NULL;
    if (target != NULL)
        return target;
    if (is_text)
        target = find_target(reader, ref, text, notes);
    if (target == NULL)
        ipb_schema_note_value(notes, "Not resolved: $ref", ref);
    else if (is_remembered)
        g_hash_table_insert(reader->refs, (void *) text, (void *) target);
    return target;
}

const char *
ipb_schema_name_of_ref(IpbSchemaReader *reader, const IpbJson *ref)
{
    const char *text = ipb_json_string(ref, NULL);
    const char *slash = text != NULL ? strrchr(text, '/') : NULL;
    if (slash == NULL)
        return NULL;
    g_autofree char *token = decode_token(slash + 1, strlen(slash + 1));
    g_autofree char *name = ipb_identifier_make_class((IpbText){token, strlen(token)});
    return name[0] != '\0' ? g_string_chunk_insert(reader->module->strings, name) : NULL;
}
