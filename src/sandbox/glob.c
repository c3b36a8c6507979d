/* SPDX-License-Identifier: Apache-2.0
 *
 * The automaton and the walk. A state is a position in the list of tokens. A set of states is a
 * string of bytes, one for each state, which is simple, and small because patterns are short.
 *
 * In the walk, directories wait in a queue with the states in which the pattern reached them. A
 * directory is listed once for each set of states, so links that lead in circles end.
 */
#include "sandbox/glob.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

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

/* Of patterns with so many tokens, a set of states is one number. */
#define MAX_FAST_TOKENS 64

struct IpbGlob {
    GArray *tokens;
    /* Of a short pattern, for each byte: the states that stay, and those that go on, when it is
     * read. NULL: the pattern is long. */
    uint64_t *stay, *go_on;
    uint64_t skip_one, skip_two; /* states that reach the next one, or the one after, by nothing */
};

static void make_fast(IpbGlob *glob);

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
    /* A set that contains multi-byte characters matches slightly more than it says. For a denial
     * that is the safe side. */
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
    if (glob->tokens->len <= MAX_FAST_TOKENS)
        make_fast(glob);
    return glob;
}

void
ipb_glob_free(IpbGlob *glob)
{
    if (glob == NULL)
        return;
    g_array_unref(glob->tokens);
    g_free(glob->stay);
    g_free(glob->go_on);
    g_free(glob);
}

/* --- sets of states --------------------------------------------------------------------------- */

static const Token *
token_at(const IpbGlob *glob, size_t state)
{
    return &g_array_index(glob->tokens, Token, state);
}

static size_t
count_states(const IpbGlob *glob)
{
    return glob->tokens->len;
}

/* Adds the states that can be reached without reading anything. All such steps lead forward, so one
 * pass is enough. */
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

static void
start_states(const IpbGlob *glob, unsigned char *states)
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

/* Adds to @next the states that are active after @c was read in @state. */
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

static bool
feed(const IpbGlob *glob, const unsigned char *states, const char *text, unsigned char *ret_states)
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

static bool
accepts(const IpbGlob *glob, const unsigned char *states)
{
    return states[glob->tokens->len - 1] != 0;
}

/* The states after "@directory/" was read. */
static unsigned char *
states_below(const IpbGlob *glob, const char *directory)
{
    g_autofree char *text = g_strconcat(directory, "/", NULL);
    unsigned char *states = g_malloc(glob->tokens->len);
    start_states(glob, states);
    feed(glob, states, text, states);
    return states;
}

bool
ipb_glob_covers_below(const IpbGlob *glob, const char *from, const char *to)
{
    g_autofree unsigned char *first = states_below(glob, from);
    g_autofree unsigned char *second = to != NULL ? states_below(glob, to) : NULL;
    for (size_t i = 0; i < glob->tokens->len; i++)
        if (first[i] && (second == NULL || !second[i]))
            return false;
    return true;
}

bool
ipb_glob_matches(const IpbGlob *glob, const char *text)
{
    g_autofree unsigned char *states = g_malloc(glob->tokens->len);
    start_states(glob, states);
    feed(glob, states, text, states);
    return accepts(glob, states);
}

/* --- short patterns --------------------------------------------------------------------------- */

static void
make_fast(IpbGlob *glob)
{
    size_t n = glob->tokens->len;
    unsigned char next[MAX_FAST_TOKENS + 1];
    glob->stay = g_new0(uint64_t, 256);
    glob->go_on = g_new0(uint64_t, 256);
    for (size_t state = 0; state < n; state++) {
        uint64_t bit = (uint64_t) 1 << state;
        TokenKind kind = token_at(glob, state)->kind;
        if (kind == TOKEN_STAR || kind == TOKEN_DEEP || kind == TOKEN_MAYBE || kind == TOKEN_REST)
            glob->skip_one |= bit;
        if (kind == TOKEN_MAYBE)
            glob->skip_two |= bit;
        for (unsigned c = 0; c < 256; c++) {
            memset(next, 0, sizeof next);
            read_byte(glob, state, (unsigned char) c, next);
            glob->stay[c] |= next[state] ? bit : 0;
            glob->go_on[c] |= next[state + 1] ? bit : 0;
        }
    }
}

static uint64_t
close_fast(const IpbGlob *glob, uint64_t states)
{
    for (;;) {
        uint64_t more = states | (states & glob->skip_one) << 1 | (states & glob->skip_two) << 2;
        if (more == states)
            return states;
        states = more;
    }
}

static size_t
match_size_slowly(const IpbGlob *glob, const char *text)
{
    g_autofree char *copy = g_strdup(text);
    for (size_t size = strlen(text); size > 0; size--) {
        if (text[size] != '/' && text[size] != '\0')
            continue;
        copy[size] = '\0';
        if (ipb_glob_matches(glob, copy))
            return size;
    }
    return 0;
}

size_t
ipb_glob_match_size(const IpbGlob *glob, const char *text)
{
    if (glob->stay == NULL)
        return match_size_slowly(glob, text);
    uint64_t end = (uint64_t) 1 << (glob->tokens->len - 1);
    uint64_t states = close_fast(glob, 1);
    size_t found = 0;
    for (size_t i = 0; states != 0; i++) {
        unsigned char c = (unsigned char) text[i];
        if ((c == '/' || c == '\0') && (states & end) != 0)
            found = i;
        if (c == '\0')
            break;
        states = close_fast(glob, (states & glob->stay[c]) | (states & glob->go_on[c]) << 1);
    }
    return found;
}

/* Compares with directories of another name at two depths: only "**" leads below both. */
bool
ipb_glob_depends_on(const IpbGlob *glob, const char *text)
{
    size_t n = glob->tokens->len;
    g_autofree unsigned char *states = g_malloc(n);
    g_autofree unsigned char *once = g_malloc(n);
    g_autofree unsigned char *twice = g_malloc(n);
    g_autofree char *directory = g_strconcat(text, "/", NULL);
    start_states(glob, states);
    feed(glob, states, "\1/", once);
    feed(glob, once, "\1/", twice);
    feed(glob, states, directory, states);
    for (size_t i = 0; i < n; i++)
        if (states[i] && !(once[i] && twice[i]))
            return true;
    return false;
}

/* --- the walk --------------------------------------------------------------------------------- */

typedef struct {
    char *path;
    unsigned char *states; /* after the slash that ends the directory */
} Directory;

typedef struct {
    const IpbGlob *glob;
    const IpbGlobWalk *walk;
    GQueue waiting;   /* Directory */
    GHashTable *seen; /* GBytes: device, inode, states */
} Walker;

static void
free_directory(Directory *directory)
{
    g_free(directory->path);
    g_free(directory->states);
    g_free(directory);
}

static bool
spend(IpbGlobBudget *budget, GError **error)
{
    if (budget->entries_left > 0 && g_get_monotonic_time() < budget->deadline_us) {
        budget->entries_left--;
        return true;
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "the file system is too large for this pattern: begin it with a directory, and use "
                "\"**\" as far down as possible");
    return false;
}

/* Returns true if the directory is met for the first time in these states. */
static bool
add_seen(Walker *walker, const struct stat *info, const unsigned char *states)
{
    g_autoptr(GByteArray) key = g_byte_array_new();
    g_byte_array_append(key, (const guint8 *) &info->st_dev, sizeof info->st_dev);
    g_byte_array_append(key, (const guint8 *) &info->st_ino, sizeof info->st_ino);
    g_byte_array_append(key, states, (guint) count_states(walker->glob));
    return g_hash_table_add(walker->seen, g_byte_array_free_to_bytes(g_steal_pointer(&key)));
}

/* The system's own file systems contain no user files, and have no end. */
static bool
is_kernel_tree(const char *path)
{
    return g_str_equal(path, "/proc") || g_str_equal(path, "/sys") || g_str_equal(path, "/dev");
}

static bool
is_empty(const char *path)
{
    DIR *stream = opendir(path);
    if (stream == NULL)
        return false;
    const struct dirent *entry;
    bool is_found = false;
    while (!is_found && (entry = readdir(stream)) != NULL)
        is_found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return !is_found;
}

static void
visit(Walker *walker, const char *path, const unsigned char *states)
{
    struct stat info;
    const IpbGlobWalk *walk = walker->walk;
    size_t n = count_states(walker->glob);
    bool is_match = accepts(walker->glob, states);
    g_autofree unsigned char *below = g_malloc(n);
    bool goes_on = feed(walker->glob, states, "/", below);
    if (!is_match && !goes_on)
        return;
    bool is_there = (walk->follow_links ? stat(path, &info) : lstat(path, &info)) == 0;
    bool is_directory = is_there && S_ISDIR(info.st_mode);
    if (is_match && (!walk->only_directories || (is_directory && !is_empty(path))))
        walk->on_match(path, false, walk->data);
    if (!goes_on || !is_directory || is_kernel_tree(path) || !add_seen(walker, &info, below))
        return;
    Directory *directory = g_new0(Directory, 1);
    directory->path = g_strdup(path);
    directory->states = g_steal_pointer(&below);
    g_queue_push_tail(&walker->waiting, directory);
}

static bool
list(Walker *walker, const Directory *directory, GError **error)
{
    const IpbGlobWalk *walk = walker->walk;
    g_autofree unsigned char *states = g_malloc(count_states(walker->glob));
    bool is_root = g_str_equal(directory->path, "/");
    DIR *stream = opendir(directory->path);
    if (stream == NULL) {
        if (errno != ENOENT && errno != ENOTDIR)
            walk->on_match(directory->path, true, walk->data);
        return true;
    }
    bool is_fine = true;
    const struct dirent *entry;
    while (is_fine && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        is_fine = spend(walk->budget, error);
        if (!is_fine || !feed(walker->glob, directory->states, entry->d_name, states))
            continue;
        g_autofree char *path =
            g_strconcat(is_root ? "" : directory->path, "/", entry->d_name, NULL);
        visit(walker, path, states);
    }
    closedir(stream);
    return is_fine;
}

bool
ipb_glob_walk(const IpbGlob *glob, const IpbGlobWalk *walk, GError **error)
{
    Walker walker = {
        .glob = glob,
        .walk = walk,
        .waiting = G_QUEUE_INIT,
        .seen = g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref,
                                      NULL),
    };
    Directory *first = g_new0(Directory, 1);
    first->path = g_strdup(walk->base);
    first->states = g_malloc(count_states(glob));
    start_states(glob, first->states);
    g_queue_push_tail(&walker.waiting, first);
    bool is_fine = true;
    while (is_fine && !g_queue_is_empty(&walker.waiting)) {
        Directory *directory = g_queue_pop_head(&walker.waiting);
        is_fine = list(&walker, directory, error);
        free_directory(directory);
    }
    g_queue_clear_full(&walker.waiting, (GDestroyNotify) free_directory);
    g_hash_table_unref(walker.seen);
    return is_fine;
}
