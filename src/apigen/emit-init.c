/* SPDX-License-Identifier: Apache-2.0
 *
 * The package's __init__.py: the client, and the base class of all models. Its source is
 * package-init.py, where the name of the server and the id of the registration are inserted.
 *
 * Modules are named after tools, in small letters ("type"), and become attributes of the package,
 * which would hide a builtin or a function of that name. So all names that the functions there use,
 * also those of builtins, have a capital letter.
 */
#include <string.h>

#include "apigen/emit.h"
#include "apigen/literal.h"
#include "apigen/package-init.h"
#include "apigen/wtf8.h"

static const char TEMPLATE[] = IPB_PACKAGE_INIT;

/* Appends what is before @mark, and moves @rest behind it. */
static void
append_until(GString *out, const char **rest, const char *mark)
{
    const char *end = strstr(*rest, mark);
    g_assert(end != NULL);
    g_string_append_len(out, *rest, end - *rest);
    *rest = end + strlen(mark);
}

char *
ipb_emit_init(const char *server_name, const char *registration_id)
{
    g_autoptr(GString) out = g_string_new(NULL);
    const char *rest = TEMPLATE;
    append_until(out, &rest, "@SERVER_NAME@");
    g_string_append(out, server_name);
    append_until(out, &rest, "\"@SERVER_NAME@\"");
    ipb_literal_append_string(out, ipb_wtf8_from(server_name));
    append_until(out, &rest, "\"@REGISTRATION_ID@\"");
    ipb_literal_append_string(out, ipb_wtf8_from(registration_id));
    g_string_append(out, rest);
    return g_string_free(g_steal_pointer(&out), FALSE);
}
