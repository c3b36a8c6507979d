/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of what a module has: none twice in one place, none that hides another. A wire name that is a usable identifier
 * stays as it is; what another would take from it gets a number: `_2`, `_3`.
 */
#pragma once

#include "apigen/model.h"

/* Takes a free name at the module's level: @base, else with a number. */
const char *ipb_names_take(IpbModule *module, const char *base);
/* Reserves the names that generated modules use themselves. */
void ipb_names_reserve(IpbModule *module);
/* Names the members of an enum. */
void ipb_names_give_members(IpbModule *module, IpbEnum *enumeration);
/* Names classes and enums by their claims (names-class.c). */
void ipb_names_give_classes(IpbModule *module);
/* Names all fields; after the classes, since none may hide a class that an annotation uses. */
void ipb_names_give_fields(IpbModule *module);
/* Does a member of this name hide a method of str? Type checkers want to know. */
bool ipb_names_is_str_method(const char *name);
