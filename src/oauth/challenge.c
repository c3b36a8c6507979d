/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads WWW-Authenticate; see the header. A challenge is a scheme, followed by parameters separated
 * by commas, or by one token68. A comma may also begin the next challenge, which is recognized by a
 * token without "=" after it.
 */
#include "oauth/challenge.h"

#include <string.h>

#define MAX_SCOPE_WORDS 200

typedef struct {
    const char *at, *end;
} Reader;

static bool
is_token_char(char c)
{
    return g_ascii_isalnum(c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static void
skip(Reader *reader, const char *characters)
{
    while (reader->at < reader->end && *reader->at != '\0' &&
           strchr(characters, *reader->at) != NULL)
        reader->at++;
}

/* NULL: there is no token here. */
static char *
take_token(Reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end && is_token_char(*reader->at))
        reader->at++;
    return reader->at > start ? g_strndup(start, (gsize) (reader->at - start)) : NULL;
}

/* NULL: the closing quote is missing. */
static char *
take_quoted(Reader *reader)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (reader->at++; reader->at < reader->end; reader->at++) {
        if (*reader->at == '"') {
            reader->at++;
            return g_strdup(text->str);
        }
        if (*reader->at == '\\' && ++reader->at == reader->end)
            break;
        g_string_append_c(text, *reader->at);
    }
    return NULL;
}

static char *
take_value(Reader *reader)
{
    skip(reader, " \t");
    if (reader->at < reader->end && *reader->at == '"')
        return take_quoted(reader);
    /* A URL without quotes is not a token, but some servers write one. */
    const char *start = reader->at;
    while (reader->at<reader->end && * reader->at> ' ' && *reader->at < 0x7f &&
           strchr(",\"", *reader->at) == NULL)
        reader->at++;
    return reader->at > start ? g_strndup(start, (gsize) (reader->at - start)) : NULL;
}

static bool
is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text >= 0x7f)
            return false;
    return true;
}

/* The first of equal names counts. */
static void
set_member(IpbOAuthChallenge *challenge, const char *name, const char *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } MEMBERS[] = {
        {"error", G_STRUCT_OFFSET(IpbOAuthChallenge, error)},
        {"error_description", G_STRUCT_OFFSET(IpbOAuthChallenge, error_description)},
        {"resource_metadata", G_STRUCT_OFFSET(IpbOAuthChallenge, resource_metadata)},
    };
    if (!is_printable(value))
        return;
    if (g_ascii_strcasecmp(name, "scope") == 0 && challenge->scope == NULL)
        challenge->scope = ipb_oauth_scope_union(value, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(MEMBERS); i++) {
        char **member = &G_STRUCT_MEMBER(char *, challenge, MEMBERS[i].offset);
        if (g_ascii_strcasecmp(name, MEMBERS[i].name) == 0 && *member == NULL && *value != '\0')
            *member = g_strdup(value);
    }
}

/* Reads the parameters of a challenge, into @challenge unless it is NULL. Ends before the next
 * challenge. */
static bool
read_parameters(Reader *reader, IpbOAuthChallenge *challenge)
{
    for (;;) {
        skip(reader, " \t,");
        const char *start = reader->at;
        g_autofree char *name = take_token(reader);
        if (name == NULL)
            return reader->at == reader->end;
        skip(reader, " \t");
        if (reader->at == reader->end || *reader->at != '=') {
            reader->at = start;
            return true;
        }
        reader->at++;
        g_autofree char *value = take_value(reader);
        if (value == NULL)
            return false;
        if (challenge != NULL)
            set_member(challenge, name, value);
    }
}

static void
skip_token68(Reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end &&
           (g_ascii_isalnum(*reader->at) || strchr("-._~+/", *reader->at) != NULL))
        reader->at++;
    skip(reader, "=");
    skip(reader, " \t");
    /* It was a parameter, not a token68. */
    if (reader->at < reader->end && *reader->at != ',')
        reader->at = start;
}

static void
read_header(const char *header, IpbOAuthChallenge *challenge)
{
    Reader reader = {header, header + strnlen(header, IPB_OAUTH_MAX_CHALLENGE)};
    while (!challenge->is_bearer) {
        skip(&reader, " \t,");
        g_autofree char *scheme = take_token(&reader);
        if (scheme == NULL)
            return;
        skip(&reader, " \t");
        challenge->is_bearer = g_ascii_strcasecmp(scheme, "Bearer") == 0;
        if (!challenge->is_bearer)
            skip_token68(&reader);
        if (!read_parameters(&reader, challenge->is_bearer ? challenge : NULL))
            return;
    }
}

void
ipb_oauth_challenge_parse(const char *const *headers, IpbOAuthChallenge *ret_challenge)
{
    *ret_challenge = (IpbOAuthChallenge){0};
    for (; headers != NULL && *headers != NULL && !ret_challenge->is_bearer; headers++)
        read_header(*headers, ret_challenge);
}

void
ipb_oauth_challenge_clear(IpbOAuthChallenge *challenge)
{
    g_clear_pointer(&challenge->scope, g_free);
    g_clear_pointer(&challenge->error, g_free);
    g_clear_pointer(&challenge->error_description, g_free);
    g_clear_pointer(&challenge->resource_metadata, g_free);
    challenge->is_bearer = false;
}

/* scope-token: visible ASCII without quote and backslash. */
static bool
is_scope_word(const char *word)
{
    for (const char *c = word; *c != '\0'; c++)
        if (*c <= ' ' || *c >= 0x7f || *c == '"' || *c == '\\')
            return false;
    return *word != '\0';
}

static void
add_words(GPtrArray *words, char **list)
{
    for (; *list != NULL; list++)
        if (is_scope_word(*list) && words->len < MAX_SCOPE_WORDS &&
            !g_ptr_array_find_with_equal_func(words, *list, g_str_equal, NULL))
            g_ptr_array_add(words, *list);
}

char *
ipb_oauth_scope_union(const char *a, const char *b)
{
    g_autoptr(GPtrArray) words = g_ptr_array_new();
    g_auto(GStrv) first = g_strsplit(a != NULL ? a : "", " ", -1);
    g_auto(GStrv) second = g_strsplit(b != NULL ? b : "", " ", -1);
    add_words(words, first);
    add_words(words, second);
    if (words->len == 0)
        return NULL;
    g_ptr_array_add(words, NULL);
    return g_strjoinv(" ", (char **) words->pdata);
}

bool
ipb_oauth_scope_has(const char *scope, const char *word)
{
    g_auto(GStrv) words = g_strsplit(scope != NULL ? scope : "", " ", -1);
    return g_strv_contains((const char *const *) words, word);
}
