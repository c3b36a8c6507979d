/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and directories: reading with a maximum size, atomic replacement, removing trees.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <glib.h>

/* Fails if the current directory was removed. Then it has no name, and GLib would use "/"
 * instead. */
bool ipb_file_check_current_directory(GError **error);
/* Reads the whole file and adds a NUL. Errors: LIMIT above @max_size, NOT_FOUND if it does not
 * exist, INVALID if it is not a regular file: reading a FIFO could wait for ever. */
bool ipb_file_read(const char *path, size_t max_size, char **ret_text, size_t *ret_size,
                   GError **error);
/* The same for a file that the user named. A FIFO or a terminal is read to its end, however long
 * that takes. */
bool ipb_file_read_to_end(const char *path, size_t max_size, char **ret_text, size_t *ret_size,
                          GError **error);
/* Replaces @path: writes a temporary file beside it with @mode, syncs it, and renames it. */
bool ipb_file_write_atomic(const char *path, const char *text, size_t size, mode_t mode,
                           GError **error);
/* mkdir -p; existing directories keep their mode. */
bool ipb_file_make_directories(const char *path, mode_t mode, GError **error);
/* Makes the directory @path in @base, where other users or a sandbox may write. Returns an fd of it
 * (O_PATH), or -1. No symbolic link below @base is followed: REFUSED if there is one. @path and
 * @base are absolute and normal. */
int ipb_file_open_directory_in(const char *base, const char *path, GError **error);
/* Makes an empty directory @prefix + random in @parent (NULL: the system's temporary directory). */
char *ipb_file_make_temp_directory(const char *parent, const char *prefix, GError **error);
/* Removes a tree without following symbolic links. A missing @path is not an error. */
bool ipb_file_remove_tree(const char *path, GError **error);
/* Exchanges the directories @source and @target, on the same file system. If @target did not exist,
 * @source is missing afterwards. There is no moment at which an existing @target is missing
 * (renameat2 EXCHANGE; a file system without it gets two renames). */
bool ipb_file_swap_directory(const char *source, const char *target, GError **error);
