/* SPDX-License-Identifier: Apache-2.0
 *
 * Keywords and notes; see the header.
 */
#include "apigen/schema-keywords.h"

#include <string.h>

#include "apigen/wtf8.h"

/* Bytes of a value in a note. */
#define MAX_NOTE_VALUE 300
#define MAX_NOTES (16 << 10)

void
ipb_schema_note(GString *notes, const char *format, ...)
{
    g_autofree char *line = NULL;
    va_list args;
    va_start(args, format);
    line = g_strdup_vprintf(format, args);
    va_end(args);
    if (notes->len + strlen(line) > MAX_NOTES)
        return;
    /* Do not repeat a note that several places have caused. */
    const char *found = strstr(notes->str, line);
    size_t size = strlen(line);
    if (found != NULL && (found == notes->str || found[-1] == '\n') &&
        (found[size] == '\0' || found[size] == '\n'))
        return;
    if (notes->len > 0)
        g_string_append_c(notes, '\n');
    g_string_append(notes, line);
}

/* The value's JSON text on one line, cut before a character. A string is its own text. */
static char *
make_note_value(const IpbJson *value)
{
    IpbSpan decoded = ipb_wtf8_from_json(value);
    IpbSpan raw = decoded.start != NULL ? decoded : ipb_json_raw(value);
    GString *text = g_string_new(NULL);
    for (size_t i = 0; i < raw.size; i++) {
        unsigned char c = (unsigned char) raw.start[i];
        if (c < 0x20)
            continue;
        if (text->len >= MAX_NOTE_VALUE && (c & 0xc0) != 0x80) {
            g_string_append(text, " …");
            break;
        }
        g_string_append_c(text, (char) c);
    }
    return g_string_free(text, FALSE);
}

void
ipb_schema_note_value(GString *notes, const char *keyword, const IpbJson *value)
{
    g_autofree char *text = make_note_value(value);
    ipb_schema_note(notes, "%s: %s", keyword, text);
}

const IpbJson *
ipb_schema_get(const GPtrArray *facets, const char *keyword)
{
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *value = ipb_json_get(g_ptr_array_index(facets, i), keyword);
        if (value != NULL)
            return value;
    }
    return NULL;
}

/* Rules that most types do not express. */
static const char *const UNCHECKED[] = {
    "$dynamicRef",
    "$recursiveRef",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "format",
    "if",
    "maxContains",
    "maxProperties",
    "minContains",
    "minProperties",
    "not",
    "patternProperties",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    NULL,
};

/* Rules that are expressed for the first facet that has them only. */
static const char *const ONCE[] = {
    "anyOf",       "const", "enum",    "items",
    "multipleOf",  "oneOf", "pattern", "additionalProperties",
    "prefixItems", NULL,
};

static bool
is_no_rule(const char *keyword, const IpbJson *value)
{
    bool is_unless_true = g_str_equal(keyword, "uniqueItems");
    bool is_unless_false = g_str_has_prefix(keyword, "unevaluated");
    return (is_unless_true && !ipb_json_bool(value, false)) ||
           (is_unless_false && ipb_json_bool(value, false));
}

static void
note_again(const GPtrArray *facets, const char *keyword, GString *notes)
{
    const IpbJson *first = NULL;
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *value = ipb_json_get(g_ptr_array_index(facets, i), keyword);
        if (value == NULL)
            continue;
        if (first == NULL)
            first = value;
        else if (!ipb_wtf8_equal(ipb_json_raw(first), ipb_json_raw(value)))
            ipb_schema_note_value(notes, keyword, value);
    }
}

static bool
is_checked(const IpbSchemaChecks *checks, const char *keyword)
{
    if (checks == NULL)
        return false;
    return (checks->names && g_str_equal(keyword, "propertyNames")) ||
           (checks->patterns && g_str_equal(keyword, "patternProperties")) ||
           (checks->counts && g_str_has_suffix(keyword, "Properties") &&
            g_str_has_prefix(keyword, "m"));
}

void
ipb_schema_note_annotations(const GPtrArray *facets, GString *notes)
{
    const IpbJson *examples = ipb_schema_get(facets, "examples");
    if (ipb_json_length(examples) > 0)
        ipb_schema_note_value(notes, "Examples", examples);
    const IpbJson *example = ipb_schema_get(facets, "example");
    if (example != NULL && examples == NULL)
        ipb_schema_note_value(notes, "Example", example);
    if (ipb_json_bool(ipb_schema_get(facets, "deprecated"), false))
        ipb_schema_note(notes, "Deprecated.");
}

void
ipb_schema_note_rest(const GPtrArray *facets, const IpbSchemaChecks *checks, GString *notes)
{
    ipb_schema_note_annotations(facets, notes);
    for (const char *const *keyword = UNCHECKED; *keyword != NULL; keyword++)
        for (guint i = 0; i < facets->len; i++) {
            const IpbJson *value = ipb_json_get(g_ptr_array_index(facets, i), *keyword);
            if (value != NULL && !is_no_rule(*keyword, value) && !is_checked(checks, *keyword))
                ipb_schema_note_value(notes, *keyword, value);
        }
    if (facets->len > 1)
        for (const char *const *keyword = ONCE; *keyword != NULL; keyword++)
            note_again(facets, *keyword, notes);
}
