/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbArgumentPattern: what a rule says of a tool call's arguments. Built from JSON:
 *
 * - an object: each of its members must be there and match; others may be there, too
 * - a string: a text-pattern.h for a string
 * - an array: one of its patterns must match
 * - a number, true, false, null: that very value
 *
 * An argument that is an array is matched item by item: every one must match where calls are allowed (strict), one is enough where they
 * are denied or asked for. Likewise a path segment ".." or a NUL is only matched by a wildcard where that does not allow anything; names
 * that differ only in case, and numbers that only floats take for one, are the same where that does not. So what untrusted code can do to
 * an argument never turns a refusal into a permission.
 */
#pragma once

#include "json/json.h"

typedef struct IpbArgumentPattern IpbArgumentPattern;

/* INVALID says where in @where; LIMIT: nested too deeply. */
IpbArgumentPattern *ipb_argument_pattern_new(const IpbJson *value, const char *where,
                                             GError **error);
void ipb_argument_pattern_free(IpbArgumentPattern *pattern);
bool ipb_argument_pattern_matches(const IpbArgumentPattern *pattern, const IpbJson *value,
                                  bool is_strict);
/* Does the pattern, an object, name each member of @arguments? */
bool ipb_argument_pattern_names_all(const IpbArgumentPattern *pattern, const IpbJson *arguments);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbArgumentPattern, ipb_argument_pattern_free)
