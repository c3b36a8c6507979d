/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as they came from a server: WTF-8, which is UTF-8 that may hold lone surrogates. A text may
 * also hold NUL, so it is a span with a size. An empty text has a NULL start or a size of 0.
 */
#pragma once

#include "json/json.h"

#define IPB_WTF8_REPLACEMENT 0xfffd

/* The text of a JSON string; empty for any other value. It borrows from the document. */
IpbSpan ipb_wtf8_from_json(const IpbJson *value);
/* The name of a member of a JSON object. */
IpbSpan ipb_wtf8_from_name(const IpbJson *member);
/* @text: NULL is an empty text. */
IpbSpan ipb_wtf8_from(const char *text);
bool ipb_wtf8_equal(IpbSpan a, IpbSpan b);

/* The code point at *at, which is then moved behind it. A lone surrogate is returned as itself, and
 * any other invalid byte as U+FFFD. */
gunichar ipb_wtf8_next(IpbSpan text, size_t *at);
bool ipb_wtf8_has_surrogate(IpbSpan text);
/* Whether a reader can see that the character is there. False for controls, bidirectional
 * overrides, tags and other characters that hide text, and lone surrogates. */
bool ipb_wtf8_is_visible(gunichar c);
