/* SPDX-License-Identifier: Apache-2.0
 *
 * Types as annotations; see the header.
 */
#include "apigen/annotation.h"

#include <string.h>

#include "apigen/literal.h"
#include "apigen/wtf8.h"

/* Fields of a class that are tried as discriminators. */
#define MAX_TAGS 20
/* Values of an enum, and bytes of them, that an argument's type shows. */
#define MAX_VALUES 20
#define MAX_VALUES_SIZE 300

static void
append_bound(GString *out, const char *name, const char *value)
{
    if (value != NULL)
        g_string_append_printf(out, "%s%s=%s", out->len > 0 ? ", " : "", name, value);
}

static void
append_length(GString *out, const char *name, int64_t value)
{
    if (value >= 0)
        g_string_append_printf(out, "%s%s=%" G_GINT64_FORMAT, out->len > 0 ? ", " : "", name,
                               value);
}

/* The type of the required field @name, if it allows only certain strings, so that it can be a
 * discriminator. NULL: there is no such field. */
static const IpbType *
get_tag(const IpbClass *class, const char *name)
{
    for (guint i = 0; i < class->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        if (!g_str_equal(field->name, name))
            continue;
        bool is_own_name = strlen(name) == field->wire_name.size &&
                           memcmp(name, field->wire_name.start, field->wire_name.size) == 0;
        if (!field->is_required || !is_own_name || field->type->kind != IPB_TYPE_LITERAL)
            return NULL;
        for (guint k = 0; k < field->type->members->len; k++)
            if (!ipb_json_is(g_ptr_array_index(field->type->members, k), IPB_JSON_STRING))
                return NULL;
        return field->type;
    }
    return NULL;
}

/* Whether all classes of the union have that field, each with other values. */
static bool
discriminates(const IpbType *type, guint n_classes, const char *name)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < n_classes; i++) {
        const IpbType *member = g_ptr_array_index(type->members, i);
        const IpbType *tag = get_tag(member->class, name);
        for (guint k = 0; tag != NULL && k < tag->members->len; k++) {
            GString *value = g_string_new(NULL);
            ipb_literal_append_string(value,
                                      ipb_wtf8_from_json(g_ptr_array_index(tag->members, k)));
            if (!g_hash_table_add(seen, g_string_free(value, FALSE)))
                return false;
        }
        if (tag == NULL)
            return false;
    }
    return true;
}

/* The name of the field that discriminates between a union's classes; NULL: none does. */
static const char *
find_discriminator(const IpbType *type)
{
    if (type->kind != IPB_TYPE_UNION)
        return NULL;
    guint n_classes = type->members->len - (ipb_type_has_none(type) ? 1 : 0);
    for (guint i = 0; i < n_classes; i++)
        if (((const IpbType *) g_ptr_array_index(type->members, i))->kind != IPB_TYPE_CLASS)
            return NULL;
    if (n_classes < 2)
        return NULL;
    const IpbClass *first = ((const IpbType *) g_ptr_array_index(type->members, 0))->class;
    for (guint i = 0; i < first->fields->len && i < MAX_TAGS; i++) {
        const IpbField *field = g_ptr_array_index(first->fields, i);
        if (discriminates(type, n_classes, field->name))
            return field->name;
    }
    return NULL;
}

void
ipb_annotation_append_bounds(GString *out, const IpbType *type)
{
    g_autoptr(GString) text = g_string_new(NULL);
    append_bound(text, "ge", type->bounds.ge);
    append_bound(text, "gt", type->bounds.gt);
    append_bound(text, "le", type->bounds.le);
    append_bound(text, "lt", type->bounds.lt);
    append_bound(text, "multiple_of", type->bounds.multiple_of);
    append_length(text, "min_length", type->bounds.min_length);
    append_length(text, "max_length", type->bounds.max_length);
    append_bound(text, "pattern", type->bounds.pattern);
    const char *discriminator = find_discriminator(type);
    if (discriminator != NULL)
        g_string_append_printf(text, "discriminator=\"%s\"", discriminator);
    g_string_append_len(out, text->str, (gssize) text->len);
}

static void
append_literal_type(GString *out, const IpbType *type)
{
    g_string_append(out, "Literal[");
    for (guint i = 0; i < type->members->len; i++) {
        const IpbJson *value = g_ptr_array_index(type->members, i);
        int64_t integer;
        g_string_append(out, i > 0 ? ", " : "");
        if (ipb_json_int64(value, &integer)) /* Literal[1.0] is not a type */
            g_string_append_printf(out, "%" G_GINT64_FORMAT, integer);
        else
            ipb_literal_append_scalar(out, value);
    }
    g_string_append_c(out, ']');
}

static void
append_members(GString *out, const IpbType *type, const char *before, const char *between,
               const char *after)
{
    g_string_append(out, before);
    for (guint i = 0; i < type->members->len; i++) {
        g_string_append(out, i > 0 ? between : "");
        ipb_annotation_append(out, g_ptr_array_index(type->members, i), true);
    }
    g_string_append(out, after);
}

static void
append_bare(GString *out, const IpbType *type)
{
    switch (type->kind) {
    case IPB_TYPE_ANY:
        g_string_append(out, "Any");
        break;
    case IPB_TYPE_NONE:
        g_string_append(out, "None");
        break;
    case IPB_TYPE_BOOL:
        g_string_append(out, "bool");
        break;
    case IPB_TYPE_INT:
        g_string_append(out, "int");
        break;
    case IPB_TYPE_NUMBER:
        g_string_append(out, "int | float");
        break;
    case IPB_TYPE_STR:
        g_string_append(out, "str");
        break;
    case IPB_TYPE_LITERAL:
        append_literal_type(out, type);
        break;
    case IPB_TYPE_LIST:
        g_string_append(out, "list[");
        ipb_annotation_append(out, type->item, true);
        g_string_append_c(out, ']');
        break;
    case IPB_TYPE_TUPLE:
        append_members(out, type, "tuple[", ", ", "]");
        break;
    case IPB_TYPE_DICT:
        g_string_append(out, "dict[");
        if (type->key != NULL)
            ipb_annotation_append(out, type->key, true);
        g_string_append(out, type->key != NULL ? ", " : "str, ");
        ipb_annotation_append(out, type->item, true);
        g_string_append_c(out, ']');
        break;
    case IPB_TYPE_UNION:
        append_members(out, type, "", " | ", "");
        break;
    case IPB_TYPE_CLASS:
        g_string_append(out, type->class->name);
        break;
    case IPB_TYPE_ENUM:
        g_string_append(out, type->enumeration->name);
        break;
    case IPB_TYPE_LATER:
        ipb_annotation_append(out, type->item, true);
        break;
    }
}

void
ipb_annotation_append(GString *out, const IpbType *type, bool with_bounds)
{
    g_autoptr(GString) bounds = g_string_new(NULL);
    if (with_bounds)
        ipb_annotation_append_bounds(bounds, type);
    g_string_append(out, bounds->len > 0 ? "Annotated[" : "");
    append_bare(out, type);
    if (bounds->len > 0)
        g_string_append_printf(out, ", Field(%s)]", bounds->str);
}

static void
append_carrier(GString *out, const IpbType *type)
{
    switch (type->kind) {
    case IPB_TYPE_STR:
        g_string_append(out, "ToolText");
        break;
    case IPB_TYPE_INT:
        g_string_append(out, "ToolInt");
        break;
    case IPB_TYPE_NUMBER:
        g_string_append(out, "ToolInt | ToolFloat");
        break;
    case IPB_TYPE_LIST:
    case IPB_TYPE_DICT:
        g_string_append(out, type->kind == IPB_TYPE_LIST ? "ToolList[" : "ToolDict[");
        ipb_annotation_append(out, type->item, true);
        g_string_append_c(out, ']');
        break;
    case IPB_TYPE_UNION:
        for (guint i = 0; i < type->members->len; i++) {
            g_string_append(out, i > 0 ? " | " : "");
            ipb_annotation_append_result(out, g_ptr_array_index(type->members, i));
        }
        break;
    case IPB_TYPE_ANY:
    case IPB_TYPE_NONE:
    case IPB_TYPE_BOOL:
    case IPB_TYPE_LITERAL:
    case IPB_TYPE_TUPLE:
    case IPB_TYPE_CLASS:
    case IPB_TYPE_ENUM:
    case IPB_TYPE_LATER:
        append_bare(out, type);
        break;
    }
}

void
ipb_annotation_append_result(GString *out, const IpbType *type)
{
    g_autoptr(GString) bounds = g_string_new(NULL);
    ipb_annotation_append_bounds(bounds, type);
    g_string_append(out, bounds->len > 0 ? "Annotated[" : "");
    append_carrier(out, type);
    if (bounds->len > 0)
        g_string_append_printf(out, ", Field(%s)]", bounds->str);
}

/* Appends " | Literal["a", "b"]", or " | str" if there are many values. */
static void
append_values(GString *out, const IpbEnum *enumeration)
{
    g_autoptr(GString) values = g_string_new(NULL);
    for (guint i = 0; i < enumeration->members->len && values->len <= MAX_VALUES_SIZE; i++) {
        const IpbEnumMember *member = &g_array_index(enumeration->members, IpbEnumMember, i);
        g_string_append(values, i > 0 ? ", " : "");
        ipb_literal_append_string(values, ipb_wtf8_from_json(member->value));
    }
    if (enumeration->members->len > MAX_VALUES || values->len > MAX_VALUES_SIZE)
        g_string_append(out, " | str");
    else
        g_string_append_printf(out, " | Literal[%s]", values->str);
}

static void append_plain(GString *out, const IpbType *type);

static bool
has_part(const GPtrArray *parts, const char *part)
{
    return g_ptr_array_find_with_equal_func((GPtrArray *) parts, part, g_str_equal, NULL);
}

/* Writes each alternative once. Some differ only by their bounds, and for type checkers every int
 * is a float. */
static void
append_plain_union(GString *out, const IpbType *type,
                   void (*append_part)(GString *out, const IpbType *type))
{
    g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < type->members->len; i++) {
        g_autoptr(GString) part = g_string_new(NULL);
        append_part(part, g_ptr_array_index(type->members, i));
        if (!has_part(parts, part->str))
            g_ptr_array_add(parts, g_strdup(part->str));
    }
    bool has_float = has_part(parts, "float"), is_first = true;
    for (guint i = 0; i < parts->len; i++) {
        const char *part = g_ptr_array_index(parts, i);
        if (has_float && g_str_equal(part, "int"))
            continue;
        g_string_append_printf(out, "%s%s", is_first ? "" : " | ", part);
        is_first = false;
    }
}

static void
append_plain(GString *out, const IpbType *type)
{
    if (type->kind == IPB_TYPE_LATER) {
        append_plain(out, type->item);
    } else if (type->kind == IPB_TYPE_NUMBER) {
        g_string_append(out, "float");
    } else if (type->kind == IPB_TYPE_LIST || type->kind == IPB_TYPE_DICT) {
        g_string_append(out, type->kind == IPB_TYPE_LIST ? "list[" : "dict[str, ");
        append_plain(out, type->item);
        g_string_append_c(out, ']');
    } else if (type->kind == IPB_TYPE_TUPLE) {
        g_string_append(out, "tuple[");
        for (guint i = 0; i < type->members->len; i++) {
            g_string_append(out, i > 0 ? ", " : "");
            append_plain(out, g_ptr_array_index(type->members, i));
        }
        g_string_append_c(out, ']');
    } else if (type->kind == IPB_TYPE_UNION) {
        append_plain_union(out, type, append_plain);
    } else {
        append_bare(out, type);
    }
}

void
ipb_annotation_append_argument(GString *out, const IpbType *type)
{
    if (type->kind == IPB_TYPE_LATER) {
        ipb_annotation_append_argument(out, type->item);
    } else if (type->kind == IPB_TYPE_UNION) {
        append_plain_union(out, type, ipb_annotation_append_argument);
    } else {
        append_plain(out, type);
        if (type->kind == IPB_TYPE_ENUM)
            append_values(out, type->enumeration);
    }
}
