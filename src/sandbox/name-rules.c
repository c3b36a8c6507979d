/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns are matched all at once, name after name of a path, as one automaton: each name of each
 * pattern is a step, and has a bit. The bit is set while the names up to there have matched. So the
 * bits of two directories can be compared. What a directory holds may be given the name of another
 * directory if all rules that hold below the new name also held below the old one. That makes the
 * rules closed under rename.
 *
 * git's repositories are found in two ways. What is below ".git" (or in "x.git") is protected by
 * its place. A directory anywhere is taken for a repository if it has two of HEAD, objects and
 * refs: git needs all three. Before a directory gets the second of them, it must not have a
 * configuration or hooks that were not judged. So it does not matter what a file ".git", commondir
 * or gitdir leads to.
 */
#include "sandbox/name-rules.h"

#include <string.h>

#include "base/error.h"
#include "sandbox/git-config.h"
#include "sandbox/name-fold.h"
#include "sandbox/name-table.h"

/* Steps of all patterns, the table's and allowNames'. */
#define MAX_WORDS 16
#define MAX_STEPS (MAX_WORDS * 64)
#define MAX_PATTERN_BYTES 1024

typedef struct {
    uint64_t words[MAX_WORDS];
} Bits;

/* Names that matter to git's repositories. */
typedef enum {
    NAME_OTHER,
    NAME_DOT_GIT,
    NAME_CONFIG,
    NAME_HOOKS,
    NAME_REMOTES,
    NAME_BRANCHES,
    NAME_HEAD,
    NAME_OBJECTS,
    NAME_REFS,
    NAME_LOGS,
} GitName;

/* A name without "*" that some steps want. */
typedef struct {
    char *text; /* folded */
    size_t size;
    GitName git;
    Bits steps;
} Literal;

/* A step whose name has a "*". */
typedef struct {
    unsigned bit;
    char *prefix, *suffix; /* folded */
    size_t prefix_size, suffix_size;
} Glob;

/* Small, so that the table stays in the processor's cache. */
typedef struct {
    uint32_t hash;
    uint32_t number; /* in the literals, from 1 on; 0: free */
} Slot;

/* A power of two, larger than the number of steps and of git's names together. */
#define N_SLOTS ((size_t) MAX_STEPS * 2)

struct IpbNameRules {
    bool allow_git_config;
    char *home; /* without "/" at the end */
    size_t home_size;
    unsigned n_steps, n_words;
    const IpbNameRow *rows[MAX_STEPS]; /* of each step; NULL: of allowNames */
    Bits starts;                       /* first steps */
    Bits floating;                     /* of patterns that hold anywhere */
    Bits anchored;                     /* of those in the home directory */
    Bits ends;                         /* last steps */
    Bits trees;                        /* those of patterns that end in two stars */
    Bits refusing;                     /* all steps of rows that refuse something */
    Bits excepting;                    /* of rows and patterns that allow */
    Bits pinning;                      /* of refusing rows whose directories must stay */
    GArray *literals;                  /* Literal */
    Slot *slots;                       /* a hash table of them: N_SLOTS */
    GArray *globs;                     /* Glob */
};

/* --- bits ------------------------------------------------------------------------------------- */

static void
set_bit(Bits *bits, unsigned bit)
{
    bits->words[bit / 64] |= (uint64_t) 1 << (bit % 64);
}

static bool
has_bit(const Bits *bits, unsigned bit)
{
    return (bits->words[bit / 64] >> (bit % 64) & 1) != 0;
}

/* --- compiling -------------------------------------------------------------------------------- */

/* NULL: no pattern has this name. */
static Literal *
find_literal(const IpbNameRules *rules, const IpbFoldedName *name, size_t *ret_slot)
{
    for (size_t i = name->hash & (N_SLOTS - 1);; i = (i + 1) & (N_SLOTS - 1)) {
        const Slot *slot = &rules->slots[i];
        if (ret_slot != NULL)
            *ret_slot = i;
        if (slot->number == 0)
            return NULL;
        if (slot->hash != name->hash)
            continue;
        Literal *literal = &g_array_index(rules->literals, Literal, slot->number - 1);
        if (literal->size == name->size && memcmp(literal->text, name->text, name->size) == 0)
            return literal;
    }
}

/* Valid until the next literal is added. */
static Literal *
get_literal(IpbNameRules *rules, const char *text)
{
    IpbFoldedName name;
    size_t i;
    ipb_name_fold(text, strlen(text), &name);
    Literal *literal = find_literal(rules, &name, &i);
    if (literal != NULL)
        return literal;
    Literal added = {.text = g_strdup(name.text), .size = name.size};
    g_array_append_val(rules->literals, added);
    rules->slots[i] = (Slot){name.hash, rules->literals->len};
    return &g_array_index(rules->literals, Literal, rules->literals->len - 1);
}

static char *
fold_part(const char *text, size_t size)
{
    IpbFoldedName name;
    ipb_name_fold(text, size, &name);
    return g_strdup(name.text);
}

static void
add_glob(IpbNameRules *rules, unsigned bit, const char *name)
{
    const char *star = strchr(name, '*');
    Glob glob = {
        .bit = bit,
        .prefix = fold_part(name, (size_t) (star - name)),
        .suffix = fold_part(star + 1, strlen(star + 1)),
    };
    glob.prefix_size = strlen(glob.prefix);
    glob.suffix_size = strlen(glob.suffix);
    g_array_append_val(rules->globs, glob);
}

static void
mark_step(IpbNameRules *rules, unsigned bit, const IpbNameRow *row)
{
    rules->rows[bit] = row;
    if (row == NULL || row->kind == IPB_ROW_ALLOWED)
        set_bit(&rules->excepting, bit);
    else if (row->kind != IPB_ROW_MENTIONED)
        set_bit(&rules->refusing, bit);
    if (has_bit(&rules->refusing, bit) && !row->is_movable)
        set_bit(&rules->pinning, bit);
}

/* @names: of the pattern; @is_tree: it ends in two stars, which are not among the names. */
static bool
add_steps(IpbNameRules *rules, char **names, bool is_anchored, bool is_tree, const IpbNameRow *row)
{
    size_t n = g_strv_length(names);
    if (rules->n_steps + n > MAX_STEPS)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned bit = rules->n_steps++;
        mark_step(rules, bit, row);
        if (i == 0) {
            set_bit(&rules->starts, bit);
            set_bit(is_anchored ? &rules->anchored : &rules->floating, bit);
        }
        if (i == n - 1)
            set_bit(&rules->ends, bit);
        if (i == n - 1 && is_tree)
            set_bit(&rules->trees, bit);
        if (strchr(names[i], '*') != NULL)
            add_glob(rules, bit, names[i]);
        else
            set_bit(&get_literal(rules, names[i])->steps, bit);
    }
    return true;
}

/* Why @name cannot be in a pattern, or NULL. */
static const char *
find_flaw(const char *name)
{
    const char *star = strchr(name, '*');
    if (*name == '\0')
        return "a name in it is empty";
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return "\".\" and \"..\" are not names";
    if (strstr(name, "**") != NULL)
        return "\"**\" can only be at its end, after a \"/\"";
    if (star != NULL && strchr(star + 1, '*') != NULL)
        return "a name in it has more than one \"*\"";
    if (strcmp(name, "*") == 0)
        return "\"*\" alone would allow every name";
    return NULL;
}

static const char *
find_pattern_flaw(char **names)
{
    const char *flaw = names[0] == NULL ? "it is empty" : NULL;
    for (char **name = names; *name != NULL && flaw == NULL; name++)
        flaw = find_flaw(*name);
    return flaw;
}

/* The names of @pattern, without "~/" and "/" + two stars. */
static char **
split_pattern(const char *pattern, bool *ret_is_anchored, bool *ret_is_tree, const char **ret_flaw)
{
    *ret_is_anchored = g_str_has_prefix(pattern, "~/");
    *ret_is_tree = g_str_has_suffix(pattern, "/**");
    const char *start = pattern + (*ret_is_anchored ? 2 : 0);
    size_t size = strlen(start);
    g_autofree char *middle = g_strndup(start, size - (*ret_is_tree ? MIN(size, 3) : 0));
    char **names = g_strsplit(middle, "/", -1);
    *ret_flaw = strlen(pattern) > MAX_PATTERN_BYTES ? "it is too long" : find_pattern_flaw(names);
    return names;
}

/* Returns why @pattern cannot be, or NULL. */
static const char *
add_pattern(IpbNameRules *rules, const char *pattern, const IpbNameRow *row)
{
    bool is_anchored, is_tree;
    const char *flaw;
    g_auto(GStrv) names = split_pattern(pattern, &is_anchored, &is_tree, &flaw);
    if (flaw != NULL)
        return flaw;
    return add_steps(rules, names, is_anchored, is_tree, row) ? NULL : "there are too many names";
}

const char *
ipb_name_pattern_flaw(const char *pattern)
{
    bool is_anchored, is_tree;
    const char *flaw;
    g_auto(GStrv) names = split_pattern(pattern, &is_anchored, &is_tree, &flaw);
    return flaw;
}

static bool
add_allowed(IpbNameRules *rules, const IpbSandboxPolicy *policy, GError **error)
{
    for (char **pattern = policy->allow_names; *pattern != NULL; pattern++) {
        const char *flaw = add_pattern(rules, *pattern, NULL);
        if (flaw == NULL)
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "filesystem.allowNames: \"%s\" is not a pattern of names: %s", *pattern, flaw);
        return false;
    }
    return true;
}

static bool
is_of_git_config(const IpbNameRow *row)
{
    return row->parser == IPB_PARSER_GIT_CONFIG;
}

static void
add_table(IpbNameRules *rules)
{
    for (size_t i = 0; i < IPB_NAME_TABLE_SIZE; i++) {
        const IpbNameRow *row = &IPB_NAME_TABLE[i];
        if (row->kind == IPB_ROW_GIT || (rules->allow_git_config && is_of_git_config(row)))
            continue;
        const char *flaw = add_pattern(rules, row->rule.pattern, row);
        g_assert(flaw == NULL);
    }
}

static void
add_git_names(IpbNameRules *rules)
{
    static const struct {
        const char *text;
        GitName name;
    } NAMES[] = {
        {".git", NAME_DOT_GIT}, {"git~1", NAME_DOT_GIT},   {"config", NAME_CONFIG},
        {"hooks", NAME_HOOKS},  {"remotes", NAME_REMOTES}, {"branches", NAME_BRANCHES},
        {"head", NAME_HEAD},    {"objects", NAME_OBJECTS}, {"refs", NAME_REFS},
        {"logs", NAME_LOGS},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++)
        get_literal(rules, NAMES[i].text)->git = NAMES[i].name;
    Bits steps = get_literal(rules, ".git")->steps;
    get_literal(rules, "git~1")->steps = steps;
}

static void
clear_literal(void *data)
{
    g_free(((Literal *) data)->text);
}

static void
clear_glob(void *data)
{
    Glob *glob = data;
    g_free(glob->prefix);
    g_free(glob->suffix);
}

IpbNameRules *
ipb_name_rules_new(const IpbSandboxPolicy *policy, const char *home, GError **error)
{
    g_autoptr(IpbNameRules) rules = g_new0(IpbNameRules, 1);
    rules->allow_git_config = policy->allow_git_config;
    rules->literals = g_array_new(FALSE, FALSE, sizeof(Literal));
    g_array_set_clear_func(rules->literals, clear_literal);
    rules->slots = g_new0(Slot, N_SLOTS);
    rules->globs = g_array_new(FALSE, FALSE, sizeof(Glob));
    g_array_set_clear_func(rules->globs, clear_glob);
    rules->home = g_strdup(home);
    rules->home_size = strlen(home);
    while (rules->home_size > 1 && rules->home[rules->home_size - 1] == '/')
        rules->home[--rules->home_size] = '\0';
    add_table(rules);
    if (!add_allowed(rules, policy, error))
        return NULL;
    add_git_names(rules);
    rules->n_words = (rules->n_steps + 63) / 64;
    return g_steal_pointer(&rules);
}

void
ipb_name_rules_free(IpbNameRules *rules)
{
    if (rules == NULL)
        return;
    g_array_unref(rules->literals);
    g_free(rules->slots);
    g_array_unref(rules->globs);
    g_free(rules->home);
    g_free(rules);
}

/* --- walking a path --------------------------------------------------------------------------- */

/* Where a path is, seen by git. */
typedef enum {
    PLACE_OTHER,
    PLACE_GIT,   /* ".git" or below it: config and hooks are protected at any depth */
    PLACE_NAMED, /* "x.git": likewise, but not deeper */
    /* what git obeys in a repository, or below it: */
    PLACE_HOOKS,
    PLACE_REMOTES,
    PLACE_BRANCHES, /* remotes, too, as they were written before there were branches */
} Place;

typedef struct {
    const IpbNameRules *rules;
    const IpbNameQuestion *question;
    bool is_structural;

    Bits bits; /* after the last name */
    bool is_empty;
    Place place, place_above; /* of the path, and of its directory */
    bool is_in_refs;          /* in PLACE_OTHER: below refs or logs of a ".git" */
    GitName name;             /* the last one */
    size_t directory_size;    /* of the path: the bytes before the last "/" */
    bool is_sample;           /* the last name ends in ".sample", right in hooks */
    size_t hooks_depth;       /* names below hooks */
} Walk;

static bool
has_entry(Walk *walk, const char *path, size_t directory_size, const char *name)
{
    walk->is_structural = true;
    const IpbNameQuestion *question = walk->question;
    /* If it is not known, assume the worst. */
    return question->has_entry == NULL ||
           question->has_entry(path, MAX(directory_size, 1), name, question->data);
}

static const char *const PARTS[] = {"HEAD", "refs", "objects"};

static unsigned
count_parts(Walk *walk, const char *path, size_t directory_size)
{
    unsigned n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(PARTS); i++)
        n += has_entry(walk, path, directory_size, PARTS[i]);
    return n;
}

static bool
is_repository(Walk *walk, const char *path, size_t directory_size)
{
    return count_parts(walk, path, directory_size) >= 2;
}

static bool
ends_in(const IpbFoldedName *name, const char *suffix, size_t size)
{
    return name->size > size && memcmp(name->text + name->size - size, suffix, size) == 0;
}

static bool
is_obeyed(Place place)
{
    return place == PLACE_HOOKS || place == PLACE_REMOTES || place == PLACE_BRANCHES;
}

/* The place that a name is right in a repository. */
static Place
place_in_repository(GitName name)
{
    return name == NAME_HOOKS      ? PLACE_HOOKS
           : name == NAME_REMOTES  ? PLACE_REMOTES
           : name == NAME_BRANCHES ? PLACE_BRANCHES
                                   : PLACE_OTHER;
}

static Place
find_place(Walk *walk, GitName git, const IpbFoldedName *name, const char *path,
           size_t directory_size)
{
    Place above = walk->place, place = place_in_repository(git);
    if (is_obeyed(above))
        return above;
    if (git == NAME_DOT_GIT) {
        walk->is_in_refs = false;
        return PLACE_GIT;
    }
    if (above == PLACE_GIT) {
        /* Branches may have any name. */
        walk->is_in_refs = git == NAME_REFS || git == NAME_LOGS;
        return place != PLACE_OTHER ? place : walk->is_in_refs ? PLACE_OTHER : PLACE_GIT;
    }
    if (place != PLACE_OTHER && (above == PLACE_NAMED || is_repository(walk, path, directory_size)))
        return place;
    return !walk->is_in_refs && ends_in(name, ".git", 4) ? PLACE_NAMED : PLACE_OTHER;
}

static bool
matches(const Glob *glob, const IpbFoldedName *name)
{
    return name->size >= glob->prefix_size + glob->suffix_size &&
           (glob->prefix_size == 0 || name->text[0] == glob->prefix[0]) &&
           memcmp(name->text, glob->prefix, glob->prefix_size) == 0 &&
           memcmp(name->text + name->size - glob->suffix_size, glob->suffix, glob->suffix_size) ==
               0;
}

/* Which first steps may begin with a name. */
typedef struct {
    bool is_floating, is_anchored;
} Starts;

static uint64_t
ready_word(const Walk *walk, Starts starts, unsigned i, uint64_t carry)
{
    const IpbNameRules *rules = walk->rules;
    uint64_t before = walk->is_empty ? 0 : walk->bits.words[i];
    uint64_t ready = ((before << 1) | carry) & ~rules->starts.words[i];
    if (starts.is_floating)
        ready |= rules->floating.words[i];
    if (starts.is_anchored)
        ready |= rules->anchored.words[i];
    return ready;
}

static bool
is_ready(const Walk *walk, Starts starts, unsigned bit)
{
    const IpbNameRules *rules = walk->rules;
    if (has_bit(&rules->starts, bit))
        return (starts.is_floating && has_bit(&rules->floating, bit)) ||
               (starts.is_anchored && has_bit(&rules->anchored, bit));
    return !walk->is_empty && has_bit(&walk->bits, bit - 1);
}

static void
advance(Walk *walk, const IpbFoldedName *name, const Literal *literal, Starts starts)
{
    const IpbNameRules *rules = walk->rules;
    Bits reached;
    bool is_cleared = false;
    /* Nearly all names lead nowhere, and come from nowhere. */
    if (!walk->is_empty || literal != NULL) {
        uint64_t carry = 0;
        for (unsigned i = 0; i < rules->n_words; i++) {
            uint64_t before = walk->is_empty ? 0 : walk->bits.words[i];
            reached.words[i] = before & rules->trees.words[i];
            if (literal != NULL)
                reached.words[i] |= ready_word(walk, starts, i, carry) & literal->steps.words[i];
            carry = before >> 63;
        }
        is_cleared = true;
    }
    for (guint i = 0; i < rules->globs->len; i++) {
        const Glob *glob = &g_array_index(rules->globs, Glob, i);
        if (!matches(glob, name) || !is_ready(walk, starts, glob->bit))
            continue;
        if (!is_cleared)
            memset(&reached, 0, sizeof reached);
        is_cleared = true;
        set_bit(&reached, glob->bit);
    }
    uint64_t any = 0;
    for (unsigned i = 0; i < rules->n_words && is_cleared; i++)
        any |= reached.words[i];
    walk->is_empty = any == 0;
    if (!walk->is_empty)
        memcpy(&walk->bits, &reached, rules->n_words * sizeof reached.words[0]);
}

static void
take_name(Walk *walk, const char *path, const char *start, size_t size, Starts starts)
{
    IpbFoldedName name;
    ipb_name_fold(start, size, &name);
    const Literal *literal = find_literal(walk->rules, &name, NULL);
    GitName git = literal != NULL ? literal->git : NAME_OTHER;
    advance(walk, &name, literal, starts);
    if (!starts.is_floating)
        return;
    walk->place_above = walk->place;
    walk->name = git;
    walk->place = find_place(walk, git, &name, path, walk->directory_size);
    walk->hooks_depth += walk->place_above == PLACE_HOOKS; /* only hooks have samples */
    walk->is_sample = walk->hooks_depth == 1 && ends_in(&name, ".sample", 7);
}

/* Is the directory before @p the home directory? */
static bool
is_in_home(const IpbNameRules *rules, const char *path, const char *p)
{
    size_t size = (size_t) (p - path) - 1;
    if (rules->home_size <= 1)
        return size == 0;
    return size == rules->home_size && g_ascii_strncasecmp(path, rules->home, size) == 0;
}

static bool
leads_to_home(const IpbNameRules *rules, const char *path)
{
    size_t size = strlen(path);
    return size <= rules->home_size && g_ascii_strncasecmp(path, rules->home, size) == 0 &&
           (rules->home[size] == '\0' || rules->home[size] == '/');
}

/* Rules that hold anywhere count names from the root's own name on. */
static void
walk_path(Walk *walk, const IpbNameRules *rules, const IpbNameQuestion *question, const char *path,
          size_t root_size)
{
    walk->rules = rules;
    walk->question = question;
    walk->is_empty = true;
    for (const char *p = path; *p != '\0';) {
        while (*p == '/')
            p++;
        const char *slash = strchrnul(p, '/');
        if (slash == p)
            break;
        Starts starts = {(size_t) (slash - path) >= root_size, is_in_home(rules, path, p)};
        walk->directory_size = (size_t) (p - path) - 1;
        if (starts.is_floating || starts.is_anchored || !walk->is_empty)
            take_name(walk, path, p, (size_t) (slash - p), starts);
        p = slash;
    }
}

/* --- judging ---------------------------------------------------------------------------------- */

static IpbNameJudgement
allow(const IpbNameRow *row)
{
    return (IpbNameJudgement){IPB_NAME_ALLOWED, row != NULL ? &row->rule : NULL, false};
}

static IpbNameJudgement
refuse(const IpbNameRow *row)
{
    return (IpbNameJudgement){IPB_NAME_REFUSED, &row->rule, false};
}

static IpbNameJudgement
parse(const IpbNameRow *row)
{
    return (IpbNameJudgement){IPB_NAME_PARSED, &row->rule, false};
}

/* Directories may be made and, if they are empty, removed: nothing runs them, and a program that
 * unpacks an archive gives up if it cannot make a directory. */
static bool
is_making_directories(const IpbNameQuestion *question)
{
    return question->kind == IPB_NAME_DIRECTORY &&
           (question->action == IPB_NAME_CREATE ||
            (question->action == IPB_NAME_REMOVE && question->is_rmdir));
}

/* What a row that matches says. Returns false if it says nothing. */
static bool
apply_row(const IpbNameRow *row, bool is_tree, const IpbNameQuestion *question,
          IpbNameJudgement *ret_judgement)
{
    bool is_link = question->action == IPB_NAME_PUT && question->kind != IPB_NAME_FILE;
    /* A directory called ".env" is not the file that programs look for. */
    if (question->kind == IPB_NAME_DIRECTORY && (!is_tree || is_making_directories(question)))
        return false;
    switch (row->kind) {
    case IPB_ROW_ALLOWED:
        *ret_judgement = allow(row);
        return !is_link;
    case IPB_ROW_MENTIONED:
        *ret_judgement = allow(row);
        return true;
    case IPB_ROW_PARSED:
        if (question->action == IPB_NAME_PUT && question->kind == IPB_NAME_FILE) {
            *ret_judgement = parse(row);
            return true;
        }
        *ret_judgement = refuse(row);
        return is_link ||
               (question->kind == IPB_NAME_SPECIAL && question->action != IPB_NAME_REMOVE) ||
               ((row->actions & IPB_ACTION_BIT(question->action)) != 0 && !question->is_mode);
    case IPB_ROW_REFUSED:
        *ret_judgement = refuse(row);
        return (row->actions & IPB_ACTION_BIT(question->action)) != 0;
    case IPB_ROW_GIT:
        break;
    }
    return false;
}

/* Goes through the rows whose pattern matches all of the path. What refuses wins over what parses.
 * Exceptions are from rows about the home directory only. */
static bool
apply_rows(const Walk *walk, const IpbNameQuestion *question, IpbNameJudgement *ret_judgement)
{
    const IpbNameRules *rules = walk->rules;
    bool is_excepted = false, is_decided = false;
    for (unsigned i = 0; i < rules->n_words && !walk->is_empty; i++) {
        uint64_t ends = walk->bits.words[i] & rules->ends.words[i];
        for (; ends != 0; ends &= ends - 1) {
            unsigned bit = i * 64 + (unsigned) __builtin_ctzll(ends);
            const IpbNameRow *row = rules->rows[bit];
            IpbNameJudgement judgement;
            if (row == NULL || (is_excepted && row->rule.pattern[0] == '~') ||
                !apply_row(row, has_bit(&rules->trees, bit), question, &judgement))
                continue;
            is_excepted |= row->kind == IPB_ROW_ALLOWED;
            if (is_decided && judgement.verdict != IPB_NAME_REFUSED)
                continue;
            *ret_judgement = judgement;
            is_decided = true;
            if (judgement.verdict == IPB_NAME_REFUSED)
                return true;
        }
    }
    return is_decided && ret_judgement->verdict != IPB_NAME_ALLOWED;
}

/* Does a pattern of allowNames match all of the path? */
static bool
is_allowed_by_key(const Walk *walk, const IpbNameQuestion *question)
{
    const IpbNameRules *rules = walk->rules;
    if (walk->is_empty)
        return false;
    for (unsigned i = 0; i < rules->n_words; i++) {
        uint64_t ends = walk->bits.words[i] & rules->ends.words[i] & rules->excepting.words[i];
        for (; ends != 0; ends &= ends - 1) {
            unsigned bit = i * 64 + (unsigned) __builtin_ctzll(ends);
            /* Of a directory, what is in it is allowed only by a pattern that says so. */
            if (rules->rows[bit] == NULL &&
                (has_bit(&rules->trees, bit) || question->kind != IPB_NAME_DIRECTORY))
                return true;
        }
    }
    return false;
}

/* --- git's repositories ----------------------------------------------------------------------- */

static bool
is_part(GitName name)
{
    return name == NAME_HEAD || name == NAME_OBJECTS || name == NAME_REFS;
}

static const char *
part_of(GitName name)
{
    return name == NAME_HEAD ? "HEAD" : name == NAME_REFS ? "refs" : "objects";
}

/* Is there anything in the directory @name, beside the path, but files whose names end in
 * @suffix? */
static bool
has_other(Walk *walk, const IpbNameQuestion *question, const char *name, const char *suffix)
{
    if (!has_entry(walk, question->path, walk->directory_size, name))
        return false;
    g_autofree char *directory =
        g_strdup_printf("%.*s/%s", (int) walk->directory_size, question->path, name);
    return question->has_other == NULL ||
           question->has_other(directory, strlen(directory), suffix, question->data);
}

/* Would an ordinary directory become a repository with a configuration, hooks or remotes that were
 * not judged? */
static bool
completes_repository(Walk *walk, const IpbNameQuestion *question)
{
    size_t size = walk->directory_size;
    const char *path = question->path;
    /* With two it is one already, and what was put into it was judged. */
    if (count_parts(walk, path, size) != 1 || has_entry(walk, path, size, part_of(walk->name)))
        return false;
    if (!walk->rules->allow_git_config && has_entry(walk, path, size, "config"))
        return true;
    /* No name ends in a slash. */
    return has_other(walk, question, "hooks", ".sample") ||
           has_other(walk, question, "remotes", "/") || has_other(walk, question, "branches", "/");
}

/* In hooks, remotes or branches of a repository. */
static bool
judge_obeyed(const Walk *walk, const IpbNameQuestion *question)
{
    bool is_directory_itself = !is_obeyed(walk->place_above);
    bool is_directory = question->kind == IPB_NAME_DIRECTORY;
    if (is_making_directories(question))
        return true;
    if (is_directory_itself)
        return question->kind == IPB_NAME_FILE ||
               (is_directory && question->action == IPB_NAME_WRITE);
    return question->kind == IPB_NAME_FILE && walk->is_sample;
}

static IpbNameJudgement
judge_config(const IpbNameQuestion *question)
{
    const IpbNameRow *row = ipb_name_table_git(IPB_GIT_ROW_CONFIG);
    if (question->kind == IPB_NAME_DIRECTORY)
        return allow(NULL);
    if (question->action == IPB_NAME_REMOVE ||
        (question->action == IPB_NAME_WRITE && question->is_mode))
        return allow(NULL);
    if (question->action == IPB_NAME_PUT && question->kind == IPB_NAME_FILE)
        return parse(row);
    return refuse(row);
}

static const IpbNameRow *
row_of_place(Place place)
{
    return ipb_name_table_git(place == PLACE_HOOKS     ? IPB_GIT_ROW_HOOKS
                              : place == PLACE_REMOTES ? IPB_GIT_ROW_REMOTES
                                                       : IPB_GIT_ROW_BRANCHES);
}

static IpbNameJudgement
judge_git(Walk *walk, const IpbNameQuestion *question)
{
    bool appears = question->action == IPB_NAME_CREATE || question->action == IPB_NAME_PUT;
    if (is_obeyed(walk->place))
        return judge_obeyed(walk, question) ? allow(NULL) : refuse(row_of_place(walk->place));
    bool is_protected = walk->place_above == PLACE_GIT || walk->place_above == PLACE_NAMED;
    if (walk->name == NAME_CONFIG && !walk->rules->allow_git_config &&
        question->kind != IPB_NAME_DIRECTORY &&
        (is_protected || is_repository(walk, question->path, walk->directory_size)))
        return judge_config(question);
    if (is_part(walk->name) && appears && !is_protected && completes_repository(walk, question))
        return refuse(ipb_name_table_git(IPB_GIT_ROW_LINK));
    if (walk->name == NAME_DOT_GIT && question->action == IPB_NAME_PUT &&
        question->kind == IPB_NAME_LINK)
        return refuse(ipb_name_table_git(IPB_GIT_ROW_LINK));
    return allow(NULL);
}

/* --- directories ------------------------------------------------------------------------------ */

/* Of directories that are named by other means than the table. */
static const IpbNameRow ALLOWED_HERE = {
    .rule = {"", "what it holds is allowed under this name only", "renaming", "allowNames"}};
static const IpbNameRow HOME = {
    .rule = {"~", "programs look for their configuration in it", "renaming", ""}};

static const IpbNameRow *
row_of_first(const IpbNameRules *rules, unsigned word, uint64_t bits)
{
    return rules->rows[word * 64 + (unsigned) __builtin_ctzll(bits)];
}

/* Finds a rule that holds below @walk, but did not hold for the same names below @source. NULL:
 * there is none. @source may be NULL: nothing held. */
static const IpbNameRow *
find_uncovered(const Walk *walk, const Walk *source)
{
    const IpbNameRules *rules = walk->rules;
    bool is_source_empty = source == NULL || source->is_empty;
    for (unsigned i = 0; i < rules->n_words; i++) {
        uint64_t here = walk->is_empty ? 0 : walk->bits.words[i];
        uint64_t there = is_source_empty ? 0 : source->bits.words[i];
        /* The last name of a pattern says nothing about what is below, unless two stars follow. */
        uint64_t leads_on = ~rules->ends.words[i] | rules->trees.words[i];
        uint64_t missing = here & ~there & leads_on & rules->refusing.words[i];
        if (missing != 0)
            return row_of_first(rules, i, missing);
    }
    return NULL;
}

/* Does something allow names below @source that is not allowed below @walk? */
static bool
loses_exception(const Walk *walk, const Walk *source)
{
    const IpbNameRules *rules = walk->rules;
    if (source == NULL || source->is_empty)
        return false;
    for (unsigned i = 0; i < rules->n_words; i++) {
        uint64_t here = walk->is_empty ? 0 : walk->bits.words[i];
        uint64_t leads_on = ~rules->ends.words[i] | rules->trees.words[i];
        if ((source->bits.words[i] & ~here & leads_on & rules->excepting.words[i]) != 0)
            return true;
    }
    return false;
}

static const IpbNameRow *
find_refusing(const Walk *walk, const Bits *mask)
{
    const IpbNameRules *rules = walk->rules;
    for (unsigned i = 0; i < rules->n_words && !walk->is_empty; i++) {
        uint64_t leads_on = ~rules->ends.words[i] | rules->trees.words[i];
        uint64_t found = walk->bits.words[i] & mask->words[i] & leads_on;
        if (found != 0)
            return row_of_first(rules, i, found);
    }
    return NULL;
}

/* What is in ".git" stays in a ".git", or in a bare repository: the person who made it expects its
 * hooks and its configuration to be there. */
static bool
covers_place(const Walk *source, Place wanted)
{
    if (wanted == PLACE_OTHER)
        return source == NULL || source->place != PLACE_GIT;
    if (source == NULL)
        return false;
    return source->place == PLACE_GIT || (wanted == PLACE_NAMED && source->place == PLACE_NAMED);
}

static const Walk *
walk_source(Walk *walk, const IpbNameQuestion *question, Walk *source)
{
    *source = (Walk){.is_empty = true};
    if (question->source == NULL)
        return NULL;
    walk_path(source, walk->rules, question, question->source, question->source_root_size);
    walk->is_structural |= source->is_structural;
    return source;
}

/* A directory gets a name. */
static IpbNameJudgement
judge_directory(Walk *walk, const IpbNameQuestion *question)
{
    Walk source;
    const Walk *from = walk_source(walk, question, &source);
    const IpbNameRow *row = find_uncovered(walk, from);
    if (row == NULL && loses_exception(walk, from))
        row = &ALLOWED_HERE;
    if (row != NULL)
        return refuse(row);
    if (!covers_place(from, walk->place))
        return refuse(ipb_name_table_git(IPB_GIT_ROW_LINK));
    return allow(NULL);
}

/* Likewise, a name in which everything is allowed. */
static IpbNameJudgement
judge_allowed_directory(Walk *walk, const IpbNameQuestion *question)
{
    Walk source;
    bool is_lost = loses_exception(walk, walk_source(walk, question, &source));
    return is_lost ? refuse(&ALLOWED_HERE) : allow(NULL);
}

/* --- the question ----------------------------------------------------------------------------- */

/* The only names that may not be read are those of files that the backend is writing. */
static IpbNameJudgement
judge_reading(const IpbNameQuestion *question)
{
    static const char PREFIX[] = IPB_NAME_OWN_PREFIX;
    const char *slash = strrchr(question->path, '/');
    const char *name = slash != NULL ? slash + 1 : question->path;
    size_t size = strlen(name);
    if (size < sizeof PREFIX - 1 && (unsigned char) name[0] < 0x80)
        return allow(NULL);
    IpbFoldedName folded;
    ipb_name_fold(name, size, &folded);
    return strncmp(folded.text, PREFIX, sizeof PREFIX - 1) == 0 ? refuse(&IPB_NAME_TABLE[0])
                                                                : allow(NULL);
}

static IpbNameJudgement
judge_change(Walk *walk, const IpbNameQuestion *question)
{
    IpbNameJudgement from_rows = allow(NULL);
    bool is_directory = question->kind == IPB_NAME_DIRECTORY;
    bool is_put = question->action == IPB_NAME_PUT;
    bool is_rename = is_put || (question->action == IPB_NAME_REMOVE && !question->is_rmdir);
    bool is_link = is_put && question->kind == IPB_NAME_LINK;
    if (is_allowed_by_key(walk, question))
        return is_put && is_directory ? judge_allowed_directory(walk, question) : allow(NULL);
    if (is_rename && (is_directory || is_link) && leads_to_home(walk->rules, question->path))
        return refuse(&HOME);
    bool is_decided = apply_rows(walk, question, &from_rows);
    if (is_decided && from_rows.verdict == IPB_NAME_REFUSED)
        return from_rows;
    IpbNameJudgement judgement = judge_git(walk, question);
    if (judgement.verdict != IPB_NAME_ALLOWED)
        return judgement;
    if (is_decided)
        return from_rows;
    if (is_put && is_directory)
        return judge_directory(walk, question);
    const IpbNameRow *row = NULL;
    if (is_link)
        row = find_refusing(walk, &walk->rules->refusing);
    else if (is_rename && is_directory)
        row = find_refusing(walk, &walk->rules->pinning);
    return row != NULL ? refuse(row) : from_rows;
}

IpbNameJudgement
ipb_name_rules_judge(const IpbNameRules *rules, const IpbNameQuestion *question)
{
    if (question->action == IPB_NAME_READ)
        return judge_reading(question);
    Walk walk = {.is_empty = true};
    walk_path(&walk, rules, question, question->path, question->root_size);
    IpbNameJudgement judgement = judge_change(&walk, question);
    judgement.is_structural = walk.is_structural;
    return judgement;
}

/* --- contents and people ---------------------------------------------------------------------- */

bool
ipb_name_rule_accepts(const IpbNameRule *rule, const char *path, size_t root_size,
                      const char *contents, size_t size, char **ret_reason)
{
    const IpbNameRow *row = (const IpbNameRow *) rule;
    *ret_reason = NULL;
    if (size > IPB_NAME_MAX_PARSED_BYTES) {
        *ret_reason = g_strdup("it is larger than 1 MiB");
        return false;
    }
    switch (row->parser) {
    case IPB_PARSER_GIT_CONFIG:
        return ipb_git_config_accepts(path, root_size, contents, size, ret_reason);
    case IPB_PARSER_GIT_MODULES:
        return ipb_git_modules_accepts(contents, size, ret_reason);
    case IPB_PARSER_GIT_TODO:
        return ipb_git_todo_accepts(contents, size, ret_reason);
    case IPB_PARSER_NONE:
        break;
    }
    *ret_reason = g_strdup("nothing may be written to it");
    return false;
}

const IpbNameRule *
ipb_name_rules_at(size_t index)
{
    return index < IPB_NAME_TABLE_SIZE ? &IPB_NAME_TABLE[index].rule : NULL;
}
