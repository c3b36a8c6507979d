/* SPDX-License-Identifier: Apache-2.0
 *
 * Glob patterns of a policy, with srt's syntax:
 *
 * - `*` matches anything except "/".
 * - `**` matches anything. `**` followed by "/" matches any number of directories, or none.
 * - `?` matches one character except "/".
 * - `[a-z]` matches one character of a set. There is no negation. A "[" without "]" matches itself.
 *
 * A glob is compiled to a small automaton. Matching takes time proportional to text times pattern,
 * for any pattern. A walk of the file system knows at each directory whether anything below can
 * match.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

typedef struct IpbGlob IpbGlob;

/* Does @text contain any of "*?[]"? */
bool ipb_glob_is_pattern(const char *text);
/* INVALID: longer than 4096 bytes, or ".." after a wildcard. */
IpbGlob *ipb_glob_new(const char *pattern, GError **error);
void ipb_glob_free(IpbGlob *glob);
bool ipb_glob_matches(const IpbGlob *glob, const char *text);
/* The size of the longest match that is all of @text, or ends before a "/" in it: the deepest
 * directory on the way that matches. 0: there is none. Does not allocate for short patterns. May be
 * called in any thread. */
size_t ipb_glob_match_size(const IpbGlob *glob, const char *text);
/* Does a match below the directory @text depend on the name and the depth of that directory? False
 * if nothing below can match, or if what matches would match below every directory. May be called
 * in any thread. */
bool ipb_glob_depends_on(const IpbGlob *glob, const char *text);

/* Is each text that matches and begins with "@from/" also matched if it begins with "@to/" instead?
 * @to NULL: such a text is not matched any more. */
bool ipb_glob_covers_below(const IpbGlob *glob, const char *from, const char *to);

/* Limits of the file system walks of a plan, all walks together. */
typedef struct {
    size_t entries_left;
    gint64 deadline_us; /* in the time of g_get_monotonic_time() */
} IpbGlobBudget;

typedef struct {
    const char *base;  /* the directory where the pattern starts; a real path that exists */
    bool follow_links; /* go through symbolic links to directories; used for denials */
    bool only_directories;
    IpbGlobBudget *budget;
    /* Called for each match. Also called for each directory that could not be listed although
     * something in it could match (@is_closed). The path starts with @base and is not resolved. */
    void (*on_match)(const char *path, bool is_closed, void *data);
    void *data;
} IpbGlobWalk;

/* LIMIT: a limit of the budget was reached, so further matches are unknown. */
bool ipb_glob_walk(const IpbGlob *glob, const IpbGlobWalk *walk, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGlob, ipb_glob_free)
