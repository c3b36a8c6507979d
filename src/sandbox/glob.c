/* SPDX-License-Identifier: Apache-2.0
 *
 * The automaton of a glob; see the header. A state is a position in the list of tokens; a set of states is a string of bytes, one a
 * state, which is simple and small (patterns are short).
 */
#include "sandbox/glob.h"

#include <string.h>

#include "base/error.h"
#include "sandbox/glob-private.h"

#define MAX_PATTERN 4096

typedef enum {
    TOKEN_BYTE,  /* itself */
    TOKEN_ANY,   /* one byte but "/" (of a character of several bytes, see read_token) */
    TOKEN_SET,   /* one of a set */
    TOKEN_STAR,  /* any number of bytes but "/" */
    TOKEN_DEEP,  /* any number of bytes */
    TOKEN_MAYBE, /* the two that follow, or neither */
    TOKEN_UP_TO, /* any number of bytes, then "/" */
    TOKEN_REST,  /* a continuation byte of UTF-8, any number */
    TOKEN_END,
} TokenKind;

typedef struct {
    TokenKind kind;
    unsigned char byte;
    unsigned char set[32]; /* a bit for each byte */
} Token;

struct IpbGlob {
    GArray *tokens;
};

bool
ipb_glob_is_pattern(const char *text)
{
    return strpbrk(text, "*?[]") != NULL;
}

static void
add_token(IpbGlob *glob, TokenKind kind, unsigned char byte)
{
    g_array_append_val(glob->tokens, ((Token){.kind = kind, .byte = byte}));
}

/* "[…]"; returns what follows. An empty set matches nothing; "/" is in no set. */
static const char *
read_set(IpbGlob *glob, const char *p, const char *close)
{
    Token token = {.kind = TOKEN_SET};
    bool has_wide = false;
    for (p++; p < close; p++) {
        unsigned first = (unsigned char) *p, last = first;
        if (p + 2 < close && p[1] == '-') {
            last = (unsigned char) p[2];
            p += 2;
        }
        for (unsigned c = first; c <= last; c++)
            token.set[c / 8] |= (unsigned char) (1u << (c % 8));
        has_wide |= last >= 0x80;
    }
    token.set['/' / 8] &= (unsigned char) ~(1u << ('/' % 8));
    g_array_append_val(glob->tokens, token);
    /* A set with characters of several bytes matches a little more than it says; for a denial that is the safe side. */
    if (has_wide)
        add_token(glob, TOKEN_REST, 0);
    return close + 1;
}

static const char *
read_token(IpbGlob *glob, const char *p)
{
    const char *close;
    if (p[0] == '*' && p[1] == '*' && p[2] == '/') {
        add_token(glob, TOKEN_MAYBE, 0);
        add_token(glob, TOKEN_UP_TO, 0);
        return p + 3;
    }
    if (p[0] == '*' && p[1] == '*') {
        add_token(glob, TOKEN_DEEP, 0);
        return p + 2;
    }
    if (p[0] == '*') {
        add_token(glob, TOKEN_STAR, 0);
        return p + 1;
    }
    if (p[0] == '?') {
        add_token(glob, TOKEN_ANY, 0);
        add_token(glob, TOKEN_REST, 0);
        return p + 1;
    }
    if (p[0] == '[' && (close = strchr(p, ']')) != NULL)
        return read_set(glob, p, close);
    add_token(glob, TOKEN_BYTE, (unsigned char) *p);
    return p + 1;
}

/* After a wildcard ".." would mean a different directory for each match. */
static bool
has_parent_after_wildcard(const char *pattern)
{
    const char *wildcard = strpbrk(pattern, "*?[]");
    return wildcard != NULL &&
           (strstr(wildcard, "/../") != NULL || g_str_has_suffix(wildcard, "/.."));
}

IpbGlob *
ipb_glob_new(const char *pattern, GError **error)
{
    if (strlen(pattern) > MAX_PATTERN) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the pattern is longer than %d bytes", MAX_PATTERN);
        return NULL;
    }
    if (has_parent_after_wildcard(pattern)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "\"..\" cannot follow a wildcard: \"%s\"", pattern);
        return NULL;
    }
    IpbGlob *glob = g_new0(IpbGlob, 1);
    glob->tokens = g_array_new(FALSE, FALSE, sizeof(Token));
    for (const char *p = pattern; *p != '\0';)
        p = read_token(glob, p);
    add_token(glob, TOKEN_END, 0);
    return glob;
}

void
ipb_glob_free(IpbGlob *glob)
{
    if (glob == NULL)
        return;
    g_array_unref(glob->tokens);
    g_free(glob);
}

/* --- sets of states ---------------------------------------------------------------------------- */

static const Token *
token_at(const IpbGlob *glob, size_t state)
{
    return &g_array_index(glob->tokens, Token, state);
}

size_t
ipb_glob_n_states(const IpbGlob *glob)
{
    return glob->tokens->len;
}

/* Adds what can be reached without reading anything. All such steps lead forward, so one pass does. */
static void
close_states(const IpbGlob *glob, unsigned char *states)
{
    for (size_t i = 0; i + 1 < glob->tokens->len; i++) {
        if (!states[i])
            continue;
        TokenKind kind = token_at(glob, i)->kind;
        if (kind == TOKEN_STAR || kind == TOKEN_DEEP || kind == TOKEN_MAYBE || kind == TOKEN_REST)
            states[i + 1] = 1;
        if (kind == TOKEN_MAYBE)
            states[i + 2] = 1;
    }
}

void
ipb_glob_start(const IpbGlob *glob, unsigned char *states)
{
    memset(states, 0, glob->tokens->len);
    states[0] = 1;
    close_states(glob, states);
}

static bool
is_in_set(const Token *token, unsigned char c)
{
    return (token->set[c / 8] & (1u << (c % 8))) != 0;
}

/* Does @state stay when @c is read? Does it go on to the next? */
static void
read_byte(const IpbGlob *glob, size_t state, unsigned char c, unsigned char *next)
{
    const Token *token = token_at(glob, state);
    bool stays = false, goes_on = false;
    switch (token->kind) {
    case TOKEN_BYTE:
        goes_on = c == token->byte;
        break;
    case TOKEN_ANY:
        goes_on = c != '/';
        break;
    case TOKEN_SET:
        goes_on = is_in_set(token, c);
        break;
    case TOKEN_STAR:
        stays = c != '/';
        break;
    case TOKEN_DEEP:
        stays = true;
        break;
    case TOKEN_UP_TO:
        stays = true;
        goes_on = c == '/';
        break;
    case TOKEN_REST:
        stays = (c & 0xc0) == 0x80;
        break;
    case TOKEN_MAYBE:
    case TOKEN_END:
        break;
    }
    if (stays)
        next[state] = 1;
    if (goes_on)
        next[state + 1] = 1;
}

bool
ipb_glob_feed(const IpbGlob *glob, const unsigned char *states, const char *text,
              unsigned char *ret_states)
{
    size_t n = glob->tokens->len;
    g_autofree unsigned char *current = g_memdup2(states, n);
    g_autofree unsigned char *next = g_malloc(n);
    for (const char *p = text; *p != '\0'; p++) {
        memset(next, 0, n);
        for (size_t i = 0; i < n; i++)
            if (current[i])
                read_byte(glob, i, (unsigned char) *p, next);
        close_states(glob, next);
        unsigned char *swap = current;
        current = next;
        next = swap;
    }
    memcpy(ret_states, current, n);
    return memchr(current, 1, n) != NULL;
}

bool
ipb_glob_accepts(const IpbGlob *glob, const unsigned char *states)
{
    return states[glob->tokens->len - 1] != 0;
}

bool
ipb_glob_matches(const IpbGlob *glob, const char *text)
{
    g_autofree unsigned char *states = g_malloc(glob->tokens->len);
    ipb_glob_start(glob, states);
    ipb_glob_feed(glob, states, text, states);
    return ipb_glob_accepts(glob, states);
}
