/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of files as text; see the header.
 */
#include "notebook/file-changes.h"

#include <string.h>

#include <glib.h>

#include "base/display-text.h"

static void
append(GString *text, const char *part)
{
    g_autofree char *valid = g_utf8_make_valid(part, -1);
    g_autofree char *shown = ipb_display_text_printable(valid);
    g_string_append(text, g_strdelimit(shown, "\n\t", '?'));
}

static char
sign_of(const char *kind)
{
    return g_strcmp0(kind, "added") == 0 ? '+' : g_strcmp0(kind, "removed") == 0 ? '-' : '~';
}

static void
append_change(GString *text, const IpbJson *change)
{
    const char *path = ipb_json_get_string(change, "path");
    const char *problem = ipb_json_get_string(change, "problem");
    bool is_directory = g_strcmp0(ipb_json_get_string(change, "type"), "directory") == 0;
    g_string_append_printf(text, "%c ", sign_of(ipb_json_get_string(change, "kind")));
    append(text, path != NULL ? path : "?");
    g_string_append(text, is_directory ? "/" : "");
    if (problem != NULL) {
        g_string_append(text, ": ");
        append(text, problem);
    }
    g_string_append_c(text, '\n');
}

char *
ipb_file_changes_text(const IpbJson *array, const char *cut)
{
    g_autoptr(GString) text = g_string_new(NULL);
    if (array != NULL && ipb_json_is(array, IPB_JSON_ARRAY))
        IPB_JSON_FOREACH (change, array)
            append_change(text, change);
    if (cut != NULL) {
        g_string_append(text, "… not all: ");
        append(text, cut);
        g_string_append_c(text, '\n');
    }
    return text->len > 0 ? g_strdup(text->str) : NULL;
}
