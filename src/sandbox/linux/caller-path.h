/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCallerPath: where a path of the caller leads, found without races. The directory is looked up
 * once and kept open. What is judged is the real path of that directory and the last name in it,
 * and the call is performed on the same directory and name. So it makes no difference if code
 * inside changes directories, links or its memory at the same time.
 *
 * The look-up happens on the caller's root, so it sees what the caller sees, and no more. Links of
 * procfs that lead anywhere (/proc/self/fd/7) are followed only if they are the caller's own.
 */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "sandbox/linux/caller.h"

typedef struct {
    /* O_PATH, owned: the directory; or, if @is_whole, what the path means itself */
    int fd;
    /* There is no last name: "/", ".", "..", or a descriptor of the caller (/proc/self/fd/7). */
    bool is_whole;
    bool is_descriptor; /* of the caller; @real says what the system calls it */
    bool is_too_deep;   /* @real is longer than a path can be, and "" */
    bool has_slash;     /* the text ends in a slash: it must be a directory */
    char name[NAME_MAX + 1];
    /* The real path of the directory and @name, or of @fd. Not absolute: a pipe or the like. */
    char real[PATH_MAX + NAME_MAX + 2];
    unsigned n_links; /* that were followed */
} IpbCallerPath;

/* Returns 0 or an errno; then there is nothing to clear. @directory_fd: of the caller, AT_FDCWD.
 * The last name is not followed if it is a symbolic link. */
int ipb_caller_path_find(IpbCaller *caller, int directory_fd, const char *text,
                         IpbCallerPath *ret_path);
/* Finds what a path means itself. @is_followed: also if its last name is a symbolic link. *ret_fd:
 * of it, O_PATH, the caller of this function owns it. Returns 0 or an errno; then there is nothing
 * to clear. */
int ipb_caller_path_find_target(IpbCaller *caller, int directory_fd, const char *text,
                                bool is_followed, IpbCallerPath *ret_path, int *ret_fd,
                                struct stat *ret_info);
/* The last name is a symbolic link: goes where it leads. Returns 0 or an errno; @path stays to be
 * cleared. */
int ipb_caller_path_follow(IpbCaller *caller, IpbCallerPath *path);
/* The caller's descriptor @fd, as if it were named /proc/self/fd/N. */
int ipb_caller_path_of_fd(IpbCaller *caller, int fd, IpbCallerPath *ret_path);
/* Opens what the path means as O_PATH; does not follow a symbolic link. Returns an fd or -1 with
 * errno. */
int ipb_caller_path_open(const IpbCallerPath *path);
void ipb_caller_path_clear(IpbCallerPath *path);
/* Is there anything at @real, which has no symbolic link in it, as the caller sees it? If that
 * cannot be found out: yes. */
bool ipb_caller_path_exists(IpbCaller *caller, const char *real);
/* Is it on a procfs, wherever that is mounted? */
bool ipb_caller_path_is_in_proc(const IpbCallerPath *path);
/* Does @real, which has no symbolic link in it, mean the file @info to the caller? */
bool ipb_caller_path_means(IpbCaller *caller, const char *real, const struct stat *info);
/* Is it anything but a directory in which all names end in @suffix? If that cannot be found out:
 * yes. */
bool ipb_caller_path_has_other(IpbCaller *caller, const char *real, const char *suffix);
