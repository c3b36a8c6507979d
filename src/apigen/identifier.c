/* SPDX-License-Identifier: Apache-2.0
 *
 * Identifiers; see the header.
 *
 * A letter that is not ASCII is kept if its script is known to every supported version of Python
 * and is written from left to right, and if NFKC, which Python applies to identifiers, does not
 * change it.
 */
#include "apigen/identifier.h"

#include <string.h>

#include "apigen/wtf8.h"

/* Characters of a generated name without its number. */
#define MAX_NAME 60

const char *const IPB_PYTHON_KEYWORDS[] = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",    NULL,
};

bool
ipb_identifier_is_keyword(const char *name)
{
    return g_strv_contains(IPB_PYTHON_KEYWORDS, name);
}

bool
ipb_identifier_is_plain(const char *name)
{
    if (!g_ascii_isalpha(name[0]) && name[0] != '_')
        return false;
    for (const char *p = name; *p != '\0'; p++)
        if (!g_ascii_isalnum(*p) && *p != '_')
            return false;
    return !ipb_identifier_is_keyword(name);
}

/* Latin letters with accents, Greek, Cyrillic, kana, Han, Hangul: assigned long ago. */
static bool
is_known_script(gunichar c)
{
    return (c >= 0x00c0 && c <= 0x024f) || (c >= 0x0386 && c <= 0x03ff) ||
           (c >= 0x0400 && c <= 0x052f) || (c >= 0x1e00 && c <= 0x1eff) ||
           (c >= 0x3041 && c <= 0x3096) || (c >= 0x30a1 && c <= 0x30fa) ||
           (c >= 0x4e00 && c <= 0x9fa5) || (c >= 0xac00 && c <= 0xd7a3);
}

static bool
is_stable_letter(gunichar c)
{
    if (!is_known_script(c) || !g_unichar_isalpha(c))
        return false;
    char text[7] = {0};
    g_unichar_to_utf8(c, text);
    g_autofree char *normal = g_utf8_normalize(text, -1, G_NORMALIZE_NFKC);
    return g_strcmp0(normal, text) == 0;
}

static bool
is_name_character(gunichar c)
{
    return c < 0x80 ? g_ascii_isalnum((char) c) : is_stable_letter(c);
}

static bool
has_bad_start(const char *name)
{
    return name[0] == '\0' || g_ascii_isdigit(name[0]);
}

char *
ipb_identifier_make(IpbSpan wire)
{
    g_autoptr(GString) name = g_string_new(NULL);
    bool was_replaced = false, is_private = wire.size > 0 && wire.start[0] == '_';
    size_t at = 0;
    for (size_t n = 0; at < wire.size && n < MAX_NAME; n++) {
        gunichar c = ipb_wtf8_next(wire, &at);
        bool stays = c == '_' || is_name_character(c);
        if (!stays && (was_replaced || name->len == 0))
            continue;
        if (c == '_' && name->len == 0)
            continue; /* for pydantic a leading underscore means a private attribute */
        g_string_append_unichar(name, stays ? c : '_');
        was_replaced = !stays;
    }
    if (was_replaced)
        g_string_truncate(name, name->len - 1);
    if (is_private || has_bad_start(name->str))
        g_string_prepend(name, name->len > 0 ? "field_" : "field"); /* as in ipybox 0.9 */
    if (ipb_identifier_is_keyword(name->str))
        g_string_append_c(name, '_');
    return g_string_free(g_steal_pointer(&name), FALSE);
}

/* Names for signs that are a whole name. */
static const struct {
    const char *signs, *name;
} SIGNS[] = {
    {"", "empty"},       {" ", "space"},      {"\t", "tab"},       {"\n", "newline"},
    {"\r\n", "crlf"},    {",", "comma"},      {";", "semicolon"},  {":", "colon"},
    {".", "dot"},        {"..", "dots"},      {"...", "dots"},     {"|", "pipe"},
    {"/", "slash"},      {"\\", "backslash"}, {"\"", "quote"},     {"'", "apostrophe"},
    {"`", "backtick"},   {"*", "star"},       {"**", "stars"},     {"+", "plus"},
    {"-", "minus"},      {"--", "dashes"},    {"_", "underscore"}, {"=", "eq"},
    {"==", "eq"},        {"!=", "ne"},        {"<>", "ne"},        {"<", "lt"},
    {"<=", "le"},        {">", "gt"},         {">=", "ge"},        {"~", "tilde"},
    {"!~", "not_tilde"}, {"=~", "eq_tilde"},  {"!", "not"},        {"&", "ampersand"},
    {"&&", "and"},       {"||", "or"},        {"%", "percent"},    {"#", "hash"},
    {"@", "at"},         {"$", "dollar"},     {"^", "caret"},      {"?", "question"},
    {"->", "arrow"},
};

static const char *
find_sign(IpbSpan wire)
{
    for (size_t i = 0; i < G_N_ELEMENTS(SIGNS); i++)
        if (strlen(SIGNS[i].signs) == wire.size &&
            memcmp(SIGNS[i].signs, wire.start != NULL ? wire.start : "", wire.size) == 0)
            return SIGNS[i].name;
    return NULL;
}

/* Spells out the signs of numbers: "+1" → "plus 1", "at -1" → "at minus 1"; "utf-8" stays. */
static GString *
spell_signs(IpbSpan wire)
{
    GString *out = g_string_new(NULL);
    for (size_t i = 0; i < wire.size; i++) {
        bool is_number = i + 1 < wire.size && g_ascii_isdigit(wire.start[i + 1]);
        bool is_start = i == 0 || (!g_ascii_isalnum(wire.start[i - 1]) && wire.start[i - 1] >= 0);
        if (wire.start[i] == '+' && is_number)
            g_string_append(out, " plus ");
        else if (wire.start[i] == '-' && is_number && is_start)
            g_string_append(out, " minus ");
        else
            g_string_append_c(out, wire.start[i]);
    }
    return out;
}

char *
ipb_identifier_make_member(IpbSpan wire)
{
    const char *sign = find_sign(wire);
    if (sign != NULL) {
        bool is_keyword = ipb_identifier_is_keyword(sign);
        return g_strconcat(sign, is_keyword ? "_" : NULL, NULL);
    }
    g_autoptr(GString) spelled = spell_signs(wire);
    char *name = ipb_identifier_make((IpbSpan){spelled->str, spelled->len});
    static const char PREFIX[] = "field_";
    size_t size = strlen(PREFIX);
    bool is_made = wire.start[0] != '_' && g_str_has_prefix(name, PREFIX) &&
                   g_ascii_isdigit(name[size]) && !g_str_has_prefix(spelled->str, PREFIX);
    /* "_1_" would be reserved for Enum. */
    if (!is_made || g_str_has_suffix(name, "_"))
        return name;
    char *shorter = g_strdup(name + size - 1);
    g_free(name);
    return shorter;
}

char *
ipb_identifier_make_class(IpbSpan wire)
{
    g_autoptr(GString) name = g_string_new(NULL);
    bool is_start = true;
    size_t at = 0;
    for (size_t n = 0; at < wire.size && n < MAX_NAME; n++) {
        gunichar c = ipb_wtf8_next(wire, &at);
        if (!is_name_character(c)) {
            is_start = true;
            continue;
        }
        gunichar upper = g_unichar_toupper(c);
        if (is_start && is_name_character(upper))
            c = upper;
        g_string_append_unichar(name, c);
        is_start = false;
    }
    if (name->len > 0 && has_bad_start(name->str))
        g_string_prepend(name, "Type");
    return g_string_free(g_steal_pointer(&name), FALSE);
}

char *
ipb_identifier_make_singular(const char *plural)
{
    static const char *const IRREGULAR[][2] = {
        {"Children", "Child"},  {"People", "Person"},   {"Criteria", "Criterion"},
        {"Indices", "Index"},   {"Vertices", "Vertex"}, {"Matrices", "Matrix"},
        {"Series", NULL},       {"Species", NULL},      {"Analyses", "Analysis"},
        {"Men", "Man"},         {"Women", "Woman"},     {"Movies", "Movie"},
        {"Statuses", "Status"}, {"Aliases", "Alias"},   {"Buses", "Bus"},
    };
    size_t size = strlen(plural);
    for (size_t i = 0; i < G_N_ELEMENTS(IRREGULAR); i++)
        if (g_str_has_suffix(plural, IRREGULAR[i][0])) {
            size_t start = size - strlen(IRREGULAR[i][0]);
            return IRREGULAR[i][1] == NULL
                       ? g_strconcat(plural, "Item", NULL)
                       : g_strdup_printf("%.*s%s", (int) start, plural, IRREGULAR[i][1]);
        }
    if (size > 4 && g_str_has_suffix(plural, "ies"))
        return g_strdup_printf("%.*sy", (int) size - 3, plural);
    static const char *const LONG[] = {"sses", "shes", "ches", "xes", NULL};
    for (const char *const *suffix = LONG; *suffix != NULL; suffix++)
        if (size > strlen(*suffix) + 1 && g_str_has_suffix(plural, *suffix))
            return g_strndup(plural, size - 2);
    bool has_s = g_str_has_suffix(plural, "s") && !g_str_has_suffix(plural, "ss") &&
                 !g_str_has_suffix(plural, "us") && !g_str_has_suffix(plural, "is");
    if (size > 3 && has_s)
        return g_strndup(plural, size - 1);
    return g_strconcat(plural, "Item", NULL);
}
