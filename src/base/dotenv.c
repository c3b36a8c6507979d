/* SPDX-License-Identifier: Apache-2.0
 *
 * A small recursive-descent reader of one text; see the header. It never fails as a whole.
 */
#include "base/dotenv.h"

#include <string.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/utf8.h"

#define MAX_FILE (1024 * 1024)
/* More would not help, and a binary file of that name would fill a log. */
#define MAX_WARNINGS 20

typedef struct {
    const char *at;
    const char *end;
    unsigned line;
    GPtrArray *names;  /* char *, in order */
    GHashTable *pairs; /* name (owned) → "NAME=value" */
    GPtrArray *warnings;
} Reader;

static bool
is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

/* Space that does not end a line. */
static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f' || c == '\v';
}

static char
peek(const Reader *reader)
{
    return reader->at < reader->end ? *reader->at : '\n';
}

/* One character, or one line end ("\r\n" is one), counted. */
static void
advance(Reader *reader)
{
    char c = *reader->at++;
    if (c == '\r' && reader->at < reader->end && *reader->at == '\n')
        reader->at++;
    if (is_line_end(c))
        reader->line++;
}

static void
skip_blanks(Reader *reader)
{
    while (reader->at < reader->end && is_blank(*reader->at))
        reader->at++;
}

static void
skip_line(Reader *reader)
{
    while (reader->at < reader->end && !is_line_end(*reader->at))
        reader->at++;
    if (reader->at < reader->end)
        advance(reader);
}

/* Skips "export" and a blank, which are not part of the name. */
static void
skip_export(Reader *reader)
{
    size_t left = (size_t) (reader->end - reader->at);
    if (left > 6 && memcmp(reader->at, "export", 6) == 0 && is_blank(reader->at[6])) {
        const char *start = reader->at;
        reader->at += 6;
        skip_blanks(reader);
        if (peek(reader) == '=') /* a variable named export */
            reader->at = start;
    }
}

/* The character that "\@c" means in double quotes; '\0' if it is not an escape. */
static char
unescape(char c)
{
    static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = c != '\0' ? strchr(letters, c) : NULL;
    return at != NULL ? meanings[at - letters] : '\0';
}

/* Reads a quoted text with its quotes. Returns false if it does not end. In single quotes only \\
 * and \' are escapes. Other backslashes are ordinary characters. */
static bool
read_quoted(Reader *reader, GString *out)
{
    char quote = *reader->at++;
    while (reader->at < reader->end) {
        char c = *reader->at;
        if (c == quote) {
            reader->at++;
            return true;
        }
        if (c == '\\' && reader->at + 1 < reader->end) {
            char next = reader->at[1];
            char meant = quote == '"' || next == '\\' || next == '\'' ? unescape(next) : '\0';
            if (meant != '\0') {
                g_string_append_c(out, meant);
                reader->at += 2;
                continue;
            }
        }
        g_string_append_c(out, c == '\r' ? '\n' : c);
        advance(reader);
    }
    return false;
}

/* Reads up to the end of the line, or up to a comment, which begins with a blank and '#'. */
static void
read_unquoted(Reader *reader, GString *out)
{
    const char *start = reader->at;
    while (reader->at < reader->end && !is_line_end(*reader->at)) {
        if (*reader->at == '#' && (reader->at == start || is_blank(reader->at[-1])))
            break;
        reader->at++;
    }
    const char *stop = reader->at;
    while (stop > start && is_blank(stop[-1]))
        stop--;
    g_string_append_len(out, start, stop - start);
}

/* NULL, or why the name cannot be read. */
static const char *
read_name(Reader *reader, GString *out)
{
    if (peek(reader) == '\'') {
        if (!read_quoted(reader, out))
            return "the quoted name does not end";
    } else {
        const char *start = reader->at;
        while (!is_line_end(peek(reader)) && !is_blank(peek(reader)) && peek(reader) != '=' &&
               peek(reader) != '#')
            reader->at++;
        g_string_append_len(out, start, reader->at - start);
    }
    if (out->len == 0)
        return "there is no name before \"=\"";
    if (strpbrk(out->str, "=\n") != NULL || strlen(out->str) != out->len)
        return "the name contains a character that names may not contain";
    return NULL;
}

/* NULL, or why the value cannot be read. */
static const char *
read_value(Reader *reader, GString *out)
{
    skip_blanks(reader);
    bool is_quoted = peek(reader) == '"' || peek(reader) == '\'';
    if (!is_quoted)
        read_unquoted(reader, out);
    else if (!read_quoted(reader, out))
        return "the quoted value does not end";
    return strlen(out->str) == out->len ? NULL : "the value contains a NUL byte";
}

/* Whether only blanks and a comment follow the statement. */
static bool
is_rest_of_line_empty(Reader *reader)
{
    skip_blanks(reader);
    return is_line_end(peek(reader)) || peek(reader) == '#';
}

static void
define(Reader *reader, const char *name, const char *value)
{
    if (!g_hash_table_contains(reader->pairs, name))
        g_ptr_array_add(reader->names, g_strdup(name));
    g_hash_table_replace(reader->pairs, g_strdup(name), g_strconcat(name, "=", value, NULL));
}

/* NULL, or what is wrong with the statement that begins here. */
static const char *
read_statement(Reader *reader)
{
    g_autoptr(GString) name = g_string_new(NULL);
    g_autoptr(GString) value = g_string_new(NULL);
    skip_export(reader);
    const char *problem = read_name(reader, name);
    if (problem != NULL)
        return problem;
    skip_blanks(reader);
    bool has_value = peek(reader) == '=';
    if (has_value) {
        reader->at++;
        problem = read_value(reader, value);
        if (problem != NULL)
            return problem;
    }
    if (!is_rest_of_line_empty(reader))
        return has_value ? "there is text after the quoted value" : "this is not \"NAME=value\"";
    if (has_value)
        define(reader, name->str, value->str);
    return NULL;
}

static void
warn(Reader *reader, unsigned line, const char *problem)
{
    if (reader->warnings == NULL || reader->warnings->len >= MAX_WARNINGS)
        return;
    g_ptr_array_add(reader->warnings, g_strdup_printf("line %u: %s; ignored", line, problem));
}

static void
read_line(Reader *reader)
{
    skip_blanks(reader);
    if (!is_line_end(peek(reader)) && peek(reader) != '#') {
        Reader start = *reader;
        const char *problem = read_statement(reader);
        if (problem != NULL) {
            /* Skip only the first line: a quote that never ends must not swallow the rest. */
            warn(reader, start.line, problem);
            reader->at = start.at;
            reader->line = start.line;
        }
    }
    skip_line(reader);
}

char **
ipb_dotenv_parse(const char *text, size_t size, GPtrArray *warnings)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) pairs = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    ipb_utf8_skip_mark(&text, &size);
    Reader reader = {text, text + size, 1, names, pairs, warnings};
    while (reader.at < reader.end)
        read_line(&reader);
    char **env = g_new0(char *, names->len + 1);
    for (guint i = 0; i < names->len; i++)
        env[i] = g_strdup(g_hash_table_lookup(pairs, g_ptr_array_index(names, i)));
    return env;
}

/* Puts the path in front of the warnings from index @from on. */
static void
prefix_warnings(GPtrArray *warnings, guint from, const char *path)
{
    for (guint i = from; warnings != NULL && i < warnings->len; i++) {
        char *bare = g_ptr_array_index(warnings, i);
        g_ptr_array_index(warnings, i) = g_strdup_printf("%s, %s", path, bare);
        g_free(bare);
    }
}

bool
ipb_dotenv_load(const char *base, const char *path, GPtrArray *warnings, char ***ret_env,
                GError **error)
{
    g_autofree char *text = NULL;
    size_t size = 0;
    g_autoptr(GError) failure = NULL;
    if (!ipb_beneath_read_in(base, path, MAX_FILE, &text, &size, &failure) &&
        !g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return false;
    }
    guint n_before = warnings != NULL ? warnings->len : 0;
    *ret_env = ipb_dotenv_parse(text != NULL ? text : "", size, warnings);
    prefix_warnings(warnings, n_before, path);
    return true;
}
