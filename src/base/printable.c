/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for people; see the header.
 */
#include "base/printable.h"

#include <stdbool.h>

/* Marks that make text read in another order than it is written: a name could be made to look like another. */
static bool
is_direction_mark(gunichar c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e ||
           c == 0x200f || c == 0x061c;
}

char *
ipb_printable(const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    GString *out = g_string_new(NULL);
    for (const char *p = valid; *p != '\0'; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        if (c == '\n' || c == '\t')
            g_string_append_unichar(out, c);
        else if (c < 0x20)
            g_string_append_unichar(out, 0x2400 + c); /* the control pictures: ESC is shown as ␛ */
        else if (c == 0x7f)
            g_string_append_unichar(out, 0x2421);
        else if ((c >= 0x80 && c < 0xa0) || is_direction_mark(c))
            g_string_append_printf(out, "\\u%04x", c);
        else
            g_string_append_unichar(out, c);
    }
    return g_string_free(out, FALSE);
}
