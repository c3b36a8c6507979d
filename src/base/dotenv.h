/* SPDX-License-Identifier: Apache-2.0
 *
 * `.env` files, in the syntax of python-dotenv: NAME=value, `export`, 'single' and "double" quoted
 * values (both may span several lines), escapes in them, comments. ${NAME} in a value is not
 * replaced. A statement that cannot be read gives a warning with its line number, and reading
 * continues with the next line, as in python-dotenv: one bad line must not remove all variables.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

/* Returns a NULL-terminated list of "NAME=value" strings: one for each name, with its last value,
 * in the order of the names' first appearance. A name without "=" defines nothing. @warnings (of
 * char *, may be NULL) gets "line 3: …". Warnings never quote a value, which may be a secret. */
char **ipb_dotenv_parse(const char *text, size_t size, GPtrArray *warnings);

/* The same for a file; a missing file is empty. Links below @base (may be NULL) are not followed.
 * Warnings begin with the path. Errors: INVALID if @path is not a regular file, REFUSED if it is a
 * link below @base, LIMIT, SYSTEM. */
bool ipb_dotenv_load(const char *base, const char *path, GPtrArray *warnings, char ***ret_env,
                     GError **error);
