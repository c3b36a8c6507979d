/* SPDX-License-Identifier: Apache-2.0
 *
 * Globs of a policy: `*` is anything but "/", `**` anything, `**` and "/" any number of directories or none, `?` one character but "/", `[a-z]`
 * one of a set (there is no negation; a "[" without its "]" is itself). As srt has them.
 *
 * A glob is a small automaton: matching takes time proportional to text times pattern, whatever the pattern, and a walk of the
 * file system knows at each directory whether anything below can match.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

typedef struct IpbGlob IpbGlob;

/* Does @text have any of "*?[]"? */
bool ipb_glob_is_pattern(const char *text);
/* INVALID: longer than 4096 bytes, or ".." after a wildcard. */
IpbGlob *ipb_glob_new(const char *pattern, GError **error);
void ipb_glob_free(IpbGlob *glob);
bool ipb_glob_matches(const IpbGlob *glob, const char *text);

/* What a walk may cost, for all walks of a plan together. */
typedef struct {
    size_t entries_left;
    gint64 deadline_us; /* of g_get_monotonic_time() */
} IpbGlobBudget;

typedef struct {
    const char *base;  /* the directory where the pattern starts: absolute, real, there */
    bool follow_links; /* go through symbolic links to directories (for denials) */
    bool only_directories;
    IpbGlobBudget *budget;
    /* Each match, and each directory that could not be listed (@is_closed) though something in it could match. The path starts with
     * @base and is not resolved. */
    void (*on_match)(const char *path, bool is_closed, void *data);
    void *data;
} IpbGlobWalk;

/* LIMIT: the budget is used up, and so it is not known what else would match. */
bool ipb_glob_walk(const IpbGlob *glob, const IpbGlobWalk *walk, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGlob, ipb_glob_free)
