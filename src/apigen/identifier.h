/* SPDX-License-Identifier: Apache-2.0
 *
 * Python identifiers: which texts are identifiers, and identifiers made from names of the wire.
 */
#pragma once

#include "apigen/model.h"

/* NULL-terminated. */
extern const char *const IPB_PYTHON_KEYWORDS[];

bool ipb_identifier_is_keyword(const char *name);
/* Whether @name matches [A-Za-z_][A-Za-z0-9_]* and is not a keyword. */
bool ipb_identifier_is_plain(const char *name);
/* Makes an identifier of @wire. It is not a keyword and has no leading underscore. It gets "field_"
 * in front if @wire begins with an underscore or a digit, and is "field" if no character of @wire
 * is usable. */
char *ipb_identifier_make(IpbSpan wire);
/* The same for a member of an enum. A name that begins with a digit gets "_" in front, and names
 * that consist of signs are spelled out. */
char *ipb_identifier_make_member(IpbSpan wire);
/* "help-wanted issues" → "HelpWantedIssues"; "" if no character of @wire is usable. */
char *ipb_identifier_make_class(IpbSpan wire);
/* The name of one item of @plural: "Edits" → "Edit", "Entries" → "Entry", "Data" → "DataItem". */
char *ipb_identifier_make_singular(const char *plural);
