/* SPDX-License-Identifier: Apache-2.0
 *
 * Docstrings; see the header. Characters that a reader cannot see become U+FFFD. Then only two
 * characters need escapes: the backslash, and a quote that could end the docstring together with
 * its neighbours.
 */
#include "apigen/docstring.h"

#include <string.h>

#include "apigen/wtf8.h"

#define WIDTH 100
#define TAB_SIZE 4
/* Columns of indentation of a description's lines that are kept. */
#define MAX_KEPT_INDENT 24
#define MAX_DOCSTRING_CHARACTERS 20000

/* The text with \n for every kind of line end, spaces for tabs, and no invisible characters. */
static GString *
normalize(IpbSpan text)
{
    GString *out = g_string_new(NULL);
    size_t n = 0;
    for (size_t at = 0; at < text.size; n++) {
        if (n == MAX_DOCSTRING_CHARACTERS) {
            g_string_append(out, " … (the rest is cut)");
            break;
        }
        gunichar c = ipb_wtf8_next(text, &at);
        if (c == '\r' && at < text.size && text.start[at] == '\n')
            at++;
        if (c == '\n' || c == '\r' || c == '\v' || c == '\f' || c == 0x85 || c == 0x2028 ||
            c == 0x2029)
            g_string_append_c(out, '\n');
        else if (c == '\t')
            g_string_append_printf(out, "%*s", TAB_SIZE, "");
        else
            g_string_append_unichar(out, ipb_wtf8_is_visible(c) ? c : IPB_WTF8_REPLACEMENT);
    }
    return out;
}

static size_t
indentation(const char *line)
{
    return strspn(line, " ");
}

/* Removes the indentation that all lines but the first have in common, as in a docstring that was
 * sent as it is in its source. Removes spaces at the ends of lines, too. */
static void
dedent(char **lines)
{
    size_t common = SIZE_MAX;
    for (char **line = lines; *line != NULL; line++) {
        g_strchomp(*line);
        if (line > lines && **line != '\0')
            common = MIN(common, indentation(*line));
    }
    g_strchug(lines[0]);
    for (char **line = lines + 1; lines[0] != NULL && *line != NULL; line++) {
        size_t size = strlen(*line);
        size_t cut = MIN(common, size);
        size_t kept = indentation(*line + cut);
        cut += kept > MAX_KEPT_INDENT ? kept - MAX_KEPT_INDENT : 0;
        memmove(*line, *line + cut, size - cut + 1);
    }
}

/* Escapes backslashes, each quote that follows a quote, and a quote at the end of the line. So
 * there are never three quotes in a row. */
static char *
escape_docstring(const char *line)
{
    GString *out = g_string_new(NULL);
    for (const char *p = line; *p != '\0'; p++) {
        bool ends = *p == '"' && (p[1] == '\0' || (p > line && p[-1] == '"'));
        if (*p == '\\' || ends)
            g_string_append_c(out, '\\');
        g_string_append_c(out, *p);
    }
    return g_string_free(out, FALSE);
}

/* Where to break a line that is longer than @width characters: the last space within the width, or
 * the first one after it. NULL: the line fits or cannot be broken. */
static const char *
find_break(const char *line, size_t width)
{
    const char *start = line + indentation(line), *found = NULL;
    size_t n = (size_t) (start - line);
    for (const char *p = start; *p != '\0'; p = g_utf8_next_char(p), n++) {
        if (n >= width && found != NULL)
            return found;
        if (*p == ' ' && p[1] != ' ' && p > start)
            found = p;
    }
    return n > width ? found : NULL;
}

/* The indentation of the rows after the first: under the text of a list's item. */
static size_t
continuation_indent(const char *line)
{
    size_t indent = indentation(line);
    const char *text = line + indent;
    if ((text[0] == '-' || text[0] == '*') && text[1] == ' ')
        return indent + 2;
    size_t digits = strspn(text, "0123456789");
    if (digits > 0 && digits < 4 && text[digits] == '.' && text[digits + 1] == ' ')
        return indent + digits + 2;
    return indent;
}

/* @used: columns of the first row that are used already. */
static void
append_wrapped(GString *out, unsigned indent, size_t used, const char *line)
{
    size_t hang = MIN(continuation_indent(line), MAX_KEPT_INDENT);
    g_autofree char *rest = g_strdup(line);
    size_t width = WIDTH - indent - used;
    for (const char *end; (end = find_break(rest, width)) != NULL; width = WIDTH - indent) {
        g_string_append_len(out, rest, end - rest);
        g_strchomp(out->str);
        out->len = strlen(out->str);
        g_string_append_printf(out, "\n%*s", (int) indent, "");
        char *next = g_strdup_printf("%*s%s", (int) hang, "", end + 1);
        g_free(rest);
        rest = next;
    }
    g_string_append(out, rest);
}

static void
append_lines(GString *out, unsigned indent, char **lines)
{
    bool is_first = true, was_blank = false;
    for (char **line = lines; *line != NULL; line++) {
        if (**line == '\0') {
            was_blank = !is_first;
            continue;
        }
        if (!is_first)
            g_string_append_printf(out, "%s\n%*s", was_blank ? "\n" : "", (int) indent, "");
        g_autofree char *escaped = escape_docstring(*line);
        append_wrapped(out, indent, is_first ? strlen("\"\"\"") : 0, escaped);
        is_first = was_blank = false;
    }
}

static void
append_paragraphs(GString *out, unsigned indent, IpbSpan text)
{
    g_autoptr(GString) normal = normalize(text);
    g_auto(GStrv) lines = g_strsplit(normal->str, "\n", -1);
    if (lines[0] != NULL)
        dedent(lines);
    append_lines(out, indent, lines);
}

/* Appends notes to a description: in parentheses if both fit on one line, else on their own
 * lines. */
static void
join(GString *body, const GString *notes, unsigned indent)
{
    if (body->len == 0 || notes->len == 0) {
        g_string_append_len(body, notes->str, (gssize) notes->len);
        return;
    }
    long size = g_utf8_strlen(body->str, -1) + g_utf8_strlen(notes->str, -1);
    bool is_short = size + (long) indent + (long) strlen("\"\"\" ()\"\"\"") <= WIDTH &&
                    strchr(body->str, '\n') == NULL && strchr(notes->str, '\n') == NULL;
    if (is_short)
        g_string_append_printf(body, " (%s)", notes->str);
    else
        g_string_append_printf(body, "\n%*s%s", (int) indent, "", notes->str);
}

bool
ipb_docstring_append(GString *out, unsigned indent, IpbSpan text, const char *notes)
{
    g_autoptr(GString) body = g_string_new(NULL);
    append_paragraphs(body, indent, text);
    g_autoptr(GString) extra = g_string_new(NULL);
    append_paragraphs(extra, indent, ipb_wtf8_from(notes));
    join(body, extra, indent);
    if (body->len == 0)
        return false;
    bool is_short = strchr(body->str, '\n') == NULL &&
                    g_utf8_strlen(body->str, -1) + (long) indent + 6 <= WIDTH;
    g_string_append_printf(out, "%*s\"\"\"%s", (int) indent, "", body->str);
    if (!is_short)
        g_string_append_printf(out, "\n%*s", (int) indent, "");
    g_string_append(out, "\"\"\"\n");
    return true;
}
