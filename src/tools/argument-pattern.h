/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbArgumentPattern: what a rule says about the arguments of a tool call. It is built from JSON:
 *
 * - an object: each of its members must be present and match; other members are allowed
 * - a string: a text pattern (text-pattern.h) for a string
 * - an array: one of its patterns must match
 * - a number, true, false, null: this value
 *
 * Matching is strict for rules that allow calls, and lenient for rules that deny or ask. So nothing
 * that untrusted code does to an argument turns a refusal into a permission.
 *
 * - If an argument is an array, all items must match if strict; one is enough if lenient.
 * - A wildcard matches a path segment ".." or a NUL only if lenient.
 * - Names that differ only in case are equal only if lenient, and so are numbers that are equal
 *   only as floats.
 */
#pragma once

#include "json/json.h"

typedef struct IpbArgumentPattern IpbArgumentPattern;

/* INVALID: the message begins with @where and the path below it. LIMIT: nested too deeply. */
IpbArgumentPattern *ipb_argument_pattern_new(const IpbJson *value, const char *where,
                                             GError **error);
void ipb_argument_pattern_free(IpbArgumentPattern *pattern);
bool ipb_argument_pattern_matches(const IpbArgumentPattern *pattern, const IpbJson *value,
                                  bool is_strict);
/* Whether the pattern, an object, names each member of @arguments. */
bool ipb_argument_pattern_names_all(const IpbArgumentPattern *pattern, const IpbJson *arguments);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbArgumentPattern, ipb_argument_pattern_free)
