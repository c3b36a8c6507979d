/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment in which the forkserver runs.
 */
#pragma once

#include <glib.h>

/* What of this process' environment is on the allowlist, as "NAME=value"; NULL-terminated, g_strfreev. */
char **ipb_forkserver_env(void);
