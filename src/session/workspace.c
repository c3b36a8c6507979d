/* SPDX-License-Identifier: Apache-2.0
 *
 * The registrations of a workspace; see the header.
 */
#include "session/workspace.h"

#include <string.h>

#include "session/session-private.h"

static bool
is_below(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    while (size > 1 && directory[size - 1] == '/')
        size--;
    return strncmp(path, directory, size) == 0 &&
           (path[size] == '/' || path[size] == '\0' || size == 1);
}

bool
ipb_workspace_allow_below(IpbSession *session, const char *directory, GError **error)
{
    g_autoptr(GPtrArray) all = ipb_registry_list(ipb_runtime_registry(session->runtime), error);
    if (all == NULL)
        return false;
    for (guint i = 0; i < all->len; i++) {
        const IpbRegistration *registration = g_ptr_array_index(all, i);
        for (char **root = registration->roots; *root != NULL; root++) {
            if (is_below(*root, directory)) {
                ipb_session_allow(session, registration);
                break;
            }
        }
    }
    return true;
}

bool
ipb_workspace_allow_registered(IpbSession *session, GError **error)
{
    return ipb_workspace_allow_below(session, session->workspace, error);
}
