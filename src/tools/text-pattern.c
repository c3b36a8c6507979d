/* SPDX-License-Identifier: Apache-2.0
 *
 * Text patterns; see the header. A pattern is a sequence of tokens. State i means that the first i
 * tokens have matched the text so far. The states are the bits of a set. For each byte, two sets
 * say which tokens may match it and advance (step), and which may match it and stay (stay).
 *
 * A character may have several bytes. A token for one character matches the first byte; the state
 * after it stays for bytes that continue the character.
 */
#include "tools/text-pattern.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"

#define WORD_BITS 64
#define N_WORDS 8
/* There is one more state than tokens. */
#define MAX_TOKENS (N_WORDS * WORD_BITS - 1)

typedef struct {
    uint64_t words[N_WORDS];
} StateSet;

struct IpbTextPattern {
    unsigned n_tokens;
    unsigned n_words; /* words in use */
    bool has_wildcard;
    StateSet step[256];
    StateSet stay[256];
    StateSet optional; /* tokens that may match nothing: stars */
};

static void
add_state(StateSet *set, unsigned state)
{
    set->words[state / WORD_BITS] |= UINT64_C(1) << (state % WORD_BITS);
}

static bool
has_state(const StateSet *set, unsigned state)
{
    return (set->words[state / WORD_BITS] >> (state % WORD_BITS) & 1) != 0;
}

static bool
continues_character(unsigned byte)
{
    return (byte & 0xc0) == 0x80;
}

/* --- compiling --- */

static void
add_star(IpbTextPattern *pattern, bool with_slash)
{
    unsigned token = pattern->n_tokens++;
    pattern->has_wildcard = true;
    add_state(&pattern->optional, token);
    for (unsigned byte = 0; byte < 256; byte++)
        if (with_slash || byte != '/')
            add_state(&pattern->stay[byte], token);
}

/* @members: the ASCII characters that match; @with_others: all other characters match, too. */
static void
add_character(IpbTextPattern *pattern, const bool members[128], bool with_others)
{
    unsigned token = pattern->n_tokens++;
    pattern->has_wildcard = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (continues_character(byte))
            add_state(&pattern->stay[byte], token + 1);
        else if (byte < 128 ? members[byte] : with_others)
            add_state(&pattern->step[byte], token);
    }
}

static void
add_byte(IpbTextPattern *pattern, unsigned char byte)
{
    add_state(&pattern->step[byte], pattern->n_tokens++);
}

static void
add_any_character(IpbTextPattern *pattern)
{
    bool members[128];
    memset(members, true, sizeof members);
    members['/'] = false;
    add_character(pattern, members, /* with_others= */ true);
}

/* Adds the set that begins after "[" at @text. Returns what follows its "]", or NULL. A "]" that
 * comes first is a member. */
static const char *
add_set(IpbTextPattern *pattern, const char *text)
{
    bool members[128] = {false};
    bool is_negated = *text == '!' || *text == '^';
    const unsigned char *p = (const unsigned char *) text + is_negated;
    do {
        unsigned first = *p, last = first;
        if (p[0] != '\0' && p[1] == '-' && p[2] != ']' && p[2] != '\0') {
            last = p[2];
            p += 2;
        }
        if (first == '\0' || first >= 128 || last >= 128 || last < first)
            return NULL;
        memset(members + first, true, last - first + 1);
        p++;
    } while (*p != ']');
    for (unsigned i = 0; is_negated && i < 128; i++)
        members[i] = !members[i];
    members['/'] = false;
    add_character(pattern, members, is_negated);
    return (const char *) p + 1;
}

static const char *
add_stars(IpbTextPattern *pattern, const char *text)
{
    size_t n = strspn(text, "*");
    add_star(pattern, /* with_slash= */ n > 1);
    return text + n;
}

/* Returns what is wrong with the pattern, or NULL. */
static const char *
compile(IpbTextPattern *pattern, const char *text)
{
    while (*text != '\0') {
        if (pattern->n_tokens >= MAX_TOKENS)
            return "is too long";
        if (*text == '*') {
            text = add_stars(pattern, text);
        } else if (*text == '?') {
            add_any_character(pattern);
            text++;
        } else if (*text == '[') {
            text = add_set(pattern, text + 1);
            if (text == NULL)
                return "contains a set that is not closed, is empty or has characters other "
                       "than ASCII; write \\[ for the character itself";
        } else {
            text += *text == '\\';
            if (*text == '\0')
                return "ends with a backslash";
            add_byte(pattern, (unsigned char) *text++);
        }
    }
    return NULL;
}

IpbTextPattern *
ipb_text_pattern_new(const char *text, GError **error)
{
    g_autoptr(IpbTextPattern) pattern = g_new0(IpbTextPattern, 1);
    const char *problem = compile(pattern, text);
    if (problem != NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the pattern \"%.100s\" %s", text,
                    problem);
        return NULL;
    }
    pattern->n_words = pattern->n_tokens / WORD_BITS + 1;
    return g_steal_pointer(&pattern);
}

void
ipb_text_pattern_free(IpbTextPattern *pattern)
{
    g_free(pattern);
}

/* --- matching --- */

/* Adds the next state of each state in @from, restricted to @tokens. */
static void
advance(const IpbTextPattern *pattern, const StateSet *from, const StateSet *tokens, StateSet *to)
{
    uint64_t carry = 0;
    for (unsigned i = 0; i < pattern->n_words; i++) {
        uint64_t word = from->words[i] & tokens->words[i];
        to->words[i] |= word << 1 | carry;
        carry = word >> (WORD_BITS - 1);
    }
}

bool
ipb_text_pattern_matches(const IpbTextPattern *pattern, const char *text, size_t size)
{
    StateSet states = {{1}};
    /* Two stars are never adjacent, so one step over optional tokens is enough. */
    advance(pattern, &states, &pattern->optional, &states);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char) text[i];
        StateSet next = {{0}};
        uint64_t any = 0;
        for (unsigned word = 0; word < pattern->n_words; word++)
            next.words[word] = states.words[word] & pattern->stay[byte].words[word];
        advance(pattern, &states, &pattern->step[byte], &next);
        advance(pattern, &next, &pattern->optional, &next);
        for (unsigned word = 0; word < pattern->n_words; word++)
            any |= next.words[word];
        if (any == 0)
            return false;
        states = next;
    }
    return has_state(&states, pattern->n_tokens);
}

bool
ipb_text_pattern_has_wildcard(const IpbTextPattern *pattern)
{
    return pattern->has_wildcard;
}
