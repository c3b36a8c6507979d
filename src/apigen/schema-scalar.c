/* SPDX-License-Identifier: Apache-2.0
 *
 * Types that hold no others: numbers and strings with their bounds.
 */
#include <string.h>

#include "apigen/pattern.h"
#include "apigen/schema-private.h"
#include "apigen/text.h"

/* Integers of more digits are bounds for nobody. */
#define MAX_BOUND_SIZE 100

const IpbType *
ipb_schema_simple(IpbSchemaReader *reader, IpbTypeKind kind)
{
    return ipb_module_add_type(reader->module, kind);
}

static const char *
keep(IpbSchemaReader *reader, const char *text)
{
    return g_string_chunk_insert(reader->module->strings, text);
}

/* A bound of a number as Python text; NULL if it cannot be one. */
static const char *
make_bound(IpbSchemaReader *reader, const IpbJson *value, bool is_integer)
{
    g_autoptr(GString) text = g_string_new(NULL);
    const char *number = ipb_json_number(value);
    int64_t integer;
    if (number != NULL && ipb_json_int64(value, &integer))
        g_string_printf(text, "%" G_GINT64_FORMAT, integer);
    else if (number != NULL && strlen(number) <= MAX_BOUND_SIZE &&
             (!is_integer || strpbrk(number, ".eE") == NULL))
        ipb_text_append_number(text, number);
    return text->len > 0 ? keep(reader, text->str) : NULL;
}

/* The bound that a facet states: by a number, or before draft 6 by true beside the other keyword. */
static const IpbJson *
get_bound(const IpbJson *facet, const char *keyword, const char *exclusive, bool is_exclusive)
{
    const IpbJson *flag = ipb_json_get(facet, exclusive);
    bool is_other = ipb_json_bool(flag, false);
    if (is_exclusive && !is_other)
        return ipb_json_is(flag, IPB_JSON_BOOL) ? NULL : flag;
    return is_exclusive == is_other ? ipb_json_get(facet, keyword) : NULL;
}

/* The tightest of the facets' bounds, for all of them hold. */
static const char *
read_bound(IpbSchemaReader *reader, const GPtrArray *facets, bool is_maximum, bool is_exclusive,
           bool is_integer, GString *notes)
{
    const char *keyword = is_maximum ? "maximum" : "minimum";
    const char *exclusive = is_maximum ? "exclusiveMaximum" : "exclusiveMinimum";
    const char *tightest = NULL;
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *value =
            get_bound(g_ptr_array_index(facets, i), keyword, exclusive, is_exclusive);
        const char *bound = value != NULL ? make_bound(reader, value, is_integer) : NULL;
        if (value != NULL && bound == NULL)
            ipb_schema_note_value(notes, is_exclusive ? exclusive : keyword, value);
        if (bound == NULL)
            continue;
        double here = g_ascii_strtod(bound, NULL);
        double there = tightest != NULL ? g_ascii_strtod(tightest, NULL) : 0;
        if (tightest == NULL || (is_maximum ? here < there : here > there))
            tightest = bound;
    }
    return tightest;
}

static const char *
read_multiple(IpbSchemaReader *reader, const GPtrArray *facets, bool is_integer, GString *notes)
{
    const IpbJson *value = ipb_schema_get(facets, "multipleOf");
    int64_t integer;
    if (value == NULL)
        return NULL;
    if (is_integer && ipb_json_int64(value, &integer) && integer > 0)
        return make_bound(reader, value, true);
    ipb_schema_note_value(notes, "multipleOf", value); /* 0.3 is no multiple of 0.1 for floats */
    return NULL;
}

const IpbType *
ipb_schema_read_number(IpbSchemaReader *reader, const GPtrArray *facets, IpbTypeKind kind,
                       GString *notes)
{
    bool is_integer = kind == IPB_TYPE_INT;
    IpbType *type = ipb_module_add_type(reader->module, kind);
    IpbBounds *bounds = &type->bounds;
    bounds->ge = read_bound(reader, facets, false, false, is_integer, notes);
    bounds->le = read_bound(reader, facets, true, false, is_integer, notes);
    bounds->gt = read_bound(reader, facets, false, true, is_integer, notes);
    bounds->lt = read_bound(reader, facets, true, true, is_integer, notes);
    bounds->multiple_of = read_multiple(reader, facets, is_integer, notes);
    return type;
}

int64_t
ipb_schema_read_length(const GPtrArray *facets, const char *keyword, GString *notes)
{
    bool is_minimum = g_str_has_prefix(keyword, "min");
    int64_t tightest = -1;
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *value = ipb_json_get(g_ptr_array_index(facets, i), keyword);
        int64_t length;
        if (value == NULL)
            continue;
        if (!ipb_json_int64(value, &length) || length < 0)
            ipb_schema_note_value(notes, keyword, value);
        else if (tightest < 0 || (is_minimum ? length > tightest : length < tightest))
            tightest = length;
    }
    return tightest == 0 && is_minimum ? -1 : tightest;
}

const char *
ipb_schema_make_pattern(IpbSchemaReader *reader, IpbText text)
{
    g_autofree char *pattern = ipb_pattern_translate(text);
    if (pattern == NULL)
        return NULL;
    g_autoptr(GString) literal = g_string_new(NULL);
    ipb_text_append_literal(literal, ipb_text_from(pattern));
    return keep(reader, literal->str);
}

const IpbType *
ipb_schema_read_string(IpbSchemaReader *reader, const GPtrArray *facets, GString *notes)
{
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_STR);
    type->bounds.min_length = ipb_schema_read_length(facets, "minLength", notes);
    type->bounds.max_length = ipb_schema_read_length(facets, "maxLength", notes);
    const IpbJson *pattern = ipb_schema_get(facets, "pattern");
    type->bounds.pattern = ipb_schema_make_pattern(reader, ipb_text_of(pattern));
    return type;
}
