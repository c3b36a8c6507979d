/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of text as rows of a screen. A row that continues the one above begins with a mark, which no line begins with, so that text cannot
 * look like a line of its own by being broken at the right place.
 */
#pragma once

#include <glib.h>

/* What a row begins with that continues the line above it. */
#define IPB_ROWS_CONTINUED "  : "
/* A narrower screen breaks the rows again. */
#define IPB_ROWS_MIN_WIDTH 12

/* The rows of @text, UTF-8 without control characters but newline, none wider than @width columns. Characters that are wide on some
 * terminals count as wide, so a row may be shorter than it could be. Free with g_ptr_array_unref(). */
GPtrArray *ipb_rows_new(const char *text, unsigned width);
