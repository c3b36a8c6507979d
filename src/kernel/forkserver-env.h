/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment in which the forkserver runs.
 */
#pragma once

#include <glib.h>

/* The variables of this process's environment that are on the allowlist, as "NAME=value".
 * NULL-terminated; free with g_strfreev. */
char **ipb_forkserver_env(void);
