/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a MIME bundle; see the header.
 */
#include "kernel/bundle-text.h"

#include <stdbool.h>
#include <string.h>

#include "base/html-text.h"

/* "<module.Class object>", "<module.Class at 0x7f…>", "<module.Class object at 0x7f…>": the repr of
 * an object whose class defines none. */
static bool
names_class_only(const char *plain)
{
    if (*plain != '<')
        return false;
    const char *rest = plain + 1 + strcspn(plain + 1, " \t\n");
    bool is_object = g_str_has_prefix(rest, " object");
    if (is_object)
        rest += strlen(" object");
    if (g_str_has_prefix(rest, " at 0x")) {
        rest += strlen(" at 0x");
        rest += strspn(rest, "0123456789abcdefABCDEF");
        is_object = true;
    }
    return is_object && g_str_equal(rest, ">");
}

static char *
copy_source(const IpbJson *data, const char *type)
{
    const char *source = ipb_json_get_string(data, type);
    return source != NULL && *source != '\0' ? g_strdup(source) : NULL;
}

static char *
copy_html_text(const IpbJson *data)
{
    const char *html = ipb_json_get_string(data, "text/html");
    g_autofree char *text = html != NULL ? ipb_html_text(html) : NULL;
    return text != NULL && *text != '\0' ? g_steal_pointer(&text) : NULL;
}

char *
ipb_bundle_text(const IpbJson *data)
{
    const char *plain = ipb_json_get_string(data, "text/plain");
    if (plain != NULL && !names_class_only(plain))
        return g_strdup(plain);
    char *text = copy_source(data, "text/markdown");
    if (text == NULL)
        text = copy_source(data, "text/latex");
    if (text == NULL)
        text = copy_html_text(data);
    return text != NULL ? text : g_strdup(plain);
}
