/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine offers to sandboxes, found out by asking the system's kernel; nothing is changed by it. Whether a sandbox
 * can really be made is only known by making one (launch.h).
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Of Landlock; 0: there is none, or it is turned off. */
int ipb_probe_landlock_abi(void);
/* Can a seccomp filter be loaded, and can it ask us (user notification, which socket rules need)? */
bool ipb_probe_has_seccomp(void);
bool ipb_probe_has_notifications(void);
/* What on this machine is known to forbid user namespaces, and how to allow them, as sentences; NULL: nothing is
 * known. Caller frees. */
char *ipb_probe_namespace_obstacle(void);
