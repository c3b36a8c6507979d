/* SPDX-License-Identifier: Apache-2.0
 *
 * Types as annotations.
 */
#include "apigen/emit.h"
#include "apigen/text.h"

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

void
ipb_emit_bounds(GString *out, const IpbType *type)
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
        if (ipb_json_int64(value, &integer)) /* Literal[1.0] is no type */
            g_string_append_printf(out, "%" G_GINT64_FORMAT, integer);
        else
            ipb_text_append_value(out, value);
    }
    g_string_append_c(out, ']');
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
        ipb_emit_annotation(out, type->item, false);
        g_string_append_c(out, ']');
        break;
    case IPB_TYPE_DICT:
        g_string_append(out, "dict[str, ");
        ipb_emit_annotation(out, type->item, false);
        g_string_append_c(out, ']');
        break;
    case IPB_TYPE_UNION:
        for (guint i = 0; i < type->members->len; i++) {
            g_string_append(out, i > 0 ? " | " : "");
            ipb_emit_annotation(out, g_ptr_array_index(type->members, i), false);
        }
        break;
    case IPB_TYPE_CLASS:
        g_string_append(out, type->class->name);
        break;
    case IPB_TYPE_ENUM:
        g_string_append(out, type->enumeration->name);
        break;
    }
}

void
ipb_emit_annotation(GString *out, const IpbType *type, bool is_bare)
{
    g_autoptr(GString) bounds = g_string_new(NULL);
    if (!is_bare)
        ipb_emit_bounds(bounds, type);
    g_string_append(out, bounds->len > 0 ? "Annotated[" : "");
    append_bare(out, type);
    if (bounds->len > 0)
        g_string_append_printf(out, ", Field(%s)]", bounds->str);
}
