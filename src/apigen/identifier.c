/* SPDX-License-Identifier: Apache-2.0
 *
 * Identifiers made of names from the wire; see the header.
 *
 * Letters beyond ASCII stay if they are of a script that every supported Python knows and that is
 * written from left to right, and if NFKC, which Python applies to identifiers, does not change them.
 */
#include "apigen/identifier.h"

#include <string.h>

#include "apigen/text.h"

/* Characters of a generated name, its number apart. */
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

/* Letters with and without accents, Greek, Cyrillic, kana, Han, Hangul: assigned long ago. */
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
ipb_identifier_make(IpbText wire)
{
    g_autoptr(GString) name = g_string_new(NULL);
    bool was_replaced = false, is_private = wire.size > 0 && wire.text[0] == '_';
    size_t at = 0;
    for (size_t n = 0; at < wire.size && n < MAX_NAME; n++) {
        gunichar c = ipb_text_next(wire, &at);
        bool stays = c == '_' || is_name_character(c);
        if (!stays && (was_replaced || name->len == 0))
            continue;
        if (c == '_' && name->len == 0)
            continue; /* pydantic takes leading underscores for private attributes */
        g_string_append_unichar(name, stays ? c : '_');
        was_replaced = !stays;
    }
    if (was_replaced)
        g_string_truncate(name, name->len - 1);
    if (is_private || has_bad_start(name->str))
        g_string_prepend(name, name->len > 0 ? "field_" : "field"); /* the original's name */
    if (ipb_identifier_is_keyword(name->str))
        g_string_append_c(name, '_');
    return g_string_free(g_steal_pointer(&name), FALSE);
}

char *
ipb_identifier_make_class(IpbText wire)
{
    g_autoptr(GString) name = g_string_new(NULL);
    bool is_start = true;
    size_t at = 0;
    for (size_t n = 0; at < wire.size && n < MAX_NAME; n++) {
        gunichar c = ipb_text_next(wire, &at);
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
    size_t size = strlen(plural);
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
