/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbTextPattern: a pattern that matches a whole text.
 *
 * - `*`: any characters except "/"
 * - `**`: any characters
 * - `?`: one character except "/"
 * - `[a-z]`, `[!a-z]`: one ASCII character in the set; one character that is not in it
 * - `\` before a character: the character itself
 *
 * The matcher follows all states at once, so no text makes it slow: its time is linear in the text.
 * A pattern is immutable.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

typedef struct IpbTextPattern IpbTextPattern;

/* INVALID: too long, a set that is not closed, a `\` at the end. @text is UTF-8. */
IpbTextPattern *ipb_text_pattern_new(const char *text, GError **error);
void ipb_text_pattern_free(IpbTextPattern *pattern);
/* @text is UTF-8 or WTF-8 and may contain NUL. */
bool ipb_text_pattern_matches(const IpbTextPattern *pattern, const char *text, size_t size);
/* Whether the pattern contains a wildcard or a set. */
bool ipb_text_pattern_has_wildcard(const IpbTextPattern *pattern);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbTextPattern, ipb_text_pattern_free)
