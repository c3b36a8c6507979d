/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognizes denials of a sandbox, which are ordinary errors of system calls; see the header.
 */
#include "tools/denial-note.h"

#include <stdbool.h>
#include <string.h>

#include <glib.h>

#include "json/json.h"

static const char NOTE[] = "operation not permitted: this MCP server runs in a sandbox, where "
                           "\"filesystem\" of its configuration says what can be read and "
                           "written";

/* How programs report EACCES and EROFS, in lower case. */
static const char *const SIGNS[] = {
    "permission denied", "permissionerror", "eacces", "erofs", "read-only file system",
};

static bool
is_sandboxed(const IpbJson *params)
{
    const IpbJson *sandbox = ipb_json_get(params, "sandbox");
    const char *command = ipb_json_get_string(params, "command");
    if (ipb_json_is(sandbox, IPB_JSON_OBJECT) || ipb_json_get_bool(params, "sandbox", false))
        return true;
    if (command == NULL)
        return false;
    g_autofree char *name = g_path_get_basename(command);
    const IpbJson *args = ipb_json_get(params, "args");
    const char *first = ipb_json_string(ipb_json_first(args), NULL);
    return strcmp(name, "srt") == 0 ||
           (strcmp(name, "ipybox") == 0 && g_strcmp0(first, "sandbox") == 0);
}

static bool
has_sign(const char *text)
{
    g_autofree char *lower = g_ascii_strdown(text, -1);
    for (size_t i = 0; i < G_N_ELEMENTS(SIGNS); i++)
        if (strstr(lower, SIGNS[i]) != NULL)
            return true;
    return false;
}

const char *
ipb_denial_note(const char *params_json, const char *text)
{
    if (!has_sign(text))
        return NULL;
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(params_json, strlen(params_json), &IPB_JSON_LIMITS_SMALL, NULL);
    return document != NULL && is_sandboxed(ipb_json_root(document)) ? NOTE : NULL;
}
