/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolving $ref; see the header.
 */
#include "apigen/schema-document.h"

#include <string.h>

#include "apigen/identifier.h"
#include "apigen/schema-keywords.h"
#include "apigen/wtf8.h"

/* Members of schemas that are looked at for one document. */
#define MAX_VISITED 400000
/* Objects with fewer members are searched without an index. */
#define MIN_INDEXED 32
/* Objects and arrays that are searched for an $id, and subschemas that have one. */
#define MAX_SEARCHED 400000
#define MAX_RESOURCES 1000

/* A schema with an $id. "#" and relative references in it refer to it. */
typedef struct {
    const IpbJson *node;
    char *uri; /* absolute, unless the $id is not a URI */
} Resource;

bool
ipb_schema_document_visit(IpbSchemaDocument *document, size_t n, GString *notes)
{
    document->n_visited += MIN(n, (size_t) MAX_VISITED + 1);
    if (document->n_visited <= MAX_VISITED)
        return true;
    ipb_schema_note(notes, "The schema is too large: not typed further.");
    return false;
}

/* Decodes one token of a JSON Pointer in a URI fragment: %XX, ~1 and ~0. */
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

/* A member of a large object, by an index that is made once: definitions are looked up often. */
static const IpbJson *
get_indexed(IpbSchemaDocument *document, const IpbJson *object, const char *name)
{
    GHashTable *index = g_hash_table_lookup(document->indexes, object);
    if (index == NULL) {
        index = g_hash_table_new(g_str_hash, g_str_equal);
        IPB_JSON_FOREACH (member, object) {
            size_t size;
            const char *text = ipb_json_name(member, &size);
            if (strlen(text) == size)
                g_hash_table_insert(index, (void *) text, (void *) member);
        }
        g_hash_table_insert(document->indexes, (void *) object, index);
    }
    return g_hash_table_lookup(index, name);
}

static const IpbJson *
get_child(IpbSchemaDocument *document, const IpbJson *node, const char *token)
{
    if (ipb_json_is(node, IPB_JSON_OBJECT))
        return ipb_json_length(node) < MIN_INDEXED ? ipb_json_get(node, token)
                                                   : get_indexed(document, node, token);
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
resolve_pointer(IpbSchemaDocument *document, const IpbJson *node, const char *pointer)
{
    while (node != NULL && *pointer == '/') {
        size_t size = strcspn(++pointer, "/");
        g_autofree char *token = decode_token(pointer, size);
        node = get_child(document, node, token);
        pointer += size;
    }
    return node;
}

/* --- walking through a schema ----------------------------------------------------------------- */

/* Keywords whose value maps names to schemas. */
static const char *const MAPS[] = {
    "$defs",      "definitions",       "dependencies", "dependentSchemas",
    "properties", "patternProperties", NULL,
};

/* Keywords whose value may look like a schema but is not. */
static const char *const VALUES[] = {"const", "default", "enum", "example", "examples", NULL};

/* An object or array in a schema. In a map, names of members are not keywords. */
typedef struct {
    const IpbJson *node;
    bool is_map;
} Place;

/* The place of @item in @place. Its node is NULL if @item holds no schemas. */
static Place
enter(Place place, const IpbJson *item)
{
    const char *name = ipb_json_name(item, NULL);
    bool is_keyword = name != NULL && !place.is_map;
    bool is_inner = ipb_json_is(item, IPB_JSON_OBJECT) || ipb_json_is(item, IPB_JSON_ARRAY);
    if (!is_inner || (is_keyword && g_strv_contains(VALUES, name)))
        return (Place){0};
    return (Place){item, is_keyword && g_strv_contains(MAPS, name)};
}

static const char *
get_keyword(Place place, const char *keyword)
{
    bool is_schema = ipb_json_is(place.node, IPB_JSON_OBJECT) && !place.is_map;
    return is_schema ? ipb_json_get_string(place.node, keyword) : NULL;
}

static bool
is_document(Place place)
{
    const char *id = get_keyword(place, "$id");
    return id != NULL && id[0] != '#';
}

static bool
has_anchor(Place place, const char *name)
{
    const char *id = get_keyword(place, "$id");
    id = id != NULL ? id : get_keyword(place, "id");
    return g_strcmp0(get_keyword(place, "$anchor"), name) == 0 ||
           g_strcmp0(get_keyword(place, "$dynamicAnchor"), name) == 0 ||
           (id != NULL && id[0] == '#' && g_str_equal(id + 1, name));
}

/* Finds the subschema with "$anchor": @name, or with the id "#name" of older drafts, in the
 * document that @place belongs to. */
static const IpbJson *
find_anchor(IpbSchemaDocument *document, Place place, const char *name, GString *notes)
{
    if (has_anchor(place, name))
        return place.node;
    if (!ipb_schema_document_visit(document, 1, notes))
        return NULL;
    IPB_JSON_FOREACH (item, place.node) {
        Place inner = enter(place, item);
        /* A document inside this one may have the same anchor. */
        const IpbJson *found = inner.node == NULL || is_document(inner)
                                   ? NULL
                                   : find_anchor(document, inner, name, notes);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* --- documents in the document ---------------------------------------------------------------- */

/* The base URI of a schema without $id: relative references need one. */
#define NOWHERE "tool:///"

/* @reference without its fragment, which begins after @size bytes, as an absolute URI. */
static char *
resolve_uri(const char *base, const char *reference, size_t size)
{
    g_autofree char *relative = g_strndup(reference, size);
    char *uri = g_uri_resolve_relative(base, relative, G_URI_FLAGS_ENCODED, NULL);
    return uri != NULL ? uri : g_steal_pointer(&relative);
}

static void
free_resource(void *data)
{
    Resource *resource = data;
    g_free(resource->uri);
    g_free(resource);
}

static const char *
add_resource(IpbSchemaDocument *document, const IpbJson *node, const char *base)
{
    const char *id = ipb_json_get_string(node, "$id");
    Resource *resource = g_new0(Resource, 1);
    resource->node = node;
    resource->uri = id != NULL ? resolve_uri(base, id, strcspn(id, "#")) : g_strdup(base);
    g_ptr_array_add(document->resources, resource);
    return resource->uri;
}

/* Adds each subschema in @place with an $id of its own. */
static void
find_resources(IpbSchemaDocument *document, Place place, const char *base, size_t *n_seen)
{
    IPB_JSON_FOREACH (item, place.node) {
        Place inner = enter(place, item);
        if (inner.node == NULL)
            continue;
        if ((*n_seen)++ > MAX_SEARCHED || document->resources->len == MAX_RESOURCES)
            return;
        bool is_inner = is_document(inner);
        find_resources(document, inner, is_inner ? add_resource(document, item, base) : base,
                       n_seen);
    }
}

/* All resources of the document; the root comes first. */
static const GPtrArray *
get_resources(IpbSchemaDocument *document)
{
    if (document->resources != NULL)
        return document->resources;
    document->resources = g_ptr_array_new_with_free_func(free_resource);
    const char *base = add_resource(document, document->root, NOWHERE);
    size_t n_seen = 0;
    IpbSpan raw = ipb_json_raw(document->root);
    if (memmem(raw.start, raw.size, "\"$id\"", 5) != NULL)
        find_resources(document, (Place){.node = document->root}, base, &n_seen);
    return document->resources;
}

/* The innermost resource around @ref, which "#" and relative references refer to. */
static const Resource *
get_document(IpbSchemaDocument *document, const IpbJson *ref)
{
    const GPtrArray *resources = get_resources(document);
    const Resource *found = g_ptr_array_index(resources, 0);
    IpbSpan inner = ipb_json_raw(ref);
    for (guint i = 1; i < resources->len; i++) { /* outer resources come first */
        const Resource *resource = g_ptr_array_index(resources, i);
        IpbSpan outer = ipb_json_raw(resource->node);
        if (inner.start >= outer.start && inner.start < outer.start + outer.size)
            found = resource;
    }
    return found;
}

/* The resource that the first @size bytes of @text name, from the place of @ref. */
static const IpbJson *
find_document(IpbSchemaDocument *document, const IpbJson *ref, const char *text, size_t size)
{
    const Resource *here = get_document(document, ref);
    if (size == 0)
        return here->node;
    g_autofree char *uri = resolve_uri(here->uri, text, size);
    const GPtrArray *resources = get_resources(document);
    for (guint i = 0; i < resources->len; i++) {
        const Resource *resource = g_ptr_array_index(resources, i);
        if (g_str_equal(resource->uri, uri))
            return resource->node;
    }
    return NULL;
}

/* --- references ------------------------------------------------------------------------------- */

static const IpbJson *
find_target(IpbSchemaDocument *document, const IpbJson *ref, const char *text, GString *notes)
{
    size_t size = strcspn(text, "#");
    const char *fragment = text + size;
    const IpbJson *resource = find_document(document, ref, text, size);
    if (resource == NULL || fragment[0] == '\0' || fragment[1] == '\0')
        return resource;
    return fragment[1] == '/'
               ? resolve_pointer(document, resource, fragment + 1)
               : find_anchor(document, (Place){.node = resource}, fragment + 1, notes);
}

/* --- the interface ---------------------------------------------------------------------------- */

void
ipb_schema_document_init(IpbSchemaDocument *document, const IpbJson *root)
{
    *document = (IpbSchemaDocument){
        .root = root,
        .targets = g_hash_table_new(g_str_hash, g_str_equal),
        .indexes = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify) g_hash_table_unref),
    };
}

void
ipb_schema_document_clear(IpbSchemaDocument *document)
{
    g_hash_table_unref(document->targets);
    g_clear_pointer(&document->resources, g_ptr_array_unref);
    g_hash_table_unref(document->indexes);
}

const IpbJson *
ipb_schema_document_resolve(IpbSchemaDocument *document, const IpbJson *ref, GString *notes)
{
    size_t size;
    const char *text = ipb_json_string(ref, &size);
    bool is_text = text != NULL && strlen(text) == size;
    /* If there are several resources, the meaning of a $ref depends on its place. */
    bool is_remembered = is_text && get_resources(document)->len == 1;
    const IpbJson *target = is_remembered ? g_hash_table_lookup(document->targets, text) : NULL;
    if (target != NULL)
        return target;
    if (is_text)
        target = find_target(document, ref, text, notes);
    if (target == NULL)
        ipb_schema_note_value(notes, "Not resolved: $ref", ref);
    else if (is_remembered)
        g_hash_table_insert(document->targets, (void *) text, (void *) target);
    return target;
}

char *
ipb_schema_document_name_of_ref(const IpbJson *ref)
{
    const char *text = ipb_json_string(ref, NULL);
    const char *slash = text != NULL ? strrchr(text, '/') : NULL;
    if (slash == NULL)
        return NULL;
    g_autofree char *token = decode_token(slash + 1, strlen(slash + 1));
    g_autofree char *name = ipb_identifier_make_class(ipb_wtf8_from(token));
    return name[0] != '\0' ? g_steal_pointer(&name) : NULL;
}
