/* SPDX-License-Identifier: Apache-2.0
 *
 * Untrusted text, quoted so that a person sees what it is. Each text has one quoted form, and no
 * two texts have the same. The quoted form is a JSON string. Characters that are invisible, or
 * change how the text beside them looks, are written as \uXXXX:
 *
 * - control and format characters (zero-width, bidirectional, tags, soft hyphen), line separators,
 *   all spaces except U+0020;
 * - private, unassigned and blank characters, variation selectors, lone surrogates;
 * - right-to-left scripts, which reorder the text beside them;
 * - combining marks without a letter, more than three on one letter, over the whole letter, or that
 *   form a letter with a code of its own.
 *
 * Characters that look alike are not marked: Latin a and Cyrillic а, kinds of quotation marks.
 */
#pragma once

#include <stddef.h>

#include <glib.h>

/* Appends @text in quotation marks. WTF-8, may hold NUL; each other byte that is not UTF-8 becomes \ufffd. */
void ipb_quoted_append(GString *out, const char *text, size_t size);
/* A name: itself if it is made of ASCII letters, digits, "_" and "-", else quoted. */
void ipb_quoted_append_name(GString *out, const char *name);
/* Quoted text for where only ASCII can be shown: other characters become \uXXXX. Caller frees. */
char *ipb_quoted_to_ascii(const char *text);
