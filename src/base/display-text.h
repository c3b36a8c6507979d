/* SPDX-License-Identifier: Apache-2.0
 *
 * Untrusted text, made safe to show to people: printable, quoted, and in rows of a screen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

/* @text with control characters made visible (ESC as ␛), except newline and tab, and with marks
 * that change the direction of text as \uXXXX. Caller frees. */
char *ipb_display_text_printable(const char *text);

/* Appends @text in quotation marks, so that a person sees what it is. Each text has one quoted
 * form, and no two texts have the same. The quoted form is a JSON string. Characters that are
 * invisible, or change how the text beside them looks, are written as \uXXXX:
 *
 * - control and format characters (zero-width, bidirectional, tags, soft hyphen), line separators,
 *   all spaces except U+0020;
 * - private, unassigned and blank characters, variation selectors, lone surrogates;
 * - right-to-left scripts, which reorder the text beside them;
 * - combining marks without a letter, more than three on one letter, over the whole letter, or that
 *   form a letter with a code of its own.
 *
 * Characters that look alike are not marked: Latin a and Cyrillic а, kinds of quotation marks.
 *
 * @text: WTF-8, may hold NUL. Each byte that is not UTF-8 becomes \ufffd. */
void ipb_display_text_quote(GString *out, const char *text, size_t size);
/* Appends a name: as it is if it consists of ASCII letters, digits, "_" and "-", else quoted. */
void ipb_display_text_quote_name(GString *out, const char *name);
/* Quoted text for where only ASCII can be shown: other characters become \uXXXX. Caller frees. */
char *ipb_display_text_to_ascii(const char *text);

/* The mark at the beginning of a row that continues the row above. No line begins with this mark,
 * so a line that is broken at some place cannot look like two lines. */
#define IPB_DISPLAY_TEXT_CONTINUED "  : "
/* A narrower screen breaks the rows again. */
#define IPB_DISPLAY_TEXT_MIN_WIDTH 12
/* The rows of @text, none wider than @width columns. @text: UTF-8 without control characters except
 * newline. Characters that are wide on some terminals count as wide, so a row may be shorter than
 * possible. Free with g_ptr_array_unref(). */
GPtrArray *ipb_display_text_rows(const char *text, unsigned width);
/* Maximum of a text in a dialog of another program, which may not scroll. */
#define IPB_DIALOG_MAX_CHARS 4000
#define IPB_DIALOG_MAX_ROWS 64
/* Its rows there. *@ret_fits: whether a person can see all of it. Caller unrefs. */
GPtrArray *ipb_display_text_dialog_rows(const char *text, bool *ret_fits);
