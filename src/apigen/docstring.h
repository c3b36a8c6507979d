/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions from a server as docstrings. No text can end the docstring early.
 */
#pragma once

#include "apigen/model.h"

/* Appends a docstring at @indent columns, wrapped at column 100: the paragraphs of @text, then
 * @notes, one on each line. All kinds of line ends become newlines, common indentation is removed,
 * and text that is too long is cut with a note. Returns false, and appends nothing, if there is no
 * text. */
bool ipb_docstring_append(GString *out, unsigned indent, IpbSpan text, const char *notes);
