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
/* The same for a file that is open; @path names it in errors. */
bool ipb_file_read_fd(int fd, const char *path, size_t max_size, char **ret_text, size_t *ret_size,
                      GError **error);
/* Replaces @path: writes a temporary file beside it with @mode, syncs it, and renames it. */
bool ipb_file_write_atomic(const char *path, const char *text, size_t size, mode_t mode,
                           GError **error);
/* mkdir -p; existing directories keep their mode. */
bool ipb_file_make_directories(const char *path, mode_t mode, GError **error);
/* Makes an empty directory @prefix + random in @parent (NULL: the system's temporary directory). */
char *ipb_file_make_temp_directory(const char *parent, const char *prefix, GError **error);
/* Removes a tree without following symbolic links. A missing @path is not an error. */
bool ipb_file_remove_tree(const char *path, GError **error);
/* The same for what has the name @name in a directory. Sets errno if that fails. */
bool ipb_file_remove_tree_at(int directory, const char *name);
