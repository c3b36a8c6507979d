/* SPDX-License-Identifier: Apache-2.0
 *
 * Literals and defaults; see the header. A default must fit what a type checker expects for the
 * field. Its bounds are not checked: pydantic does not check a default against them, and a default
 * is not sent unless it was changed.
 */
#include "apigen/literal.h"

#include <math.h>
#include <string.h>

#include "apigen/wtf8.h"

/* Python refuses integers of more than 4,300 digits. Real ones are much shorter. */
#define MAX_NUMBER_SIZE 300

void
ipb_literal_append_string(GString *out, IpbSpan text)
{
    g_string_append_c(out, '"');
    for (size_t at = 0; at < text.size;) {
        gunichar c = ipb_wtf8_next(text, &at);
        if (c == '"' || c == '\\')
            g_string_append_printf(out, "\\%c", (char) c);
        else if (c == '\n')
            g_string_append(out, "\\n");
        else if (c == '\t')
            g_string_append(out, "\\t");
        else if (ipb_wtf8_is_visible(c))
            g_string_append_unichar(out, c);
        else if (c < 0x100)
            g_string_append_printf(out, "\\x%02x", c);
        else
            g_string_append_printf(out, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
    g_string_append_c(out, '"');
}

bool
ipb_literal_append_number(GString *out, const char *number)
{
    if (strlen(number) > MAX_NUMBER_SIZE)
        return false;
    if (strpbrk(number, ".eE") != NULL && !isfinite(g_ascii_strtod(number, NULL)))
        return false;
    g_string_append(out, number);
    return true;
}

bool
ipb_literal_append_scalar(GString *out, const IpbJson *value)
{
    switch (ipb_json_type(value)) {
    case IPB_JSON_NULL:
        g_string_append(out, "None");
        return true;
    case IPB_JSON_BOOL:
        g_string_append(out, ipb_json_bool(value, false) ? "True" : "False");
        return true;
    case IPB_JSON_NUMBER:
        return ipb_literal_append_number(out, ipb_json_number(value));
    case IPB_JSON_STRING:
        ipb_literal_append_string(out, ipb_wtf8_from_json(value));
        return true;
    case IPB_JSON_ARRAY:
    case IPB_JSON_OBJECT:
        return false;
    }
    return false;
}

/* --- defaults --------------------------------------------------------------------------------- */

static bool append_any(GString *out, const IpbJson *value);

/* Appends an item or value of another. @type: NULL is any. */
static bool
append_inner(GString *out, const IpbType *type, const IpbJson *value, bool enums_by_value)
{
    return type != NULL ? ipb_literal_append_default(out, type, value, enums_by_value)
                        : append_any(out, value);
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

/* Appends "[a, b]", or "(a, b)" for a tuple. */
static bool
append_list(GString *out, const IpbType *type, const IpbJson *value, bool enums_by_value)
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
        if (!append_inner(out, place, item, enums_by_value))
            return false;
    }
    g_string_append(out, is_tuple ? (length == 1 ? ",)" : ")") : "]");
    return true;
}

/* A name may occur once only: of two the last would count, and linters complain. */
static bool
append_dict(GString *out, const IpbType *item, const IpbJson *value, bool enums_by_value)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    size_t i = 0;
    if (!ipb_json_is(value, IPB_JSON_OBJECT))
        return false;
    g_string_append_c(out, '{');
    IPB_JSON_FOREACH (member, value) {
        g_autoptr(GString) key = g_string_new(NULL);
        ipb_literal_append_string(key, ipb_wtf8_from_name(member));
        g_string_append_printf(out, "%s%s: ", i++ > 0 ? ", " : "", key->str);
        if (!g_hash_table_add(seen, g_strdup(key->str)) ||
            !append_inner(out, item, member, enums_by_value))
            return false;
    }
    g_string_append_c(out, '}');
    return true;
}

static bool
append_any(GString *out, const IpbJson *value)
{
    return ipb_literal_append_scalar(out, value) || append_list(out, NULL, value, false) ||
           append_dict(out, NULL, value, false);
}

static bool
append_enum(GString *out, const IpbEnum *enumeration, const IpbJson *value, bool enums_by_value)
{
    const IpbEnumMember *member = ipb_enum_find(enumeration, value);
    if (member == NULL)
        return false;
    if (enums_by_value)
        return ipb_literal_append_scalar(out, value);
    g_string_append_printf(out, "%s.%s", enumeration->name, member->name);
    return true;
}

static bool
append_one_of(GString *out, const GPtrArray *types, const IpbJson *value, bool enums_by_value)
{
    for (guint i = 0; i < types->len; i++)
        if (ipb_literal_append_default(out, g_ptr_array_index(types, i), value, enums_by_value))
            return true;
    return false;
}

static bool
append(GString *out, const IpbType *type, const IpbJson *value, bool enums_by_value)
{
    switch (type->kind) {
    case IPB_TYPE_ANY:
        return append_any(out, value);
    case IPB_TYPE_NONE:
        return ipb_json_is(value, IPB_JSON_NULL) && ipb_literal_append_scalar(out, value);
    case IPB_TYPE_BOOL:
        return ipb_json_is(value, IPB_JSON_BOOL) && ipb_literal_append_scalar(out, value);
    case IPB_TYPE_INT:
        return append_integer(out, value);
    case IPB_TYPE_NUMBER:
        return ipb_json_is(value, IPB_JSON_NUMBER) && ipb_literal_append_scalar(out, value);
    case IPB_TYPE_STR:
        return ipb_json_is(value, IPB_JSON_STRING) && ipb_literal_append_scalar(out, value);
    case IPB_TYPE_LITERAL:
        return ipb_literal_has(type, value) &&
               (append_integer(out, value) || ipb_literal_append_scalar(out, value));
    case IPB_TYPE_ENUM:
        return append_enum(out, type->enumeration, value, enums_by_value);
    case IPB_TYPE_UNION:
        return append_one_of(out, type->members, value, enums_by_value);
    case IPB_TYPE_LIST:
    case IPB_TYPE_TUPLE:
        return append_list(out, type, value, enums_by_value);
    case IPB_TYPE_DICT:
        return append_dict(out, type->item, value, enums_by_value);
    case IPB_TYPE_LATER:
    case IPB_TYPE_CLASS:
        return false;
    }
    return false;
}

bool
ipb_literal_append_default(GString *out, const IpbType *type, const IpbJson *value,
                           bool enums_by_value)
{
    size_t size = out->len;
    if (append(out, type, value, enums_by_value))
        return true;
    g_string_truncate(out, size);
    return false;
}
