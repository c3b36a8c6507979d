/* SPDX-License-Identifier: Apache-2.0
 *
 * Defaults; see the header. A default is what a type checker takes for the field. Bounds are the server's
 * business: pydantic does not hold them against a default, which is not sent unless it is changed.
 */
#include "apigen/default.h"

#include "apigen/text.h"

static bool append_any(GString *out, const IpbJson *value);

/* The type of items, values and places: NULL stands for any. */
static bool
append_inner(GString *out, const IpbType *type, const IpbJson *value, bool is_plain)
{
    return type != NULL ? ipb_default_append(out, type, value, is_plain) : append_any(out, value);
}

static bool
append_integer(GString *out, const IpbJson *value)
{
    int64_t integer;
    if (!ipb_json_int64(value, &integer))
        return false;
    g_string_append_printf(out, "%" G_GINT64_FORMAT, integer);
    return true;
}

/* "[a, b]", or "(a, b)" of a tuple's places. */
static bool
append_list(GString *out, const IpbType *type, const IpbJson *value, bool is_plain)
{
    bool is_tuple = type != NULL && type->kind == IPB_TYPE_TUPLE;
    size_t length = ipb_json_length(value), i = 0;
    if (!ipb_json_is(value, IPB_JSON_ARRAY) || (is_tuple && type->members->len != length))
        return false;
    g_string_append_c(out, is_tuple ? '(' : '[');
    IPB_JSON_FOREACH (item, value) {
        const IpbType *place = is_tuple       ? g_ptr_array_index(type->members, i)
                               : type != NULL ? type->item
                                              : NULL;
        g_string_append(out, i++ > 0 ? ", " : "");
        if (!append_inner(out, place, item, is_plain))
            return false;
    }
    g_string_append(out, is_tuple ? (length == 1 ? ",)" : ")") : "]");
    return true;
}

/* Names stand once: of two the last would count, and linters complain. */
static bool
append_dict(GString *out, const IpbType *item, const IpbJson *value, bool is_plain)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    size_t i = 0;
    if (!ipb_json_is(value, IPB_JSON_OBJECT))
        return false;
    g_string_append_c(out, '{');
    IPB_JSON_FOREACH (member, value) {
        IpbText name;
        name.text = ipb_json_name(member, &name.size);
        g_autoptr(GString) key = g_string_new(NULL);
        ipb_text_append_literal(key, name);
        g_string_append_printf(out, "%s%s: ", i++ > 0 ? ", " : "", key->str);
        if (!g_hash_table_add(seen, g_strdup(key->str)) ||
            !append_inner(out, item, member, is_plain))
            return false;
    }
    g_string_append_c(out, '}');
    return true;
}

static bool
append_any(GString *out, const IpbJson *value)
{
    return ipb_text_append_value(out, value) || append_list(out, NULL, value, false) ||
           append_dict(out, NULL, value, false);
}

static bool
append_enum(GString *out, const IpbEnum *enumeration, const IpbJson *value, bool is_plain)
{
    const IpbEnumMember *member = ipb_enum_find(enumeration, value);
    if (member == NULL)
        return false;
    if (is_plain)
        return ipb_text_append_value(out, value);
    g_string_append_printf(out, "%s.%s", enumeration->name, member->name);
    return true;
}

static bool
append_one_of(GString *out, const GPtrArray *types, const IpbJson *value, bool is_plain)
{
    for (guint i = 0; i < types->len; i++)
        if (ipb_default_append(out, g_ptr_array_index(types, i), value, is_plain))
            return true;
    return false;
}

static bool
append(GString *out, const IpbType *type, const IpbJson *value, bool is_plain)
{
    switch (type->kind) {
    case IPB_TYPE_ANY:
        return append_any(out, value);
    case IPB_TYPE_NONE:
        return ipb_json_is(value, IPB_JSON_NULL) && ipb_text_append_value(out, value);
    case IPB_TYPE_BOOL:
        return ipb_json_is(value, IPB_JSON_BOOL) && ipb_text_append_value(out, value);
    case IPB_TYPE_INT:
        return append_integer(out, value);
    case IPB_TYPE_NUMBER:
        return ipb_json_is(value, IPB_JSON_NUMBER) && ipb_text_append_value(out, value);
    case IPB_TYPE_STR:
        return ipb_json_is(value, IPB_JSON_STRING) && ipb_text_append_value(out, value);
    case IPB_TYPE_LITERAL:
        return ipb_literal_has(type, value) &&
               (append_integer(out, value) || ipb_text_append_value(out, value));
    case IPB_TYPE_ENUM:
        return append_enum(out, type->enumeration, value, is_plain);
    case IPB_TYPE_UNION:
        return append_one_of(out, type->members, value, is_plain);
    case IPB_TYPE_LIST:
    case IPB_TYPE_TUPLE:
        return append_list(out, type, value, is_plain);
    case IPB_TYPE_DICT:
        return append_dict(out, type->item, value, is_plain);
    case IPB_TYPE_LATER:
    case IPB_TYPE_CLASS:
        return false;
    }
    return false;
}

bool
ipb_default_append(GString *out, const IpbType *type, const IpbJson *value, bool is_plain)
{
    size_t size = out->len;
    if (append(out, type, value, is_plain))
        return true;
    g_string_truncate(out, size);
    return false;
}
