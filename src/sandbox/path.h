/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPath: where a path of a policy ("~/x", "src/", "/a/../b") really is. A path is resolved step
 * by step, not by realpath(), because it matters which symbolic links were followed. A link that a
 * sandbox could have created must not decide what the next sandbox may do.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef enum {
    IPB_PATH_MISSING, /* it does not exist, or cannot exist */
    IPB_PATH_CLOSED,  /* it cannot be accessed; @real is the deepest directory above it that can */
    IPB_PATH_FILE,    /* anything but a directory */
    IPB_PATH_DIRECTORY,
} IpbPathState;

typedef struct {
    IpbPathState state;
    /* Without symbolic links. If the path does not exist, the missing part is as written. */
    char *real;
    GPtrArray *links;           /* char *: the symbolic links that were followed */
    unsigned long n_hard_links; /* hard links of a file */
} IpbPath;

/* Makes a path absolute, and removes "//", "/./" and a slash at the end. ".." remains, since its
 * meaning depends on links. */
char *ipb_path_expand(const char *text, const char *workspace, const char *home);
/* @absolute starts with "/". Never fails. */
void ipb_path_resolve(const char *absolute, IpbPath *ret_path);
void ipb_path_clear(IpbPath *path);
/* Is @path equal to @directory, or below it? Both are without links and without a slash at the
 * end. */
bool ipb_path_is_in(const char *path, const char *directory);
/* Is @path strictly below @directory? */
bool ipb_path_is_below(const char *path, const char *directory);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbPath, ipb_path_clear)
