/* SPDX-License-Identifier: Apache-2.0
 *
 * Untrusted text as Python source: string literals, JSON values as expressions; docstrings are in docstring.h. Nothing that comes
 * from a server reaches a generated file in any other way.
 */
#pragma once

#include "apigen/model.h"

#define IPB_TEXT_REPLACEMENT 0xfffd

/* The next code point of a WTF-8 text (a lone surrogate as itself), U+FFFD for anything else; moves *at. */
gunichar ipb_text_next(IpbText text, size_t *at);
/* Can a reader see that the character is there? */
bool ipb_text_is_visible(gunichar c);
IpbText ipb_text_from(const char *text);
bool ipb_text_has_surrogate(IpbText text);

/* A string literal in double quotes. */
void ipb_text_append_literal(GString *out, IpbText text);
/* A JSON scalar as a Python expression. False, and nothing appended, for what has none: numbers that no float holds,
 * integers too long to be read, arrays and objects. */
bool ipb_text_append_value(GString *out, const IpbJson *value);
/* The same for a number's text. */
bool ipb_text_append_number(GString *out, const char *number);
