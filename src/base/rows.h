/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of text as rows of a screen. A row that continues the row above begins with a mark. No line
 * begins with this mark, so a line that is broken at some place cannot look like two lines.
 */
#pragma once

#include <glib.h>

/* The mark at the beginning of a row that continues the row above. */
#define IPB_ROWS_CONTINUED "  : "
/* A narrower screen breaks the rows again. */
#define IPB_ROWS_MIN_WIDTH 12

/* The rows of @text, none wider than @width columns. @text: UTF-8 without control characters except
 * newline. Characters that are wide on some terminals count as wide, so a row may be shorter than
 * possible. Free with g_ptr_array_unref(). */
GPtrArray *ipb_rows_new(const char *text, unsigned width);
