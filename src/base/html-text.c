/* SPDX-License-Identifier: Apache-2.0
 *
 * HTML as plain text; see the header. One pass, without a tree: a tag only changes where the
 * following text goes. As in browsers, an element that is never closed continues to the end.
 */
#include "base/html-text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

/* Longer HTML is not read, because the loop of all sessions waits for this function. */
#define MAX_HTML (8u * 1024 * 1024)
/* No element in the table has a longer name, and no reference is longer from `&` to `;`. */
#define MAX_NAME 16
#define MAX_REFERENCE 12

typedef struct {
    const char *at;
    GString *out;
    size_t line_start;  /* in `out` */
    bool is_space_due;  /* white space was skipped since the last text */
    unsigned pre_depth; /* of <pre>, where white space counts */
    unsigned n_cells;   /* of the row */
} Reader;

typedef enum { INLINE, BLOCK, BREAK, ROW, CELL, PRE, HIDDEN } Effect;

typedef struct {
    const char *name;
    Effect effect;
} Element;

/* Sorted by name. HIDDEN: their content is not text, or only says that a browser is needed. */
static const Element ELEMENTS[] = {
    {"address", BLOCK},    {"article", BLOCK}, {"aside", BLOCK},      {"audio", HIDDEN},
    {"blockquote", BLOCK}, {"body", BLOCK},    {"br", BREAK},         {"canvas", HIDDEN},
    {"caption", BLOCK},    {"dd", BLOCK},      {"details", BLOCK},    {"div", BLOCK},
    {"dl", BLOCK},         {"dt", BLOCK},      {"figcaption", BLOCK}, {"figure", BLOCK},
    {"footer", BLOCK},     {"form", BLOCK},    {"h1", BLOCK},         {"h2", BLOCK},
    {"h3", BLOCK},         {"h4", BLOCK},      {"h5", BLOCK},         {"h6", BLOCK},
    {"header", BLOCK},     {"hr", BLOCK},      {"iframe", HIDDEN},    {"li", BLOCK},
    {"main", BLOCK},       {"nav", BLOCK},     {"noscript", HIDDEN},  {"object", HIDDEN},
    {"ol", BLOCK},         {"p", BLOCK},       {"pre", PRE},          {"script", HIDDEN},
    {"section", BLOCK},    {"style", HIDDEN},  {"summary", BLOCK},    {"table", BLOCK},
    {"tbody", BLOCK},      {"td", CELL},       {"template", HIDDEN},  {"tfoot", BLOCK},
    {"th", CELL},          {"thead", BLOCK},   {"title", HIDDEN},     {"tr", ROW},
    {"ul", BLOCK},         {"video", HIDDEN},
};

static int
compare_name(const void *name, const void *element)
{
    return strcmp(name, ((const Element *) element)->name);
}

static Effect
effect_of(const char *name)
{
    const Element *element =
        bsearch(name, ELEMENTS, G_N_ELEMENTS(ELEMENTS), sizeof ELEMENTS[0], compare_name);
    return element != NULL ? element->effect : INLINE;
}

/* --- text ------------------------------------------------------------------------------------- */

static void
end_line(Reader *reader)
{
    reader->is_space_due = false;
    if (reader->out->len == reader->line_start)
        return;
    g_string_append_c(reader->out, '\n');
    reader->line_start = reader->out->len;
}

static void
put(Reader *reader, const char *text, size_t size)
{
    if (reader->is_space_due && reader->out->len > reader->line_start &&
        reader->out->str[reader->out->len - 1] != '\t')
        g_string_append_c(reader->out, ' ');
    reader->is_space_due = false;
    g_string_append_len(reader->out, text, (gssize) size);
}

static void
put_char(Reader *reader, char c)
{
    if (!g_ascii_isspace(c)) {
        put(reader, &c, 1);
    } else if (reader->pre_depth == 0) {
        reader->is_space_due = true;
    } else {
        g_string_append_c(reader->out, c);
        if (c == '\n')
            reader->line_start = reader->out->len;
    }
}

/* The character of "#N" or "#xN"; 0 if there is none. */
static gunichar
numbered_char(const char *name)
{
    if (name[0] != '#')
        return 0;
    bool is_hex = name[1] == 'x' || name[1] == 'X';
    guint64 number;
    if (!g_ascii_string_to_unsigned(name + (is_hex ? 2 : 1), is_hex ? 16 : 10, 1, 0x10ffff, &number,
                                    NULL))
        return 0;
    return g_unichar_validate((gunichar) number) ? (gunichar) number : 0;
}

static void
read_reference(Reader *reader)
{
    static const struct {
        const char *name, *text;
    } NAMED[] = {{"amp", "&"},   {"lt", "<"},    {"gt", ">"},     {"quot", "\""},
                 {"apos", "'"},  {"nbsp", " "},  {"hellip", "…"}, {"ndash", "–"},
                 {"mdash", "—"}, {"times", "×"}, {"middot", "·"}, {"bull", "•"}};
    const char *end = memchr(reader->at, ';', strnlen(reader->at, MAX_REFERENCE));
    g_autofree char *name =
        end != NULL ? g_strndup(reader->at + 1, (size_t) (end - reader->at) - 1) : g_strdup("");
    char encoded[6];
    gunichar numbered = numbered_char(name);
    if (numbered != 0) {
        int size = g_unichar_to_utf8(numbered, encoded);
        put(reader, encoded, (size_t) size);
        reader->at = end + 1;
        return;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(NAMED); i++) {
        if (g_str_equal(NAMED[i].name, name)) {
            put(reader, NAMED[i].text, strlen(NAMED[i].text));
            reader->at = end + 1;
            return;
        }
    }
    put_char(reader, *reader->at++);
}

/* --- tags ------------------------------------------------------------------------------------- */

/* Returns the position after the next @what, ignoring case; NULL if there is none. */
static const char *
skip_past(const char *at, const char *what)
{
    size_t size = strlen(what);
    for (; *at != '\0'; at++)
        if (g_ascii_strncasecmp(at, what, size) == 0)
            return at + size;
    return NULL;
}

/* Returns the position after the `>` that ends the tag. A `>` in quotes does not end it. */
static const char *
skip_tag(const char *at)
{
    char quote = '\0';
    for (; *at != '\0'; at++) {
        if (quote != '\0') {
            if (*at == quote)
                quote = '\0';
        } else if (*at == '>') {
            return at + 1;
        } else if ((*at == '"' || *at == '\'') && at[-1] == '=') {
            quote = *at;
        }
    }
    return at;
}

static void
skip_hidden(Reader *reader, const char *name)
{
    g_autofree char *closing = g_strconcat("</", name, NULL);
    const char *end = skip_past(reader->at, closing);
    reader->at = end != NULL ? skip_tag(end) : reader->at + strlen(reader->at);
}

static void
begin_cell(Reader *reader)
{
    reader->is_space_due = false;
    if (reader->n_cells++ > 0)
        g_string_append_c(reader->out, '\t');
}

static void
apply(Reader *reader, const char *name, bool is_closing)
{
    switch (effect_of(name)) {
    case INLINE:
        break;
    case BREAK:
        reader->is_space_due = false;
        g_string_append_c(reader->out, '\n');
        reader->line_start = reader->out->len;
        break;
    case ROW:
        reader->n_cells = 0;
        end_line(reader);
        break;
    case BLOCK:
        if (reader->n_cells == 0 || g_str_equal(name, "table")) /* not within a cell */
            end_line(reader);
        else
            reader->is_space_due = true;
        break;
    case CELL:
        if (!is_closing)
            begin_cell(reader);
        break;
    case PRE:
        end_line(reader);
        if (!is_closing)
            reader->pre_depth++;
        else if (reader->pre_depth > 0)
            reader->pre_depth--;
        break;
    case HIDDEN:
        if (!is_closing)
            skip_hidden(reader, name);
        break;
    }
    if (is_closing && g_str_equal(name, "table"))
        reader->n_cells = 0;
}

static void
read_tag(Reader *reader)
{
    const char *start = reader->at + 1;
    if (g_str_has_prefix(start, "!--")) {
        const char *end = skip_past(start + 3, "-->");
        reader->at = end != NULL ? end : start + strlen(start);
        return;
    }
    bool is_closing = *start == '/';
    const char *name = start + is_closing;
    if (!g_ascii_isalpha(*name) && *name != '!' && *name != '?') {
        put_char(reader, *reader->at++);
        return;
    }
    size_t size = 0;
    while (g_ascii_isalnum(name[size]))
        size++;
    char lower[MAX_NAME + 1] = "";
    for (size_t i = 0; i < size && i < MAX_NAME; i++)
        lower[i] = g_ascii_tolower(name[i]);
    reader->at = skip_tag(name + size);
    apply(reader, lower, is_closing);
}

/* Removes a character that is incomplete because the HTML was cut. */
static void
drop_cut_char(GString *text)
{
    const char *end;
    if (!g_utf8_validate_len(text->str, text->len, &end) && text->str + text->len - end < 4)
        g_string_truncate(text, (gsize) (end - text->str));
}

char *
ipb_html_text(const char *html)
{
    size_t size = strnlen(html, MAX_HTML + 1);
    g_autofree char *beginning = size > MAX_HTML ? g_strndup(html, MAX_HTML) : NULL;
    Reader reader = {.at = beginning != NULL ? beginning : html, .out = g_string_new(NULL)};
    while (*reader.at != '\0') {
        if (*reader.at == '<')
            read_tag(&reader);
        else if (*reader.at == '&')
            read_reference(&reader);
        else
            put_char(&reader, *reader.at++);
    }
    if (beginning != NULL) {
        drop_cut_char(reader.out);
        end_line(&reader);
        g_string_append(reader.out, "[The HTML is longer than 8 MiB: what follows is left out]");
    }
    return g_strstrip(g_string_free(reader.out, FALSE));
}
