/* SPDX-License-Identifier: Apache-2.0
 *
 * Python names for names from the wire. A wire name that is a usable identifier stays as it is; any
 * other becomes one, and is told apart from its neighbours by a number: `_2`, `_3`.
 */
#pragma once

#include "apigen/model.h"

bool ipb_names_is_keyword(const char *name);
/* [A-Za-z_][A-Za-z0-9_]*, no keyword. */
bool ipb_names_is_plain_identifier(const char *name);
/* An identifier made of @wire, not a keyword, without leading underscores: "field_…" if there was one, if it begins with
 * a digit, or if nothing of @wire can stay. */
char *ipb_names_make_identifier(IpbText wire);
/* "help-wanted issues" → "HelpWantedIssues"; "" if nothing of @wire can stay. */
char *ipb_names_make_class(IpbText wire);
/* A name for one item of @plural: "Edits" → "Edit", "Entries" → "Entry", "Data" → "DataItem". */
char *ipb_names_make_singular(const char *plural);
/* Takes a free name at the module's level: @base, else with a number. */
const char *ipb_names_take(IpbModule *module, const char *base);
/* Names classes and enums by their claims. */
void ipb_names_give_classes(IpbModule *module);
/* Reserves the names that generated modules use themselves. */
void ipb_names_reserve(IpbModule *module);
/* Names the members of an enum. */
void ipb_names_give_members(IpbModule *module, IpbEnum *enumeration);
/* Names all classes and enums, then all fields, none of which may hide a class that an annotation uses. */
void ipb_names_finish(IpbModule *module);
/* Does a member of this name hide a method of str? Type checkers want to know. */
bool ipb_names_is_str_method(const char *name);
