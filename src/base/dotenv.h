/* SPDX-License-Identifier: Apache-2.0
 *
 * `.env` files, in the syntax that python-dotenv reads: NAME=value, `export`, 'single' and "double"
 * quoted values (both over several lines), escapes in them, comments. ${NAME} in a value is not
 * replaced. A statement that cannot be read is a warning with its line number, and the next line
 * goes on, as python-dotenv does: one bad line must not take all variables away.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

/* Appends "NAME=value" strings to a NULL-terminated list: one of each name, the last value counts,
 * in the order in which the names came first. A name without "=" defines nothing. @warnings (of
 * char *, may be NULL) gets "line 3: …"; they never quote a value, which may be a secret. */
char **ipb_dotenv_parse(const char *text, size_t size, GPtrArray *warnings);

/* The same for a file; a missing one is empty. Warnings begin with the path. Errors: INVALID if
 * @path is no regular file, LIMIT, SYSTEM. */
bool ipb_dotenv_load(const char *path, GPtrArray *warnings, char ***ret_env, GError **error);
