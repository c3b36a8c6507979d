/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for people; see the header.
 */
#include "base/display-text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DIALOG_WIDTH 76

/* Marks that change the direction of text, so that one name could look like another. */
static bool
is_direction_mark(gunichar c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e ||
           c == 0x200f || c == 0x061c;
}

char *
ipb_display_text_printable(const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    GString *out = g_string_new(NULL);
    for (const char *p = valid; *p != '\0'; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        if (c == '\n' || c == '\t')
            g_string_append_unichar(out, c);
        else if (c < 0x20)
            g_string_append_unichar(out, 0x2400 + c); /* control pictures: ESC becomes ␛ */
        else if (c == 0x7f)
            g_string_append_unichar(out, 0x2421);
        else if ((c >= 0x80 && c < 0xa0) || is_direction_mark(c))
            g_string_append_printf(out, "\\u%04x", c);
        else
            g_string_append_unichar(out, c);
    }
    return g_string_free(out, FALSE);
}

/* --- quoting ---------------------------------------------------------------------------------- */

/* Combining marks on one letter. */
#define MAX_MARKS 3
/* Unicode's combining class of marks over the letter: they make "=" look like "≠". */
#define CLASS_OVERLAY 1

typedef struct {
    gunichar first, last;
} Range;

/* Letters, marks and symbols that are invisible, or choose another form of the character before
 * them. */
static const Range BLANK[] = {
    {0x034f, 0x034f},   {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
    {0x2800, 0x2800},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xffa0, 0xffa0},
    {0xfff0, 0xfffc},   {0x16fe4, 0x16fe4}, {0x1d159, 0x1d159}, {0x1d173, 0x1d17a},
    {0xe0000, 0xe0fff},
};

/* The blocks that Unicode reserves for right-to-left scripts. */
static const Range RIGHT_TO_LEFT[] = {
    {0x0590, 0x08ff}, {0xfb1d, 0xfdff}, {0xfe70, 0xfeff}, {0x10800, 0x10fff}, {0x1e800, 0x1efff},
};

static bool
is_in(gunichar c, const Range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

typedef enum {
    UNSEEN,
    BASE, /* visible by itself */
    MARK, /* visible on a base */
} Kind;

static Kind
kind_of(gunichar c)
{
    if (c < 0x80)
        return c >= ' ' && c < 0x7f ? BASE : UNSEEN;
    if (is_in(c, BLANK, G_N_ELEMENTS(BLANK)) ||
        is_in(c, RIGHT_TO_LEFT, G_N_ELEMENTS(RIGHT_TO_LEFT)))
        return UNSEEN;
    switch (g_unichar_type(c)) {
    case G_UNICODE_NON_SPACING_MARK:
    case G_UNICODE_SPACING_MARK:
        return g_unichar_combining_class(c) != CLASS_OVERLAY ? MARK : UNSEEN;
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT:
    case G_UNICODE_UNASSIGNED:
    case G_UNICODE_PRIVATE_USE:
    case G_UNICODE_SURROGATE:
    case G_UNICODE_ENCLOSING_MARK:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
    case G_UNICODE_SPACE_SEPARATOR:
        return UNSEEN;
    case G_UNICODE_LOWERCASE_LETTER:
    case G_UNICODE_MODIFIER_LETTER:
    case G_UNICODE_OTHER_LETTER:
    case G_UNICODE_TITLECASE_LETTER:
    case G_UNICODE_UPPERCASE_LETTER:
    case G_UNICODE_DECIMAL_NUMBER:
    case G_UNICODE_LETTER_NUMBER:
    case G_UNICODE_OTHER_NUMBER:
    case G_UNICODE_CONNECT_PUNCTUATION:
    case G_UNICODE_DASH_PUNCTUATION:
    case G_UNICODE_CLOSE_PUNCTUATION:
    case G_UNICODE_FINAL_PUNCTUATION:
    case G_UNICODE_INITIAL_PUNCTUATION:
    case G_UNICODE_OTHER_PUNCTUATION:
    case G_UNICODE_OPEN_PUNCTUATION:
    case G_UNICODE_CURRENCY_SYMBOL:
    case G_UNICODE_MODIFIER_SYMBOL:
    case G_UNICODE_MATH_SYMBOL:
    case G_UNICODE_OTHER_SYMBOL:
    default:
        return BASE;
    }
}

static void
append_escape(GString *out, gunichar c)
{
    if (c >= 0x10000)
        g_string_append_printf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                               0xdc00 + ((c - 0x10000) & 0x3ff));
    else
        g_string_append_printf(out, "\\u%04x", c);
}

/* The character at @p, of @size bytes at least 1, and how many bytes it takes. */
static gunichar
decode(const char *p, size_t size, size_t *ret_size)
{
    const uint8_t *bytes = (const uint8_t *) p;
    *ret_size = 1;
    if (bytes[0] < 0x80)
        return bytes[0];
    gunichar c = g_utf8_get_char_validated(p, (gssize) size);
    if (c < 0x110000) {
        *ret_size = (size_t) g_utf8_skip[bytes[0]];
        return c;
    }
    if (size >= 3 && bytes[0] == 0xed && bytes[1] >= 0xa0 && bytes[1] < 0xc0 && bytes[2] >= 0x80 &&
        bytes[2] < 0xc0) {
        *ret_size = 3;
        return 0xd000 | (gunichar) (bytes[1] & 0x3f) << 6 | (bytes[2] & 0x3f);
    }
    return 0xfffd;
}

/* What the characters so far mean for the next one. */
typedef struct {
    gunichar base; /* the character that a mark may be on; 0: none */
    unsigned n_marks;
} State;

static bool
is_seen(gunichar c, State *state)
{
    gunichar composed;
    Kind kind = kind_of(c);
    bool is_composed = state->base != 0 && g_unichar_compose(state->base, c, &composed);
    if (kind == BASE && !is_composed) {
        *state = (State){.base = c != ' ' ? c : 0};
        return true;
    }
    if (kind == MARK && !is_composed && state->base != 0 && state->n_marks < MAX_MARKS) {
        state->n_marks++;
        return true;
    }
    *state = (State){0};
    return false;
}

static void
append_ascii(GString *out, char c)
{
    static const char NAMED[] = "\bb\ff\nn\rr\tt";
    const char *name = c != '\0' ? strchr(NAMED, c) : NULL;
    if (c == '"' || c == '\\')
        g_string_append_c(out, '\\');
    if (name != NULL && (name - NAMED) % 2 == 0) {
        g_string_append_c(out, '\\');
        g_string_append_c(out, name[1]);
    } else if (c < ' ' || c == 0x7f) {
        append_escape(out, (gunichar) c);
    } else {
        g_string_append_c(out, c);
    }
}

void
ipb_display_text_quote(GString *out, const char *text, size_t size)
{
    State state = {0};
    g_string_append_c(out, '"');
    for (size_t at = 0, taken; at < size; at += taken) {
        gunichar c = decode(text + at, size - at, &taken);
        bool is_valid = c != 0xfffd || taken == 3;
        bool is_shown = is_seen(c, &state) && is_valid;
        if (c < 0x80)
            append_ascii(out, (char) c);
        else if (is_shown)
            g_string_append_len(out, text + at, (gssize) taken);
        else
            append_escape(out, c);
    }
    g_string_append_c(out, '"');
}

void
ipb_display_text_quote_name(GString *out, const char *name)
{
    size_t size = strlen(name);
    size_t n_plain =
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
    if (size > 0 && n_plain == size)
        g_string_append(out, name);
    else
        ipb_display_text_quote(out, name, size);
}

char *
ipb_display_text_to_ascii(const char *text)
{
    GString *out = g_string_new(NULL);
    for (const char *p = text; *p != '\0'; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        if (c < 0x80)
            g_string_append_c(out, (char) c);
        else
            append_escape(out, c);
    }
    return g_string_free(out, FALSE);
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool
is_mark(gunichar c)
{
    return g_unichar_ismark(c);
}

static unsigned
width_of(gunichar c)
{
    bool is_symbol =
        c >= 0x80 && g_unichar_type(c) == G_UNICODE_OTHER_SYMBOL; /* emoji are wide in some fonts */
    return is_symbol || g_unichar_iswide(c) || g_unichar_iswide_cjk(c) ? 2 : 1;
}

/* The end of the character at @p with its combining marks, and their width. A mark counts as wide
 * as on terminals that show it beside the character. */
static const char *
find_end(const char *p, unsigned *ret_width)
{
    *ret_width = width_of(g_utf8_get_char(p));
    for (p = g_utf8_next_char(p); *p != '\0' && is_mark(g_utf8_get_char(p));
         p = g_utf8_next_char(p))
        *ret_width += width_of(g_utf8_get_char(p));
    return p;
}

static void
add_line(GPtrArray *rows, const char *line, unsigned width)
{
    GString *row = g_string_new(NULL);
    unsigned used = 0, added;
    for (const char *p = line, *end; *p != '\0'; p = end) {
        end = find_end(p, &added);
        if (used + added > width) {
            g_ptr_array_add(rows, g_string_free(row, FALSE));
            row = g_string_new(IPB_DISPLAY_TEXT_CONTINUED);
            used = strlen(IPB_DISPLAY_TEXT_CONTINUED);
        }
        g_string_append_len(row, p, end - p);
        used += added;
    }
    g_ptr_array_add(rows, g_string_free(row, FALSE));
}

GPtrArray *
ipb_display_text_rows(const char *text, unsigned width)
{
    GPtrArray *rows = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line != NULL; line++)
        add_line(rows, *line, MAX(width, IPB_DISPLAY_TEXT_MIN_WIDTH));
    return rows;
}

GPtrArray *
ipb_display_text_dialog_rows(const char *text, bool *ret_fits)
{
    GPtrArray *rows = ipb_display_text_rows(text, DIALOG_WIDTH);
    *ret_fits = g_utf8_strlen(text, -1) <= IPB_DIALOG_MAX_CHARS && rows->len <= IPB_DIALOG_MAX_ROWS;
    return rows;
}
