/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of the library, and versions of structs of options.
 */
#include "lib/version.h"

#include <ipybox/version.h>

#include "base/error.h"

const char *
ipybox_get_version(void)
{
    return IPYBOX_VERSION;
}

bool
ipb_lib_check_version(unsigned version, unsigned newest, const char *name, GError **error)
{
    if (version >= 1 && version <= newest)
        return true;
    if (version == 0)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%s has no version: initialise it with its _INIT macro", name);
    else
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%s is of version %u, and this library (%s) knows none above %u: the program "
                    "needs a newer one",
                    name, version, ipybox_get_version(), newest);
    return false;
}
