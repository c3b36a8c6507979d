/* SPDX-License-Identifier: Apache-2.0
 *
 * Indents JSON; see the header.
 */
#include "notebook/indent.h"

#include <stdbool.h>
#include <string.h>

#include <glib.h>

static void
add_line(GString *out, unsigned spaces)
{
    g_string_append_c(out, '\n');
    g_string_set_size(out, out->len + spaces);
    memset(out->str + out->len - spaces, ' ', spaces);
}

/* After the string that begins at @at. */
static const char *
find_string_end(const char *at)
{
    for (at++; *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

char *
ipb_indent_json(const char *json, unsigned unit, unsigned depth, size_t *ret_size)
{
    GString *out = g_string_sized_new(strlen(json) + strlen(json) / 4);
    for (const char *at = json; *at != '\0';) {
        const char *end = *at == '"' ? find_string_end(at) : at + 1;
        bool is_empty = (*at == '{' && at[1] == '}') || (*at == '[' && at[1] == ']');
        if (is_empty)
            end = at + 2;
        else if (*at == '}' || *at == ']')
            add_line(out, --depth * unit);
        g_string_append_len(out, at, end - at);
        if (*at == ':')
            g_string_append_c(out, ' ');
        else if (!is_empty && (*at == '{' || *at == '['))
            add_line(out, ++depth * unit);
        else if (*at == ',')
            add_line(out, depth * unit);
        at = end;
    }
    *ret_size = out->len;
    return g_string_free(out, FALSE);
}
