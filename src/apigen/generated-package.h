/* SPDX-License-Identifier: Apache-2.0
 *
 * A generated package on disk. It is written in one step: the package is either the old one or the
 * new one. What a user added to the old package is kept. The file `.generated` in a package lists
 * what was generated, so that each file of the old package is one of these:
 *
 * - A generated file without changes. It is replaced, or removed if it is no longer generated.
 * - A generated file with text after the generated text, such as a run_parsed(). The text is
 *   appended to the new file.
 * - A generated file that was changed in other places, or that has text after the generated text
 *   and is no longer generated. It is kept as NAME.before.
 * - Any other file or directory. It is moved to the new package.
 *
 * Files that are kept are only read as text. Symbolic links are not followed.
 */
#pragma once

#include "apigen/apigen.h"
#include "base/beneath.h"

/* Called when the new package is in place. If it returns false and @error, the previous package is
 * put back. */
typedef bool (*IpbGeneratedPackageConfirmFunc)(void *data, GError **error);
/* Writes the files (IpbApigenFile) as the package @server_name in @root, which is a namespace
 * package. Other programs may change what is there at the same time: nothing outside of @root is
 * read or written. @confirm may be NULL. *ret_note describes what could not be merged, and is NULL
 * if everything was. Errors: INVALID if something that is not a generated package is at that place,
 * SYSTEM. */
bool ipb_generated_package_write(GPtrArray *files, const IpbBeneath *root, const char *server_name,
                                 IpbGeneratedPackageConfirmFunc confirm, void *data,
                                 char **ret_note, GError **error);
/* What a user appended to the generated text of the file @name in a package. NULL: nothing, or the
 * generated text itself was changed. Caller frees. */
char *ipb_generated_package_read_added(const IpbBeneath *package, const char *name);
