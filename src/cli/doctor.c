/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of checks; see the header.
 */
#include "cli/doctor.h"

static void
free_check(IpbCheck *check)
{
    g_free(check->detail);
    g_free(check->hint);
    g_free(check);
}

GPtrArray *
ipb_doctor_checks_new(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify) free_check);
}

void
ipb_doctor_add(GPtrArray *checks, const char *name, IpbCheckState state, char *detail,
               const char *hint)
{
    IpbCheck *check = g_new(IpbCheck, 1);
    *check = (IpbCheck){name, state, detail, g_strdup(hint)};
    g_ptr_array_add(checks, check);
}
