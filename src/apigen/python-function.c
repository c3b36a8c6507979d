/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions in Python sources; see the header. `signature_of()` in ipybox/tool_exec/catalog.py
 * reads them in the same way, for cells.
 */
#include "apigen/python-function.h"

#include <string.h>

#include <glib.h>

/* Bytes of a signature, and characters of a summary. */
#define MAX_SIGNATURE 2000
#define MAX_SUMMARY 200

static bool
is_space(char c)
{
    return c != '\0' && strchr(" \t\r\n\f", c) != NULL;
}

static bool
is_opening(char c)
{
    return c == '(' || c == '[' || c == '{';
}

static bool
is_closing(char c)
{
    return c == ')' || c == ']' || c == '}';
}

static bool
is_quote(char c)
{
    return c == '"' || c == '\'';
}

static const char *
skip_comment(const char *p)
{
    return p + strcspn(p, "\n");
}

static size_t
quote_size(const char *p)
{
    return p[1] == p[0] && p[2] == p[0] ? 3 : 1;
}

/* The end of the string that begins with the quote at @p. A short one ends with its line. */
static const char *
skip_string(const char *p)
{
    char quote = *p;
    size_t size = quote_size(p);
    for (p += size; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        else if (*p == '\n' && size == 1)
            return p;
        else if (*p == quote && (size == 1 || (p[1] == quote && p[2] == quote)))
            return p + size;
    }
    return p;
}

static const char *
skip_space(const char *p)
{
    for (; is_space(*p) || *p == '#' || (*p == '\\' && p[1] == '\n'); p++)
        if (*p == '#' && *(p = skip_comment(p)) == '\0')
            break;
    return p;
}

/* After the word @word and the space behind it, or NULL. */
static const char *
match_word(const char *p, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(p, word, size) != 0 || (p[size] != ' ' && p[size] != '\t'))
        return NULL;
    return p + size + strspn(p + size, " \t");
}

static bool
begins_function(const char *p, const char *name)
{
    const char *after = match_word(p, "async");
    p = match_word(after != NULL ? after : p, "def");
    if (p == NULL || strncmp(p, name, strlen(name)) != 0)
        return false;
    p += strlen(name);
    return p[strspn(p, " \t")] == '(';
}

static const char *
find_function(const char *source, const char *name)
{
    const char *found = NULL;
    bool is_at_start = true;
    unsigned depth = 0;
    for (const char *p = source; *p != '\0';) {
        if (is_at_start && begins_function(p, name))
            found = p;
        is_at_start = *p == '\n' && depth == 0;
        if (is_opening(*p))
            depth++;
        else if (is_closing(*p) && depth > 0)
            depth--;
        if (*p == '#')
            p = skip_comment(p);
        else if (is_quote(*p))
            p = skip_string(p);
        else
            p += *p == '\\' && p[1] != '\0' ? 2 : 1;
    }
    return found;
}

/* Appends a space where the source has some, but not inside of brackets, nor a comma there that
 * only ended a line. */
static void
append_gap(GString *out, char next)
{
    char last = out->str[out->len - 1];
    if (is_closing(next) && last == ',')
        g_string_truncate(out, out->len - 1);
    else if (!is_closing(next) && !is_opening(last))
        g_string_append_c(out, ' ');
}

/* Appends what is from @p to the colon before the body. Returns the place after the colon, or
 * NULL. */
static const char *
append_header(GString *out, const char *p)
{
    unsigned depth = 0;
    while (*p != '\0') {
        const char *next = skip_space(p);
        if (next > p && *next != '\0' && out->len > 0 && !(*next == ':' && depth == 0))
            append_gap(out, *next);
        p = next;
        if (*p == ':' && depth == 0)
            return p + 1;
        depth += is_opening(*p);
        if (is_closing(*p) && depth-- == 0)
            return NULL;
        next = is_quote(*p) ? skip_string(p) : *p != '\0' ? p + 1 : p;
        g_string_append_len(out, p, next - p);
        p = next;
    }
    return NULL;
}

/* The first line with text of the docstring at @body. NULL: there is none. */
static char *
read_summary(const char *body)
{
    const char *p = skip_space(body);
    p += *p != '\0' && strchr("rRuU", *p) != NULL;
    if (!is_quote(*p))
        return NULL;
    const char *end = skip_string(p);
    size_t size = quote_size(p);
    if ((size_t) (end - p) < 2 * size || strncmp(end - size, p, size) != 0)
        return NULL;
    g_autofree char *text = g_strndup(p + size, (gsize) (end - p) - 2 * size);
    const char *start = text + strspn(text, " \t\r\n\f");
    g_autofree char *line = g_strndup(start, strcspn(start, "\r\n"));
    g_strchomp(line);
    if (g_utf8_strlen(line, -1) <= MAX_SUMMARY)
        return *line != '\0' ? g_steal_pointer(&line) : NULL;
    g_autofree char *cut = g_utf8_substring(line, 0, MAX_SUMMARY);
    return g_strconcat(cut, "…", NULL);
}

bool
ipb_python_function_find(const char *source, const char *name, IpbPythonFunction *ret)
{
    g_autoptr(GString) header = g_string_new(NULL);
    *ret = (IpbPythonFunction){0};
    const char *start = find_function(source, name);
    const char *body = start != NULL ? append_header(header, start) : NULL;
    if (body == NULL)
        return false;
    if (header->len > MAX_SIGNATURE) {
        g_string_truncate(header, strcspn(header->str, "("));
        g_string_append(header, "(…)");
    }
    g_strdelimit(header->str, "\r\n", ' '); /* in strings */
    ret->signature = g_strdup(header->str);
    ret->summary = read_summary(body);
    return true;
}

void
ipb_python_function_clear(IpbPythonFunction *function)
{
    g_clear_pointer(&function->signature, g_free);
    g_clear_pointer(&function->summary, g_free);
}
