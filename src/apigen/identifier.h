/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's identifiers: which texts are some, and what is made of a name from the wire that is none.
 */
#pragma once

#include "apigen/model.h"

/* Ends in NULL. */
extern const char *const IPB_PYTHON_KEYWORDS[];

bool ipb_identifier_is_keyword(const char *name);
/* [A-Za-z_][A-Za-z0-9_]*, no keyword. */
bool ipb_identifier_is_plain(const char *name);
/* An identifier made of @wire, not a keyword, without leading underscores: "field_…" if there was one, if it begins with
 * a digit, or if nothing of @wire can stay. */
char *ipb_identifier_make(IpbSpan wire);
/* The same for a member of an enum: one that begins with a digit has "_" in front, signs alone have their names. */
char *ipb_identifier_make_member(IpbSpan wire);
/* "help-wanted issues" → "HelpWantedIssues"; "" if nothing of @wire can stay. */
char *ipb_identifier_make_class(IpbSpan wire);
/* A name for one item of @plural: "Edits" → "Edit", "Entries" → "Entry", "Data" → "DataItem". */
char *ipb_identifier_make_singular(const char *plural);
