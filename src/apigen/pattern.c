/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses a regular expression and writes its translation; see the header. The two dialects look
 * alike, but \d, \w, \s and the dot mean different sets of characters, so these are written out.
 * The cost of an expression is counted, because Rust refuses one that compiles to more than 10 MB.
 * Then the generated module could not be imported.
 */
#include "apigen/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "apigen/wtf8.h"

#define MAX_SIZE 500
#define MAX_DEPTH 20
/* The largest number in a quantifier, and the sum of all atoms times their repetitions. */
#define MAX_REPEAT 1000
#define MAX_COST 4000
/* The cost of an atom that matches almost all of Unicode, whose automaton has this many states. */
#define COST_WIDE 12

#define DIGITS "0-9"
#define WORD "0-9A-Z_a-z"
/* Rust's \s has U+0085, and does not have the byte order mark. */
#define SPACES "\\s\\x{FEFF}--\\x{85}"

typedef struct {
    IpbSpan text;
    size_t at;
    GString *out;
    unsigned depth;
    bool is_bad;
} Parser;

static long parse_alternatives(Parser *parser);

static bool
is_at_end(const Parser *parser)
{
    return parser->at >= parser->text.size;
}

/* The next byte. At the end it is NUL, which no expression contains. */
static char
peek(const Parser *parser)
{
    return is_at_end(parser) ? '\0' : parser->text.start[parser->at];
}

static bool
take(Parser *parser, const char *expected)
{
    size_t size = strlen(expected);
    if (parser->text.size - parser->at < size ||
        memcmp(parser->text.start + parser->at, expected, size) != 0)
        return false;
    parser->at += size;
    return true;
}

static long
fail(Parser *parser)
{
    parser->is_bad = true;
    return 0;
}

/* Appends a literal character, in a class or outside. */
static void
append_character(GString *out, gunichar c)
{
    if (c < 0x80 && g_ascii_isalnum((char) c))
        g_string_append_c(out, (char) c);
    else if (c < 0x80 && strchr("_@:/,;=<>!%\"'` ", (char) c) != NULL)
        g_string_append_c(out, (char) c);
    else if (c < 0x80 && g_ascii_ispunct((char) c))
        g_string_append_printf(out, "\\%c", (char) c);
    else if (c >= 0x80 && ipb_wtf8_is_visible(c))
        g_string_append_unichar(out, c);
    else
        g_string_append_printf(out, "\\x{%X}", c);
}

/* Reads the hex digits of \x41 or \u0041. */
static bool
read_hex(Parser *parser, size_t n_digits, gunichar *ret_c)
{
    gunichar c = 0;
    for (size_t i = 0; i < n_digits; i++, parser->at++) {
        int digit = g_ascii_xdigit_value(peek(parser));
        if (digit < 0)
            return false;
        c = c * 16 + (gunichar) digit;
    }
    *ret_c = c;
    return c < 0xd800 || c > 0xdfff;
}

/* Reads an escape after its backslash, if it means one character. Returns false otherwise. */
static bool
read_escape(Parser *parser, gunichar *ret_c)
{
    static const struct {
        char name;
        gunichar c;
    } CONTROLS[] = {{'t', '\t'}, {'n', '\n'}, {'r', '\r'}, {'f', '\f'}, {'v', '\v'}};
    char name = peek(parser);
    for (size_t i = 0; i < G_N_ELEMENTS(CONTROLS); i++)
        if (name == CONTROLS[i].name) {
            parser->at++;
            *ret_c = CONTROLS[i].c;
            return true;
        }
    if (take(parser, "x"))
        return read_hex(parser, 2, ret_c);
    if (take(parser, "u"))
        return read_hex(parser, 4, ret_c);
    if (!g_ascii_ispunct(name) || name == '_')
        return false;
    parser->at++;
    *ret_c = (gunichar) name;
    return true;
}

static bool
read_plain(Parser *parser, gunichar *ret_c)
{
    *ret_c = ipb_wtf8_next(parser->text, &parser->at);
    /* Without the flag u, ECMA-262 reads a character beyond the BMP as two. */
    return *ret_c != 0 && *ret_c != IPB_WTF8_REPLACEMENT && *ret_c <= 0xffff &&
           (*ret_c < 0xd800 || *ret_c > 0xdfff);
}

/* Reads d, w or s of a class escape, and returns its members; NULL if the next is another
 * character. */
static const char *
take_set(Parser *parser)
{
    return take(parser, "d")   ? DIGITS
           : take(parser, "w") ? WORD
           : take(parser, "s") ? SPACES
                               : NULL;
}

static const char *
take_negative_set(Parser *parser)
{
    return take(parser, "D")   ? DIGITS
           : take(parser, "W") ? WORD
           : take(parser, "S") ? SPACES
                               : NULL;
}

/* Reads one end of a range in a class. */
static bool
read_class_character(Parser *parser, gunichar *ret_c)
{
    if (!take(parser, "\\"))
        return read_plain(parser, ret_c);
    if (take(parser, "b")) {
        *ret_c = '\b';
        return true;
    }
    return read_escape(parser, ret_c);
}

static bool
parse_class_item(Parser *parser)
{
    size_t start = parser->at;
    if (take(parser, "\\")) {
        const char *set = take_set(parser);
        if (set != NULL) {
            g_string_append_printf(parser->out, "[%s]", set);
            size_t next = parser->at + 1;
            return peek(parser) != '-' ||
                   (next < parser->text.size && parser->text.start[next] == ']');
        }
        parser->at = start;
    }
    gunichar first, last;
    if (!read_class_character(parser, &first))
        return false;
    append_character(parser->out, first);
    bool is_range = peek(parser) == '-' && parser->at + 1 < parser->text.size &&
                    parser->text.start[parser->at + 1] != ']';
    if (!is_range)
        return true;
    parser->at++;
    if (!read_class_character(parser, &last) || last < first)
        return false;
    g_string_append_c(parser->out, '-');
    append_character(parser->out, last);
    return true;
}

/* Parses a class after its opening bracket. Returns its cost. */
static long
parse_class(Parser *parser)
{
    bool is_negative = take(parser, "^");
    g_string_append(parser->out, is_negative ? "[^" : "[");
    if (peek(parser) == ']')
        return fail(parser); /* [] matches nothing, [^] anything */
    while (!is_at_end(parser) && peek(parser) != ']')
        if (!parse_class_item(parser))
            return fail(parser);
    if (!take(parser, "]"))
        return fail(parser);
    g_string_append_c(parser->out, ']');
    return is_negative ? COST_WIDE : 3;
}

/* Parses a group after its opening parenthesis. */
static long
parse_group(Parser *parser)
{
    if (parser->depth == MAX_DEPTH)
        return fail(parser);
    if (take(parser, "?:"))
        ;
    else if (peek(parser) == '?')
        return fail(parser);
    parser->depth++;
    g_string_append(parser->out, "(?:");
    long cost = parse_alternatives(parser);
    parser->depth--;
    if (!take(parser, ")"))
        return fail(parser);
    g_string_append_c(parser->out, ')');
    return cost;
}

/* Parses an escape after its backslash. */
static long
parse_escape(Parser *parser)
{
    gunichar c;
    const char *set = take_set(parser);
    if (set != NULL) {
        g_string_append_printf(parser->out, "[%s]", set);
        return 3;
    }
    set = take_negative_set(parser);
    if (set != NULL) {
        g_string_append_printf(parser->out, "[^%s]", set);
        return COST_WIDE;
    }
    if (!read_escape(parser, &c))
        return fail(parser);
    append_character(parser->out, c);
    return 1;
}

static long
parse_atom(Parser *parser)
{
    gunichar c;
    if (take(parser, "("))
        return parse_group(parser);
    if (take(parser, "["))
        return parse_class(parser);
    if (take(parser, "\\"))
        return parse_escape(parser);
    if (take(parser, ".")) {
        g_string_append(parser->out, "[^\\n\\r\\x{2028}\\x{2029}]");
        return COST_WIDE;
    }
    if (strchr("*+?{}]", peek(parser)) != NULL || !read_plain(parser, &c))
        return fail(parser);
    append_character(parser->out, c);
    return 1;
}

static bool
read_number(Parser *parser, long *ret_number)
{
    long number = 0;
    size_t start = parser->at;
    for (; g_ascii_isdigit(peek(parser)) && number <= MAX_REPEAT; parser->at++)
        number = number * 10 + (peek(parser) - '0');
    *ret_number = number;
    return parser->at > start && number <= MAX_REPEAT;
}

/* Parses {n}, {n,} or {n,m} after the brace. Returns the number of repetitions. */
static long
parse_counts(Parser *parser)
{
    size_t start = parser->at - 1;
    long least, most;
    if (!read_number(parser, &least))
        return fail(parser);
    most = least;
    if (take(parser, ",") && peek(parser) != '}' && (!read_number(parser, &most) || most < least))
        return fail(parser);
    if (!take(parser, "}"))
        return fail(parser);
    g_string_append_len(parser->out, parser->text.start + start, (gssize) (parser->at - start));
    return MAX(most, 1);
}

/* Parses the quantifier of an atom. Returns the number of repetitions, 1 if there is none. */
static long
parse_quantifier(Parser *parser)
{
    long times = 1;
    char c = peek(parser);
    if (c != '\0' && strchr("*+?", c) != NULL) {
        g_string_append_c(parser->out, c);
        parser->at++;
    } else if (take(parser, "{")) {
        times = parse_counts(parser);
    } else {
        return 1;
    }
    if (take(parser, "?")) /* a lazy quantifier matches the same texts */
        g_string_append_c(parser->out, '?');
    c = peek(parser);
    return c != '\0' && strchr("*+?{", c) != NULL ? fail(parser) : times;
}

static long
parse_sequence(Parser *parser)
{
    long cost = 0;
    while (!parser->is_bad && !is_at_end(parser) && peek(parser) != '|' && peek(parser) != ')') {
        if (peek(parser) == '^' || peek(parser) == '$') {
            g_string_append_c(parser->out, peek(parser));
            parser->at++;
            char next = peek(parser);
            if (next != '\0' && strchr("*+?{", next) != NULL)
                return fail(parser);
            continue;
        }
        long atom = parse_atom(parser);
        if (parser->is_bad)
            return 0;
        cost += (atom + 1) * parse_quantifier(parser);
        if (cost > MAX_COST)
            return fail(parser);
    }
    return cost;
}

static long
parse_alternatives(Parser *parser)
{
    long cost = parse_sequence(parser);
    while (!parser->is_bad && take(parser, "|")) {
        g_string_append_c(parser->out, '|');
        cost += parse_sequence(parser);
    }
    return cost > MAX_COST ? fail(parser) : cost;
}

char *
ipb_pattern_translate(IpbSpan pattern)
{
    if (pattern.start == NULL || pattern.size > MAX_SIZE ||
        memchr(pattern.start, '\0', pattern.size))
        return NULL;
    g_autoptr(GString) out = g_string_new(NULL);
    Parser parser = {.text = pattern, .out = out};
    parse_alternatives(&parser);
    if (parser.is_bad || !is_at_end(&parser))
        return NULL;
    return g_string_free(g_steal_pointer(&out), FALSE);
}
