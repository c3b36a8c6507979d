/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbBeneath: an open directory, below which other programs may write at any time: cells write the
 * workspace. Everything here acts on what is really below the directory, whatever names they
 * exchange at the same time: no symbolic link is followed, no ".." leads out, only regular files
 * are read, and opening waits for nothing (openat2). So a link, a FIFO or a device in place of a
 * file is an error, and nothing outside is touched.
 *
 * The way to the first directory is the user's choice. It may contain links.
 *
 * Names are single: no "/", not "." and not "..". Paths are relative and consist of such names.
 * Errors say what is in the way: REFUSED (a link, or something else than a file or directory),
 * NOT_FOUND, LIMIT, SYSTEM.
 *
 * Ownership: the owner frees it, which closes the directory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <glib.h>

typedef struct IpbBeneath IpbBeneath;

/* Opens the directory @path; links are followed. */
IpbBeneath *ipb_beneath_open(const char *path, GError **error);
/* Is @path (absolute and canonical) equal to @base or below it, by its text? */
bool ipb_beneath_contains(const char *base, const char *path);
/* Opens the directory @path (absolute and canonical) without links from the directory that is
 * trusted: @base, if it contains @path; else the one that contains @path. If @mode is not 0,
 * missing directories are made, with that mode. */
IpbBeneath *ipb_beneath_open_in(const char *base, const char *path, mode_t mode, GError **error);
/* Opens the directory @path below; likewise. */
IpbBeneath *ipb_beneath_descend(const IpbBeneath *beneath, const char *path, mode_t mode,
                                GError **error);
void ipb_beneath_free(IpbBeneath *beneath);
/* The path by which it was opened, for people and for other programs. Borrowed. */
const char *ipb_beneath_path(const IpbBeneath *beneath);
/* Its fd (O_PATH). Borrowed. */
int ipb_beneath_fd(const IpbBeneath *beneath);

/* Reads the regular file @path and adds a NUL. LIMIT above @max_size. */
bool ipb_beneath_read(const IpbBeneath *beneath, const char *path, size_t max_size, char **ret_text,
                      size_t *ret_size, GError **error);
/* Reads the file @path. If @base (may be NULL) contains it, links are followed up to @base and not
 * below it; else as ipb_file_read(). */
bool ipb_beneath_read_in(const char *base, const char *path, size_t max_size, char **ret_text,
                         size_t *ret_size, GError **error);
/* Creates the file @name, which must not exist. Returns its fd to write; -1 with errno. */
int ipb_beneath_create(const IpbBeneath *beneath, const char *name, mode_t mode);
/* Creates the file and writes it. */
bool ipb_beneath_write(const IpbBeneath *beneath, const char *name, const char *text, size_t size,
                       mode_t mode, GError **error);
/* Makes a directory @prefix + random, for this user only, and opens it. *ret_name gets its name. */
IpbBeneath *ipb_beneath_make_temporary(const IpbBeneath *beneath, const char *prefix,
                                       char **ret_name, GError **error);
bool ipb_beneath_set_mode(const IpbBeneath *beneath, mode_t mode, GError **error);
/* The names in the directory, sorted; at most @max, else LIMIT. */
GPtrArray *ipb_beneath_list(const IpbBeneath *beneath, size_t max, GError **error);

/* What is at @name itself. 0: nothing is there, or it cannot be found out; errno says why. */
mode_t ipb_beneath_kind(const IpbBeneath *beneath, const char *name);
/* The same for people: "a symbolic link", "a FIFO". */
const char *ipb_beneath_describe_kind(mode_t kind);

/* Renames. Returns 0 or an errno, which is EEXIST if @new_name exists. */
int ipb_beneath_move(const IpbBeneath *from, const char *name, const IpbBeneath *to,
                     const char *new_name);
/* Exchanges @source and @target. If @target did not exist, @source is missing afterwards. There is
 * no moment at which an existing @target is missing (renameat2 EXCHANGE; a file system without it
 * gets two renames). */
bool ipb_beneath_swap(const IpbBeneath *beneath, const char *source, const char *target,
                      GError **error);
/* Removes what has this name, with everything in it. A missing @name is not an error. */
bool ipb_beneath_remove_tree(const IpbBeneath *beneath, const char *name, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbBeneath, ipb_beneath_free)
