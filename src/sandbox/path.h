/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of a policy: from what is written ("~/x", "src/", "/a/../b") to where it really is. Resolving is done step by step and not
 * by realpath(), because it matters which symbolic links were followed: one that a sandbox could have made must not decide
 * what the next sandbox may do.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef enum {
    IPB_PATH_MISSING, /* nothing is there, or nothing can be there */
    IPB_PATH_CLOSED,  /* it cannot be looked at; @real is the deepest directory above it that can */
    IPB_PATH_FILE,    /* anything but a directory */
    IPB_PATH_DIRECTORY,
} IpbPathState;

typedef struct {
    IpbPathState state;
    /* Without symbolic links; of a missing path the part that is not there stands as written */
    char *real;
    GPtrArray *links;           /* char *: where the symbolic links are that were followed */
    unsigned long n_hard_links; /* hard links of a file */
} IpbPath;

/* Absolute, without "//", "/./" and a slash at the end; ".." stays, since what it means depends on links. */
char *ipb_path_expand(const char *text, const char *workspace, const char *home);
/* @absolute starts with "/". Never fails. */
void ipb_path_resolve(const char *absolute, IpbPath *ret_path);
void ipb_path_clear(IpbPath *path);
/* Is @path @directory or below it? Both without links and without a slash at the end. */
bool ipb_path_is_in(const char *path, const char *directory);
/* Is it strictly below? */
bool ipb_path_is_below(const char *path, const char *directory);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbPath, ipb_path_clear)
