/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbTextPattern: a pattern for a whole text: `*` any run without "/", `**` any run, `?` one character but "/", `[a-z]` and
 * `[!a-z]` one ASCII character of a set (and not of it: any other), `\` before a character takes it as it is.
 *
 * Matching is a walk of all states at once, so that no text makes it slow: time is linear in the text. Unchanging once made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

typedef struct IpbTextPattern IpbTextPattern;

/* INVALID: too long, an open set, a `\` at the end. @text is UTF-8. */
IpbTextPattern *ipb_text_pattern_new(const char *text, GError **error);
void ipb_text_pattern_free(IpbTextPattern *pattern);
/* @text: UTF-8 or WTF-8, may hold NUL. */
bool ipb_text_pattern_matches(const IpbTextPattern *pattern, const char *text, size_t size);
/* Does it hold a wildcard or set? */
bool ipb_text_pattern_has_wildcard(const IpbTextPattern *pattern);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbTextPattern, ipb_text_pattern_free)
