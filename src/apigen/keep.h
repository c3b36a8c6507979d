/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user added to a generated package survives when it is generated again. The package holds a list of what was generated
 * (MANIFEST); by it three things are told apart:
 *
 * - a generated file that is as it was, or no longer generated: it goes;
 * - one with text behind the generated text, such as a run_parsed(): the text is put behind the new one;
 * - one that was changed within, or has text behind it and is no longer generated: it stays as NAME.before.
 *
 * All other files and directories stay. Nothing that stays is read but as text, and no link is followed.
 */
#pragma once

#include "apigen/apigen.h"

typedef struct IpbKeep IpbKeep;

/* Of the package @directory as it is now; it may be missing. */
IpbKeep *ipb_keep_new(const char *directory);
void ipb_keep_free(IpbKeep *keep);
/* The text of the file: what is generated, and what the user put behind it. */
char *ipb_keep_merge(IpbKeep *keep, const IpbApigenFile *file);
/* The name of the list, and its text for @files. */
const char *ipb_keep_manifest_name(void);
char *ipb_keep_make_manifest(const GPtrArray *files);
/* Moves what stays from @old, where the package of before now is, to the new one. Notes a line on each file that was not merged. */
bool ipb_keep_move(IpbKeep *keep, const char *old, const char *new, GString *notes, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbKeep, ipb_keep_free)
