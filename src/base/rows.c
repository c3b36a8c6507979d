/* SPDX-License-Identifier: Apache-2.0
 *
 * Breaking lines; see the header.
 */
#include "base/rows.h"

#include <stdbool.h>
#include <string.h>

static bool
is_mark(gunichar c)
{
    return g_unichar_ismark(c);
}

static unsigned
width_of(gunichar c)
{
    bool is_symbol =
        c >= 0x80 && g_unichar_type(c) == G_UNICODE_OTHER_SYMBOL; /* emoji, in some fonts */
    return is_symbol || g_unichar_iswide(c) || g_unichar_iswide_cjk(c) ? 2 : 1;
}

/* The end of the character at @p with its combining marks, and their width. A mark counts as wide
 * as on terminals that show it beside the character. */
static const char *
find_end(const char *p, unsigned *ret_width)
{
    *ret_width = width_of(g_utf8_get_char(p));
    for (p = g_utf8_next_char(p); *p != '\0' && is_mark(g_utf8_get_char(p));
         p = g_utf8_next_char(p))
        *ret_width += width_of(g_utf8_get_char(p));
    return p;
}

static void
add_line(GPtrArray *rows, const char *line, unsigned width)
{
    GString *row = g_string_new(NULL);
    unsigned used = 0, added;
    for (const char *p = line, *end; *p != '\0'; p = end) {
        end = find_end(p, &added);
        if (used + added > width) {
            g_ptr_array_add(rows, g_string_free(row, FALSE));
            row = g_string_new(IPB_ROWS_CONTINUED);
            used = strlen(IPB_ROWS_CONTINUED);
        }
        g_string_append_len(row, p, end - p);
        used += added;
    }
    g_ptr_array_add(rows, g_string_free(row, FALSE));
}

GPtrArray *
ipb_rows_new(const char *text, unsigned width)
{
    GPtrArray *rows = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line != NULL; line++)
        add_line(rows, *line, MAX(width, IPB_ROWS_MIN_WIDTH));
    return rows;
}
