/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of arguments; see the header.
 */
#include "tools/argument-pattern.h"

#include <string.h>

#include "base/error.h"
#include "tools/text-pattern.h"

#define MAX_DEPTH 16

typedef enum { PATTERN_MEMBERS, PATTERN_TEXT, PATTERN_ALTERNATIVES, PATTERN_VALUE } PatternKind;

struct IpbArgumentPattern {
    PatternKind kind;
    char *name;          /* of the member that it matches, or NULL */
    GPtrArray *children; /* members or alternatives */
    IpbTextPattern *text;
    IpbJsonType type; /* of a value */
    bool is_true;
    char *number;
};

void
ipb_argument_pattern_free(IpbArgumentPattern *pattern)
{
    if (pattern == NULL)
        return;
    g_free(pattern->name);
    g_clear_pointer(&pattern->children, g_ptr_array_unref);
    ipb_text_pattern_free(pattern->text);
    g_free(pattern->number);
    g_free(pattern);
}

static void
free_child(void *child)
{
    ipb_argument_pattern_free(child);
}

/* --- building --- */

static IpbArgumentPattern *build(const IpbJson *value, const char *where, unsigned depth,
                                 GError **error);

static bool
build_children(IpbArgumentPattern *pattern, const IpbJson *value, const char *where, unsigned depth,
               GError **error)
{
    pattern->children = g_ptr_array_new_with_free_func(free_child);
    if (depth >= MAX_DEPTH) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s: nested more than %d deep", where,
                    MAX_DEPTH);
        return false;
    }
    size_t number = 0;
    IPB_JSON_FOREACH (item, value) {
        const char *name = ipb_json_name(item, NULL);
        g_autofree char *place = name != NULL ? g_strdup_printf("%s.%s", where, name)
                                              : g_strdup_printf("%s[%zu]", where, number++);
        IpbArgumentPattern *child = build(item, place, depth + 1, error);
        if (child == NULL)
            return false;
        child->name = g_strdup(name);
        g_ptr_array_add(pattern->children, child);
    }
    return true;
}

static bool
build_text(IpbArgumentPattern *pattern, const IpbJson *value, const char *where, GError **error)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    if (strlen(text) < size) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s: the pattern contains a NUL",
                    where);
        return false;
    }
    pattern->text = ipb_text_pattern_new(text, error);
    if (pattern->text == NULL)
        g_prefix_error(error, "%s: ", where);
    return pattern->text != NULL;
}

static bool
build_content(IpbArgumentPattern *pattern, const IpbJson *value, const char *where, unsigned depth,
              GError **error)
{
    pattern->type = ipb_json_type(value);
    switch (pattern->type) {
    case IPB_JSON_OBJECT:
        pattern->kind = PATTERN_MEMBERS;
        return build_children(pattern, value, where, depth, error);
    case IPB_JSON_ARRAY:
        pattern->kind = PATTERN_ALTERNATIVES;
        return build_children(pattern, value, where, depth, error);
    case IPB_JSON_STRING:
        pattern->kind = PATTERN_TEXT;
        return build_text(pattern, value, where, error);
    case IPB_JSON_NULL:
    case IPB_JSON_BOOL:
    case IPB_JSON_NUMBER:
        pattern->kind = PATTERN_VALUE;
        pattern->is_true = ipb_json_bool(value, false);
        pattern->number = g_strdup(ipb_json_number(value));
        return true;
    }
    return false;
}

static IpbArgumentPattern *
build(const IpbJson *value, const char *where, unsigned depth, GError **error)
{
    g_autoptr(IpbArgumentPattern) pattern = g_new0(IpbArgumentPattern, 1);
    return build_content(pattern, value, where, depth, error) ? g_steal_pointer(&pattern) : NULL;
}

IpbArgumentPattern *
ipb_argument_pattern_new(const IpbJson *value, const char *where, GError **error)
{
    return build(value, where, 0, error);
}

/* --- matching --- */

/* Whether a segment of the path is "..". Backslashes count as separators, because some servers
 * accept them. */
static bool
climbs(const char *text, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        bool begins = i == 0 || strchr("/\\", text[i - 1]) != NULL;
        bool ends = i + 2 == size || strchr("/\\", text[i + 2]) != NULL;
        if (text[i] == '.' && text[i + 1] == '.' && begins && ends)
            return true;
    }
    return false;
}

/* Whether servers may read the text differently from how it looks: it may end at a NUL for some, or
 * its path leads elsewhere. */
static bool
misleads(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL || climbs(text, size);
}

static bool
matches_text(const IpbTextPattern *pattern, const IpbJson *value, bool is_strict)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    if (text == NULL)
        return false;
    if (is_strict && ipb_text_pattern_has_wildcard(pattern) && misleads(text, size))
        return false;
    return ipb_text_pattern_matches(pattern, text, size);
}

/* 1, 1.0 and 1e0 are equal. If strict, integers beyond 64 bits are compared as text. If lenient,
 * numbers are equal if they are the same float, because many servers compute with floats. */
static bool
is_same_number(const char *number, const IpbJson *value, bool is_strict)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(number, strlen(number), &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *wanted = ipb_json_root(document);
    int64_t wanted_integer, integer;
    double wanted_double, real;
    bool is_same_float = ipb_json_double(wanted, &wanted_double) && ipb_json_double(value, &real) &&
                         wanted_double == real;
    if (g_str_equal(number, ipb_json_number(value)))
        return true;
    if (!is_strict)
        return is_same_float;
    if (ipb_json_int64(wanted, &wanted_integer) && ipb_json_int64(value, &integer))
        return wanted_integer == integer;
    return strpbrk(number, ".eE") != NULL && is_same_float;
}

static bool
matches_value(const IpbArgumentPattern *pattern, const IpbJson *value, bool is_strict)
{
    if (!ipb_json_is(value, pattern->type))
        return false;
    if (pattern->type == IPB_JSON_NUMBER)
        return is_same_number(pattern->number, value, is_strict);
    return pattern->type == IPB_JSON_NULL || ipb_json_bool(value, false) == pattern->is_true;
}

static bool
matches_items(const IpbArgumentPattern *pattern, const IpbJson *array, bool is_strict)
{
    IPB_JSON_FOREACH (item, array)
        if (ipb_argument_pattern_matches(pattern, item, is_strict) != is_strict)
            return !is_strict;
    return is_strict && ipb_json_length(array) > 0;
}

static bool
is_named(const IpbJson *member, const char *name)
{
    size_t size;
    const char *own = ipb_json_name(member, &size);
    return strlen(name) == size && memcmp(own, name, size) == 0;
}

static gunichar
fold(gunichar c)
{
    return g_unichar_tolower(g_unichar_toupper(c));
}

/* Whether a server that ignores case, as those in Go and .NET do, takes the member for @name. */
static bool
is_named_alike(const IpbJson *member, const char *name)
{
    size_t size;
    const char *own = ipb_json_name(member, &size), *end = own + size;
    for (; own < end && *name != '\0'; own = g_utf8_next_char(own), name = g_utf8_next_char(name))
        if (fold(g_utf8_get_char(own)) != fold(g_utf8_get_char(name)))
            return false;
    return own == end && *name == '\0';
}

/* Whether a member that servers may take for this name matches. If strict, no other member may look
 * like it. */
static bool
matches_member(const IpbArgumentPattern *child, const IpbJson *object, bool is_strict)
{
    bool is_found = false;
    IPB_JSON_FOREACH (member, object) {
        if (!is_named_alike(member, child->name))
            continue;
        bool is_match = ipb_argument_pattern_matches(child, member, is_strict);
        if (is_strict && (!is_match || !is_named(member, child->name)))
            return false;
        is_found |= is_match;
    }
    return is_found;
}

static bool
matches_members(const IpbArgumentPattern *pattern, const IpbJson *value, bool is_strict)
{
    if (!ipb_json_is(value, IPB_JSON_OBJECT))
        return false;
    for (guint i = 0; i < pattern->children->len; i++)
        if (!matches_member(g_ptr_array_index(pattern->children, i), value, is_strict))
            return false;
    return true;
}

static bool
matches_one_of(const IpbArgumentPattern *pattern, const IpbJson *value, bool is_strict)
{
    for (guint i = 0; i < pattern->children->len; i++)
        if (ipb_argument_pattern_matches(g_ptr_array_index(pattern->children, i), value, is_strict))
            return true;
    return false;
}

bool
ipb_argument_pattern_matches(const IpbArgumentPattern *pattern, const IpbJson *value,
                             bool is_strict)
{
    if (ipb_json_is(value, IPB_JSON_ARRAY))
        return matches_items(pattern, value, is_strict);
    switch (pattern->kind) {
    case PATTERN_MEMBERS:
        return matches_members(pattern, value, is_strict);
    case PATTERN_TEXT:
        return matches_text(pattern->text, value, is_strict);
    case PATTERN_ALTERNATIVES:
        return matches_one_of(pattern, value, is_strict);
    case PATTERN_VALUE:
        return matches_value(pattern, value, is_strict);
    }
    return false;
}

bool
ipb_argument_pattern_names_all(const IpbArgumentPattern *pattern, const IpbJson *arguments)
{
    IPB_JSON_FOREACH (member, arguments) {
        bool is_known = false;
        for (guint i = 0; i < pattern->children->len && !is_known; i++) {
            const IpbArgumentPattern *child = g_ptr_array_index(pattern->children, i);
            is_known = is_named(member, child->name);
        }
        if (!is_known)
            return false;
    }
    return true;
}
