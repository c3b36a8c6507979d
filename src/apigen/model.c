/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's objects, and operations on types: equality and unions.
 */
#include "apigen/model.h"

#include "apigen/wtf8.h"

static void
free_type(void *data)
{
    IpbType *type = data;
    g_clear_pointer(&type->members, g_ptr_array_unref);
    g_free(type);
}

static void
free_enum(void *data)
{
    IpbEnum *enumeration = data;
    g_array_unref(enumeration->members);
    g_free(enumeration);
}

static void
free_class(void *data)
{
    IpbClass *class = data;
    g_ptr_array_unref(class->fields);
    g_free(class);
}

IpbModule *
ipb_module_new(void)
{
    IpbModule *module = g_new0(IpbModule, 1);
    module->classes = g_ptr_array_new_with_free_func(free_class);
    module->enums = g_ptr_array_new_with_free_func(free_enum);
    module->claims = g_ptr_array_new_with_free_func(g_free);
    module->types = g_ptr_array_new_with_free_func(free_type);
    module->taken = g_hash_table_new(g_str_hash, g_str_equal);
    module->counters = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    module->strings = g_string_chunk_new(4096);
    return module;
}

void
ipb_module_free(IpbModule *module)
{
    if (module == NULL)
        return;
    g_ptr_array_unref(module->classes);
    g_ptr_array_unref(module->enums);
    g_ptr_array_unref(module->claims);
    g_ptr_array_unref(module->types);
    g_hash_table_unref(module->taken);
    g_hash_table_unref(module->counters);
    g_string_chunk_free(module->strings);
    g_free(module);
}

IpbType *
ipb_module_add_type(IpbModule *module, IpbTypeKind kind)
{
    IpbType *type = g_new0(IpbType, 1);
    type->kind = kind;
    type->bounds.min_length = -1;
    type->bounds.max_length = -1;
    if (kind == IPB_TYPE_UNION || kind == IPB_TYPE_LITERAL || kind == IPB_TYPE_TUPLE)
        type->members = g_ptr_array_new();
    g_ptr_array_add(module->types, type);
    return type;
}

IpbClass *
ipb_class_new(const char *name)
{
    IpbClass *class = g_new0(IpbClass, 1);
    class->name = name;
    class->fields = g_ptr_array_new_with_free_func(g_free);
    return class;
}

IpbField *
ipb_class_add_field(IpbClass *class)
{
    IpbField *field = g_new0(IpbField, 1);
    g_ptr_array_add(class->fields, field);
    return field;
}

IpbEnum *
ipb_module_add_enum(IpbModule *module)
{
    IpbEnum *enumeration = g_new0(IpbEnum, 1);
    enumeration->members = g_array_new(FALSE, TRUE, sizeof(IpbEnumMember));
    g_ptr_array_add(module->enums, enumeration);
    return enumeration;
}

const char *
ipb_module_keep(IpbModule *module, const char *text)
{
    return g_string_chunk_insert(module->strings, text);
}

/* Whether two strings, booleans or integers have the same value. */
static bool
scalar_equal(const IpbJson *a, const IpbJson *b)
{
    int64_t x, y;
    if (ipb_json_int64(a, &x) && ipb_json_int64(b, &y))
        return x == y;
    if (ipb_json_type(a) != ipb_json_type(b))
        return false;
    if (ipb_json_is(a, IPB_JSON_STRING))
        return ipb_wtf8_equal(ipb_wtf8_from_json(a), ipb_wtf8_from_json(b));
    return ipb_wtf8_equal(ipb_json_raw(a), ipb_json_raw(b));
}

static bool
bounds_equal(const IpbBounds *a, const IpbBounds *b)
{
    return g_strcmp0(a->ge, b->ge) == 0 && g_strcmp0(a->gt, b->gt) == 0 &&
           g_strcmp0(a->le, b->le) == 0 && g_strcmp0(a->lt, b->lt) == 0 &&
           g_strcmp0(a->multiple_of, b->multiple_of) == 0 &&
           g_strcmp0(a->pattern, b->pattern) == 0 && a->min_length == b->min_length &&
           a->max_length == b->max_length;
}

static bool types_equal(const IpbType *a, const IpbType *b);

static bool
members_equal(const IpbType *a, const IpbType *b)
{
    if (a->members->len != b->members->len)
        return false;
    for (guint i = 0; i < a->members->len; i++) {
        const void *x = g_ptr_array_index(a->members, i), *y = g_ptr_array_index(b->members, i);
        if (a->kind == IPB_TYPE_LITERAL ? !scalar_equal(x, y) : !types_equal(x, y))
            return false;
    }
    return true;
}

static bool
types_equal(const IpbType *a, const IpbType *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->class != b->class || a->enumeration != b->enumeration ||
        !bounds_equal(&a->bounds, &b->bounds))
        return false;
    if ((a->item != NULL) != (b->item != NULL) || (a->members != NULL) != (b->members != NULL))
        return false;
    if (a->item != NULL && !types_equal(a->item, b->item))
        return false;
    if ((a->key != NULL) != (b->key != NULL) || (a->key != NULL && !types_equal(a->key, b->key)))
        return false;
    return a->members == NULL || members_equal(a, b);
}

static void
add_literals(IpbType *into, const IpbType *from)
{
    for (guint i = 0; i < from->members->len; i++) {
        void *value = g_ptr_array_index(from->members, i);
        bool is_new = true;
        for (guint k = 0; k < into->members->len && is_new; k++)
            is_new = !scalar_equal(g_ptr_array_index(into->members, k), value);
        if (is_new)
            g_ptr_array_add(into->members, value);
    }
}

static bool
has_bounds(const IpbType *type)
{
    const IpbBounds none = {.min_length = -1, .max_length = -1};
    return !bounds_equal(&type->bounds, &none);
}

static bool
has_literal(const IpbType *type, IpbJsonType kind)
{
    if (type->kind == IPB_TYPE_LITERAL)
        for (guint i = 0; i < type->members->len; i++)
            if (ipb_json_is(g_ptr_array_index(type->members, i), kind))
                return true;
    return false;
}

static bool
has_numbers(const IpbType *type)
{
    return type->kind == IPB_TYPE_INT || type->kind == IPB_TYPE_NUMBER ||
           has_literal(type, IPB_JSON_NUMBER);
}

/* The literal @type without its booleans; NULL if no value remains. */
static const IpbType *
remove_booleans(IpbModule *module, const IpbType *type)
{
    IpbType *rest = ipb_module_add_type(module, IPB_TYPE_LITERAL);
    for (guint i = 0; i < type->members->len; i++) {
        void *value = g_ptr_array_index(type->members, i);
        if (!ipb_json_is(value, IPB_JSON_BOOL))
            g_ptr_array_add(rest->members, value);
    }
    return rest->members->len > 0 ? rest : NULL;
}

/* In Python True == 1, and pydantic's literals accept one for the other. So beside numbers,
 * booleans become the type bool, which comes first: in a union the first exact match counts. */
static void
separate_booleans_from_numbers(IpbModule *module, GPtrArray *members)
{
    bool is_needed = false, has_booleans = false;
    for (guint i = 0; i < members->len; i++) {
        const IpbType *member = g_ptr_array_index(members, i);
        is_needed |= has_numbers(member);
        has_booleans |= member->kind == IPB_TYPE_BOOL || has_literal(member, IPB_JSON_BOOL);
    }
    if (!is_needed || !has_booleans)
        return;
    for (guint i = 0; i < members->len;) {
        const IpbType *member = g_ptr_array_index(members, i);
        bool is_mixed = has_literal(member, IPB_JSON_BOOL);
        const IpbType *rest = is_mixed ? remove_booleans(module, member) : member;
        if (member->kind == IPB_TYPE_BOOL || rest == NULL)
            g_ptr_array_remove_index(members, i);
        else
            members->pdata[i++] = (void *) rest;
    }
    g_ptr_array_insert(members, 0, ipb_module_add_type(module, IPB_TYPE_BOOL));
}

/* Adds @type, which is not a union, to the members of @into. */
static void
add_member(IpbModule *module, IpbType *into, const IpbType *type)
{
    for (guint i = 0; i < into->members->len; i++) {
        const IpbType *member = g_ptr_array_index(into->members, i);
        if (types_equal(member, type) ||
            (member->kind == IPB_TYPE_NUMBER && type->kind == IPB_TYPE_INT && !has_bounds(member)))
            return;
        if (member->kind == IPB_TYPE_LITERAL && type->kind == IPB_TYPE_LITERAL) {
            IpbType *both = ipb_module_add_type(module, IPB_TYPE_LITERAL);
            add_literals(both, member);
            add_literals(both, type);
            into->members->pdata[i] = both;
            return;
        }
        if (member->kind == IPB_TYPE_INT && type->kind == IPB_TYPE_NUMBER && !has_bounds(type)) {
            into->members->pdata[i] = (void *) type;
            return;
        }
    }
    g_ptr_array_add(into->members, (void *) type);
}

const IpbType *
ipb_module_make_union(IpbModule *module, GPtrArray *types)
{
    IpbType *all = ipb_module_add_type(module, IPB_TYPE_UNION);
    const IpbType *none = NULL;
    for (guint i = 0; i < types->len; i++) {
        const IpbType *type = g_ptr_array_index(types, i);
        const IpbType *const *members = &type;
        guint n_members = 1;
        if (type->kind == IPB_TYPE_UNION) {
            members = (const IpbType *const *) type->members->pdata;
            n_members = type->members->len;
        }
        for (guint k = 0; k < n_members; k++) {
            if (members[k]->kind == IPB_TYPE_ANY)
                return members[k];
            if (members[k]->kind == IPB_TYPE_NONE)
                none = members[k];
            else
                add_member(module, all, members[k]);
        }
    }
    separate_booleans_from_numbers(module, all->members);
    if (none != NULL)
        g_ptr_array_add(all->members, (void *) none);
    for (guint i = 0; i < all->members->len; i++) {
        const IpbType *member = g_ptr_array_index(all->members, i);
        all->height = MAX(all->height, member->height + 1);
    }
    if (all->members->len == 0)
        return ipb_module_add_type(module, IPB_TYPE_ANY);
    return all->members->len == 1 ? g_ptr_array_index(all->members, 0) : all;
}

bool
ipb_type_has_none(const IpbType *type)
{
    if (type->kind != IPB_TYPE_UNION)
        return type->kind == IPB_TYPE_NONE || type->kind == IPB_TYPE_ANY;
    const IpbType *last = g_ptr_array_index(type->members, type->members->len - 1);
    return last->kind == IPB_TYPE_NONE;
}

const IpbType *
ipb_module_make_optional(IpbModule *module, const IpbType *type)
{
    if (ipb_type_has_none(type))
        return type;
    g_autoptr(GPtrArray) both = g_ptr_array_new();
    g_ptr_array_add(both, (void *) type);
    g_ptr_array_add(both, ipb_module_add_type(module, IPB_TYPE_NONE));
    return ipb_module_make_union(module, both);
}

const IpbEnumMember *
ipb_enum_find(const IpbEnum *enumeration, const IpbJson *value)
{
    for (guint i = 0; i < enumeration->members->len; i++) {
        const IpbEnumMember *member = &g_array_index(enumeration->members, IpbEnumMember, i);
        if (scalar_equal(member->value, value))
            return member;
    }
    return NULL;
}

bool
ipb_literal_has(const IpbType *type, const IpbJson *value)
{
    for (guint i = 0; i < type->members->len; i++)
        if (scalar_equal(g_ptr_array_index(type->members, i), value))
            return true;
    return false;
}
