/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader follows git's grammar byte by byte, as git 2.39 has it: a byte that this reader sees
 * in another place than git does would be a way around the list of keys. What git refuses is
 * refused.
 *
 * A key is harmless if no value of it makes git run a program, read another configuration, write
 * outside of the working tree, or weaken its own checks. git adds keys now and then. One that is
 * not listed is refused until it has been checked.
 */
#include "sandbox/git-config.h"

#include <string.h>

/* --- reading ---------------------------------------------------------------------------------- */

#define END (-1)

typedef struct {
    const char *p, *end;
    unsigned line;
} Reader;

/* The next byte. A line ends in "\n" or "\r\n", and the file with a line. */
static int
next(Reader *reader)
{
    if (reader->p == reader->end)
        return END;
    if (reader->p[0] == '\r' && reader->p + 1 < reader->end && reader->p[1] == '\n')
        reader->p++;
    char c = *reader->p++;
    if (c == '\n')
        reader->line++;
    return (unsigned char) c;
}

static bool
is_line_end(int c)
{
    return c == '\n' || c == END;
}

static bool
is_space(int c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool
is_key_byte(int c)
{
    return c != END && (g_ascii_isalnum((char) c) || c == '-');
}

static void
add_lower(GString *text, int c)
{
    g_string_append_c(text, g_ascii_tolower((char) c));
}

/* The rest of `[section "name"]`; @c is the blank after the section. */
static bool
read_subsection(Reader *reader, int c, GString *name)
{
    while (is_space(c) && c != '\n')
        c = next(reader);
    if (c != '"')
        return false;
    g_string_append_c(name, '.');
    while ((c = next(reader)) != '"') {
        if (c == '\\')
            c = next(reader);
        if (is_line_end(c))
            return false;
        g_string_append_c(name, (char) c);
    }
    return next(reader) == ']';
}

/* What follows "[". */
static bool
read_section(Reader *reader, GString *name)
{
    g_string_truncate(name, 0);
    for (;;) {
        int c = next(reader);
        if (c == ']' && name->len == 0)
            return false;
        if (c == ']')
            break;
        if (is_space(c)) {
            if (!read_subsection(reader, c, name))
                return false;
            break;
        }
        if (!is_key_byte(c) && c != '.')
            return false;
        add_lower(name, c);
    }
    g_string_append_c(name, '.');
    return true;
}

/* Of "\"; returns false if git does not know it. */
static bool
read_escape(Reader *reader, GString *value)
{
    int c = next(reader);
    switch (c) {
    case '\n':
    case END:
        return true;
    case 't':
        c = '\t';
        break;
    case 'b':
        c = '\b';
        break;
    case 'n':
        c = '\n';
        break;
    case '\\':
    case '"':
        break;
    default:
        return false;
    }
    g_string_append_c(value, (char) c);
    return true;
}

static void
add_spaces(GString *value, size_t *n_spaces)
{
    for (; *n_spaces > 0; --*n_spaces)
        g_string_append_c(value, ' ');
}

/* What follows "=", up to the end of the line. */
static bool
read_value(Reader *reader, GString *value)
{
    bool is_quoted = false, is_comment = false;
    size_t n_spaces = 0;
    g_string_truncate(value, 0);
    for (;;) {
        int c = next(reader);
        if (is_line_end(c))
            return !is_quoted;
        if (is_comment)
            continue;
        if (is_space(c) && !is_quoted) {
            n_spaces += value->len > 0;
            continue;
        }
        if (!is_quoted && (c == ';' || c == '#')) {
            is_comment = true;
            continue;
        }
        add_spaces(value, &n_spaces);
        if (c == '"')
            is_quoted = !is_quoted;
        else if (c != '\\')
            g_string_append_c(value, (char) c);
        else if (!read_escape(reader, value))
            return false;
    }
}

/* A key whose first letter is @c, with its value. *ret_has_value: false for a key alone. */
static bool
read_entry(Reader *reader, int c, GString *name, GString *value, bool *ret_has_value)
{
    for (; is_key_byte(c); c = next(reader))
        add_lower(name, c);
    while (c == ' ' || c == '\t')
        c = next(reader);
    *ret_has_value = !is_line_end(c);
    return is_line_end(c) || (c == '=' && read_value(reader, value));
}

static void
skip_comment(Reader *reader)
{
    while (!is_line_end(next(reader)))
        ;
}

bool
ipb_git_config_parse(const char *text, size_t size, IpbGitConfigFunction on_entry, void *data,
                     unsigned *ret_line)
{
    static const char BOM[] = "\xef\xbb\xbf";
    Reader reader = {text, text + size, 1};
    g_autoptr(GString) name = g_string_new(NULL);
    g_autoptr(GString) value = g_string_new(NULL);
    size_t base = 0;
    bool is_fine = memchr(text, '\0', size) == NULL;
    if (size >= 3 && memcmp(text, BOM, 3) == 0)
        reader.p += 3;
    *ret_line = 1;
    while (is_fine) {
        *ret_line = reader.line;
        int c = next(&reader);
        if (c == END)
            return true;
        if (is_space(c))
            continue;
        if (c == '#' || c == ';') {
            skip_comment(&reader);
        } else if (c == '[') {
            is_fine = read_section(&reader, name);
            base = name->len;
        } else {
            bool has_value = false;
            g_string_truncate(name, base);
            is_fine = g_ascii_isalpha((char) c) &&
                      read_entry(&reader, c, name, value, &has_value) &&
                      on_entry(name->str, has_value ? value->str : NULL, data);
        }
    }
    return false;
}

/* --- values ----------------------------------------------------------------------------------- */

typedef enum {
    VALUE_ANY,
    VALUE_WORD,     /* does not look like an option or a command */
    VALUE_URL,      /* of a repository, or the name of a remote */
    VALUE_WORKTREE, /* a directory in the writable one */
} ValueKind;

static bool
has_control_byte(const char *value)
{
    for (; *value != '\0'; value++)
        if ((unsigned char) *value < ' ' || *value == 0x7f)
            return true;
    return false;
}

static bool
is_harmless_word(const char *value)
{
    return value != NULL && value[0] != '-' && value[0] != '!' && !has_control_byte(value);
}

/* git runs a helper program for `helper::address`, and for schemes that it does not know. */
static bool
is_harmless_url(const char *value)
{
    static const char *const SCHEMES[] = {"http",    "https",   "ssh",  "git",
                                          "git+ssh", "ssh+git", "file", NULL};
    if (!is_harmless_word(value))
        return false;
    const char *colon = strstr(value, "://");
    if (colon == NULL)
        return strstr(value, "::") == NULL;
    g_autofree char *scheme = g_strndup(value, (size_t) (colon - value));
    return g_strv_contains(SCHEMES, scheme) && colon[3] != '-';
}

/* Is the configuration that of a submodule: in ".git/modules", or, in a linked working tree, in
 * ".git/worktrees/NAME/modules"? */
static bool
is_of_submodule(const char *path, size_t root_size)
{
    static const char GIT[] = "/.git/", WORKTREES[] = "worktrees/", MODULES[] = "modules/";
    const char *git = strstr(path, GIT);
    if (git == NULL || (size_t) (git - path) < root_size)
        return false;
    const char *rest = git + strlen(GIT);
    if (g_str_has_prefix(rest, WORKTREES)) {
        const char *name = rest + strlen(WORKTREES), *slash = strchr(name, '/');
        if (slash == NULL || slash == name)
            return false;
        rest = slash + 1;
    }
    return g_str_has_prefix(rest, MODULES);
}

/* git writes it for a submodule: "../../../name", from the directory of the configuration.
 * Elsewhere, it would let a repository write to a directory that it is not in. */
static bool
is_harmless_worktree(const char *value, const char *path, size_t root_size)
{
    if (!is_harmless_word(value) || value[0] == '/' || !is_of_submodule(path, root_size))
        return false;
    size_t size = (size_t) (strrchr(path, '/') - path);
    while (g_str_has_prefix(value, "../") || strcmp(value, "..") == 0) {
        while (size > 0 && path[--size] != '/')
            ;
        if (size < root_size)
            return false;
        value += value[2] == '/' ? 3 : 2;
    }
    /* What the links on the way lead to is not known, so ".." must not follow a name. */
    g_auto(GStrv) parts = g_strsplit(value, "/", -1);
    return !g_strv_contains((const char *const *) parts, "..") &&
           !g_strv_contains((const char *const *) parts, ".git");
}

/* --- keys ------------------------------------------------------------------------------------- */

typedef struct {
    const char *section;
    bool has_name; /* section.NAME.key, else section.key */
    ValueKind value;
    const char *keys; /* with a space before and after each; "*": all */
} Keys;

static const Keys CONFIG_KEYS[] = {
    {"core", false, VALUE_ANY,
     " repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode "
     "symlinks "
     "autocrlf safecrlf eol sharedrepository trustctime checkstat quotepath abbrev compression "
     "loosecompression bigfilethreshold deltabasecachelimit packedgitlimit packedgitwindowsize "
     "sparsecheckout sparsecheckoutcone untrackedcache splitindex commitgraph multipackindex "
     "whitespace warnambiguousrefs prefersymlinkrefs fsync fsyncmethod fsyncobjectfiles "
     "commentchar "
     "preloadindex hidedotfiles longpaths "},
    {"core", false, VALUE_WORKTREE, " worktree "},
    {"extensions", false, VALUE_WORD,
     " objectformat compatobjectformat worktreeconfig partialclone noop noop-v1 preciousobjects "
     "refstorage relativeworktrees "},
    {"user", false, VALUE_WORD, " name email signingkey useconfigonly "},
    {"author", false, VALUE_WORD, " name email "},
    {"committer", false, VALUE_WORD, " name email "},
    {"remote", true, VALUE_URL, " url pushurl "},
    {"remote", true, VALUE_ANY,
     " fetch push tagopt prune prunetags promisor partialclonefilter skipdefaultupdate "
     "skipfetchall "
     "mirror followremotehead "},
    {"remote", false, VALUE_URL, " pushdefault "},
    {"branch", true, VALUE_URL, " remote pushremote "},
    {"branch", true, VALUE_ANY, " merge rebase description vscode-merge-base "},
    {"branch", false, VALUE_ANY, " autosetupmerge autosetuprebase sort "},
    {"submodule", true, VALUE_URL, " url "},
    {"submodule", true, VALUE_WORD,
     " path update branch ignore active shallow fetchrecursesubmodules "},
    {"submodule", false, VALUE_ANY,
     " recurse active fetchjobs alternatelocation alternateerrorstrategy propagatebranches "},
    {"init", false, VALUE_WORD, " defaultbranch "},
    {"clone", false, VALUE_WORD, " defaultremotename "},
    {"pull", false, VALUE_ANY, " rebase ff "},
    {"push", false, VALUE_ANY,
     " default autosetupremote followtags recursesubmodules useforceifincludes usebitmaps "},
    {"fetch", false, VALUE_ANY,
     " prune prunetags parallel writecommitgraph recursesubmodules unpacklimit showforcedupdates "
     "fsckobjects "},
    {"merge", false, VALUE_ANY,
     " conflictstyle ff log renames renamelimit stat directoryrenames verbosity autostash "},
    {"diff", false, VALUE_ANY,
     " algorithm renames renamelimit context interhunkcontext mnemonicprefix noprefix colormoved "
     "colormovedws submodule statgraphwidth indentheuristic relative ignoresubmodules "
     "wserrorhighlight suppressblankempty autorefreshindex "},
    {"color", false, VALUE_ANY, "*"},
    {"color", true, VALUE_ANY, "*"},
    {"column", false, VALUE_ANY, "*"},
    {"advice", false, VALUE_ANY, "*"},
    {"gc", false, VALUE_ANY,
     " auto autodetach autopacklimit pruneexpire reflogexpire reflogexpireunreachable "
     "worktreepruneexpire logexpiry rerereresolved rerereunresolved packrefs bigpackthreshold "},
    {"maintenance", false, VALUE_ANY, " auto strategy autodetach "},
    {"maintenance", true, VALUE_ANY, " enabled schedule "},
    {"pack", false, VALUE_ANY,
     " threads window depth windowmemory deltacachesize deltacachelimit writebitmaps usebitmaps "
     "compression indexversion packsizelimit writereverseindex preferbitmaptips "},
    {"index", false, VALUE_ANY, " version threads sparse "},
    {"rebase", false, VALUE_ANY,
     " autosquash autostash updaterefs abbreviatecommands missingcommitscheck stat backend "
     "rebasemerges forkpoint reschedulefailedexec "},
    {"rerere", false, VALUE_ANY, " enabled autoupdate "},
    {"log", false, VALUE_ANY, " date decorate abbrevcommit follow showroot "},
    {"status", false, VALUE_ANY,
     " short branch showuntrackedfiles relativepaths showstash aheadbehind renames "
     "submodulesummary "},
    {"commit", false, VALUE_ANY, " verbose cleanup status gpgsign "},
    {"tag", false, VALUE_ANY, " sort gpgsign forcesignannotated "},
    {"stash", false, VALUE_ANY, " showpatch showstat showincludeuntracked "},
    {"i18n", false, VALUE_WORD, " commitencoding logoutputencoding "},
    {"receive", false, VALUE_ANY,
     " denycurrentbranch denynonfastforwards denydeletes denydeletecurrent autogc fsckobjects "
     "unpacklimit hiderefs "},
    {"uploadpack", false, VALUE_ANY,
     " allowfilter allowanysha1inwant allowtipsha1inwant allowreachablesha1inwant hiderefs "},
    {"transfer", false, VALUE_ANY, " fsckobjects hiderefs unpacklimit "},
    {"checkout", false, VALUE_WORD, " defaultremote guess workers "},
    {"feature", false, VALUE_ANY, " manyfiles experimental "},
    {"worktree", false, VALUE_ANY, " guessremote userelativepaths "},
    {"notes", false, VALUE_WORD, " displayref rewriteref rewritemode "},
    {"versionsort", false, VALUE_ANY, " suffix prereleasesuffix "},
    {"apply", false, VALUE_ANY, " whitespace "},
    {"add", false, VALUE_ANY, " ignoreerrors "},
    {"am", false, VALUE_ANY, " threeway messageid keepcr "},
    {"format", false, VALUE_ANY, " useautobase "},
    {"mailinfo", false, VALUE_ANY, " scissors "},
    {"protocol", false, VALUE_ANY, " version "},
    {"http", false, VALUE_ANY, " postbuffer version "},
    {"lfs", false, VALUE_ANY, " repositoryformatversion "},
    {"lfs", true, VALUE_WORD, " access locksverify "},
    {"gui", false, VALUE_ANY, " wmstate geometry "},
};

static const Keys MODULES_KEYS[] = {
    {"submodule", true, VALUE_URL, " url "},
    {"submodule", true, VALUE_WORD, " path update branch ignore shallow fetchrecursesubmodules "},
};

typedef struct {
    const Keys *keys;
    size_t n_keys;
    const char *path; /* of the file; NULL: not known */
    size_t root_size;
    char *reason; /* set if a key is refused */
} Check;

static const Keys *
find_keys(const Check *check, const char *name)
{
    const char *first = strchr(name, '.');
    const char *last = strrchr(name, '.');
    if (first == NULL)
        return NULL;
    g_autofree char *wanted = g_strconcat(" ", last + 1, " ", NULL);
    for (size_t i = 0; i < check->n_keys; i++) {
        const Keys *keys = &check->keys[i];
        size_t size = strlen(keys->section);
        if ((size_t) (first - name) == size && memcmp(name, keys->section, size) == 0 &&
            keys->has_name == (first != last) &&
            (keys->keys[0] == '*' || strstr(keys->keys, wanted) != NULL))
            return keys;
    }
    return NULL;
}

static bool
is_harmless(const Check *check, const Keys *keys, const char *value)
{
    switch (keys->value) {
    case VALUE_ANY:
        return true;
    case VALUE_WORD:
        return value == NULL || is_harmless_word(value);
    case VALUE_URL:
        return is_harmless_url(value);
    case VALUE_WORKTREE:
        return check->path != NULL && is_harmless_worktree(value, check->path, check->root_size);
    }
    return false;
}

static bool
on_entry(const char *name, const char *value, void *data)
{
    Check *check = data;
    const Keys *keys = find_keys(check, name);
    if (keys == NULL)
        check->reason = g_strdup_printf("the key %s is not known to be harmless", name);
    else if (!is_harmless(check, keys, value))
        check->reason = g_strdup_printf("the value of %s is not known to be harmless", name);
    return check->reason == NULL;
}

static bool
run_check(Check *check, const char *text, size_t size, char **ret_reason)
{
    unsigned line;
    if (ipb_git_config_parse(text, size, on_entry, check, &line))
        return true;
    *ret_reason = check->reason != NULL ? check->reason
                                        : g_strdup_printf("git cannot read line %u of it", line);
    return false;
}

bool
ipb_git_config_accepts(const char *path, size_t root_size, const char *text, size_t size,
                       char **ret_reason)
{
    Check check = {CONFIG_KEYS, G_N_ELEMENTS(CONFIG_KEYS), path, root_size, NULL};
    return run_check(&check, text, size, ret_reason);
}

bool
ipb_git_modules_accepts(const char *text, size_t size, char **ret_reason)
{
    Check check = {MODULES_KEYS, G_N_ELEMENTS(MODULES_KEYS), NULL, 0, NULL};
    return run_check(&check, text, size, ret_reason);
}

/* --- the todo list of a rebase ---------------------------------------------------------------- */

bool
ipb_git_todo_accepts(const char *text, size_t size, char **ret_reason)
{
    /* Without "exec" and "x". */
    static const char *const COMMANDS[] = {
        "pick",   "p", "revert", "edit", "e",          "reword", "r", "fixup", "f",
        "squash", "s", "label",  "l",    "reset",      "merge",  "t", "m",     "noop",
        "drop",   "d", "break",  "b",    "update-ref", "u",      NULL};
    if (memchr(text, '\0', size) != NULL) {
        *ret_reason = g_strdup("it has a NUL byte");
        return false;
    }
    g_autofree char *copy = g_strndup(text, size);
    g_auto(GStrv) lines = g_strsplit(copy, "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
        const char *start = *line + strspn(*line, " \t");
        size_t word_size = strcspn(start, " \t\r");
        if (*start == '#' || word_size == 0)
            continue;
        g_autofree char *word = g_strndup(start, word_size);
        if (g_strv_contains(COMMANDS, word))
            continue;
        g_autofree char *shown = g_utf8_make_valid(word, MIN((gssize) word_size, 32));
        *ret_reason = g_strdup_printf("the command \"%s\" may run a program", shown);
        return false;
    }
    return true;
}
