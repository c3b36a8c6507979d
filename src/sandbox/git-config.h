/* SPDX-License-Identifier: Apache-2.0
 *
 * What code inside may write into the files that git obeys: its configuration, .gitmodules, the
 * todo list of a rebase. All keys and commands that are known to be harmless are listed; everything
 * else is refused, also what cannot be read without doubt.
 *
 * Pure: nothing is looked up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

/* @name: in lower case except its middle: "remote.Origin.url". @value: NULL if the key has none.
 * Returns false to stop. */
typedef bool (*IpbGitConfigFunction)(const char *name, const char *value, void *data);

/* Reads the configuration as git does, and calls @on_entry for each key. Returns false if git would
 * not read it, or if @on_entry stopped. *ret_line: where. */
bool ipb_git_config_parse(const char *text, size_t size, IpbGitConfigFunction on_entry, void *data,
                          unsigned *ret_line);

/* Each returns true if the contents are harmless. Otherwise *ret_reason says why not, for people;
 * caller frees. */

/* @path: of the file, absolute; its first @root_size bytes are the writable directory. */
bool ipb_git_config_accepts(const char *path, size_t root_size, const char *text, size_t size,
                            char **ret_reason);
bool ipb_git_modules_accepts(const char *text, size_t size, char **ret_reason);
bool ipb_git_todo_accepts(const char *text, size_t size, char **ret_reason);
