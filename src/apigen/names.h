/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python names in a module. No two things in one place have the same name, and no name hides
 * another. A wire name that is a usable identifier stays as it is. Other names that would be equal
 * get a number: `_2`, `_3`.
 */
#pragma once

#include "apigen/model.h"

/* What to call the classes and enums that are made for a schema. */
typedef struct {
    const char *name;       /* CamelCase */
    const IpbClass *parent; /* the class that has it as a member; NULL: none */
    bool is_definition; /* reached by $ref: its description belongs to itself, not to the place */
} IpbNameHint;

/* Reserves the names that generated modules use themselves. */
void ipb_names_reserve(IpbModule *module);
/* Takes a free name at the module's level: @base, or @base with a number. */
const char *ipb_names_take(IpbModule *module, const char *base);
/* Claims a name for a class or enum; *name is set by ipb_names_give_classes(). */
IpbClaim *ipb_names_claim(IpbModule *module, const char **name, IpbNameHint hint, bool is_input);
/* The same class or enum is at another place, too: the better of both places counts. */
void ipb_names_claim_again(IpbClaim *claim, IpbNameHint hint);
/* Names the members of an enum. */
void ipb_names_give_members(IpbModule *module, IpbEnum *enumeration);
/* Names classes and enums by their claims. */
void ipb_names_give_classes(IpbModule *module);
/* Names all fields. Call it after the classes are named, since no field may hide a class that an
 * annotation uses. */
void ipb_names_give_fields(IpbModule *module);
/* Whether an enum's member of this name hides a method of str, which type checkers report. */
bool ipb_names_is_str_method(const char *name);
