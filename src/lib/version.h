/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions of public structs of options.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* INVALID if @version, that of the struct @name, is 0 or above @newest. A newer version only adds
 * members at the end, so an older program passes a beginning of our struct: members that its
 * version lacks are not read. */
bool ipb_lib_check_version(unsigned version, unsigned newest, const char *name, GError **error);
