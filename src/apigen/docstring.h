/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions from a server as docstrings that nothing breaks out of.
 */
#pragma once

#include "apigen/model.h"

/* Writes a docstring at @indent columns, wrapped to 100: the paragraphs of @text, then @notes, one a line. Line ends of all
 * kinds are one, common indentation goes, what is too long is cut with a note. Returns false, and writes
 * nothing, if there is no text. */
bool ipb_docstring_append(GString *out, unsigned indent, IpbSpan text, const char *notes);
