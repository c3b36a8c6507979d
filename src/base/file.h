/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and directories: whole reads with a maximum, atomic replacement, trees that are removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <glib.h>

/* A directory that was removed while we are in it has no name, and GLib would take "/" for it. */
bool ipb_file_check_current_directory(GError **error);
/* The whole file, NUL-terminated; LIMIT above @max_size, NOT_FOUND if there is none, INVALID if it is no regular file: a FIFO
 * would hold us for ever. */
bool ipb_file_read(const char *path, size_t max_size, char **ret_text, size_t *ret_size,
                   GError **error);
/* The same for what a person named: a FIFO or a terminal is read to its end, however long that takes. */
bool ipb_file_read_to_end(const char *path, size_t max_size, char **ret_text, size_t *ret_size,
                          GError **error);
/* Replaces @path: a temporary file beside it with @mode, written, synced, renamed. */
bool ipb_file_write_atomic(const char *path, const char *text, size_t size, mode_t mode,
                           GError **error);
/* mkdir -p; existing directories keep their mode. */
bool ipb_file_make_directories(const char *path, mode_t mode, GError **error);
/* The same for @path in @base, where somebody else may write: an fd of it, O_PATH, to which no symbolic link below @base has led; -1 with
 * REFUSED if there is one. @path is absolute and normal, as is @base. */
int ipb_file_open_directory_in(const char *base, const char *path, GError **error);
/* Makes an empty directory @prefix + random in @parent (NULL: the system's temporary directory). */
char *ipb_file_make_temp_directory(const char *parent, const char *prefix, GError **error);
/* Removes a tree, never following a symbolic link; a missing @path is fine. */
bool ipb_file_remove_tree(const char *path, GError **error);
/* Puts the directory @source in the place of @target (same file system), and what was there in the place of @source: missing if there
 * was nothing. There is no moment at which @target is missing if it existed (renameat2 EXCHANGE, else renames). */
bool ipb_file_swap_directory(const char *source, const char *target, GError **error);
