/* SPDX-License-Identifier: Apache-2.0
 *
 * The error domain; see the header.
 */
#include "base/error.h"

#include <stdarg.h>

GQuark
ipybox_error_quark(void)
{
    return g_quark_from_static_string("ipybox-error");
}

bool
ipb_error_set_errno(GError **error, int saved_errno, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "%s: %s", text, g_strerror(saved_errno));
    return false;
}
