/* SPDX-License-Identifier: Apache-2.0
 *
 * Facets of a schema: following $ref and allOf.
 */
#include <string.h>

#include "apigen/schema-private.h"

/* Schemas that hold for one value; more are noted. */
#define MAX_FACETS 64
/* $refs that lead to $refs. */
#define MAX_HOPS 32

/* Keywords that say nothing about which values are valid. */
static const char *const ANNOTATIONS[] = {
    "$anchor",     "$comment",   "$defs",       "$id",     "$schema",  "default",
    "definitions", "deprecated", "description", "example", "examples", "id",
    "readOnly",    "title",      "writeOnly",   NULL,
};

/* The value of @keyword if it is all that @node says but for annotations. */
static const IpbJson *
get_alone(const IpbJson *node, const char *keyword)
{
    const IpbJson *value = ipb_json_get(node, keyword);
    if (value == NULL)
        return NULL;
    IPB_JSON_FOREACH (member, node) {
        const char *name = ipb_json_name(member, NULL);
        if (!g_str_equal(name, keyword) && !g_strv_contains(ANNOTATIONS, name))
            return NULL;
    }
    return value;
}

/* The only one of an allOf, anyOf or oneOf that is all there is. */
static const IpbJson *
get_only_part(const IpbJson *node)
{
    static const char *const KEYWORDS[] = {"allOf", "anyOf", "oneOf", NULL};
    for (const char *const *keyword = KEYWORDS; *keyword != NULL; keyword++) {
        const IpbJson *parts = get_alone(node, *keyword);
        if (ipb_json_is(parts, IPB_JSON_ARRAY) && ipb_json_length(parts) == 1)
            return ipb_json_first(parts);
    }
    return NULL;
}

const IpbJson *
ipb_schema_follow(IpbSchemaReader *reader, const IpbJson *node, IpbHint *hint, GString *notes)
{
    for (int hops = 0;; hops++) {
        const IpbJson *part = get_only_part(node), *ref = get_alone(node, "$ref");
        if (part == NULL && ref == NULL)
            return node;
        if (hops == MAX_HOPS || !ipb_schema_spend_work(reader, ipb_json_length(node), notes)) {
            ipb_schema_note(notes, "Recursive: not typed further.");
            return NULL;
        }
        if (part != NULL) {
            node = part;
            continue;
        }
        if ((node = ipb_schema_resolve(reader, ref, notes)) == NULL)
            return NULL;
        const char *name = ipb_schema_name_of_ref(reader, ref);
        hint->name = name != NULL ? name : hint->name;
        hint->is_definition = true;
    }
}

static void
collect_node(IpbSchemaReader *reader, const IpbJson *node, GPtrArray *facets, GString *notes)
{
    if (ipb_json_is(node, IPB_JSON_BOOL)) {
        if (!ipb_json_bool(node, true))
            ipb_schema_note(notes, "The schema allows no value here.");
        return;
    }
    if (!ipb_json_is(node, IPB_JSON_OBJECT)) {
        ipb_schema_note(notes, "The schema is not understood: it is no object.");
        return;
    }
    if (g_ptr_array_find(facets, node, NULL))
        return;
    if (facets->len == MAX_FACETS) {
        ipb_schema_note(notes, "The schema has more parts: not all are checked here.");
        return;
    }
    if (!ipb_schema_spend_work(reader, 1 + ipb_json_length(node), notes))
        return;
    g_ptr_array_add(facets, (void *) node);
    const IpbJson *ref = ipb_json_get(node, "$ref");
    const IpbJson *target = ref != NULL ? ipb_schema_resolve(reader, ref, notes) : NULL;
    if (target != NULL)
        collect_node(reader, target, facets, notes);
    IPB_JSON_FOREACH (part, ipb_json_get(node, "allOf"))
        collect_node(reader, part, facets, notes);
}

GPtrArray *
ipb_schema_collect(IpbSchemaReader *reader, GPtrArray *nodes, GString *notes)
{
    GPtrArray *facets = g_ptr_array_new();
    for (guint i = 0; i < nodes->len; i++)
        collect_node(reader, g_ptr_array_index(nodes, i), facets, notes);
    return facets;
}
