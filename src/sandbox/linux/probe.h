/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine offers to sandboxes, found out by asking the system's kernel. Changes nothing.
 */
#pragma once

#include <stdbool.h>

#include "sandbox/sandbox.h"

/* Fills all members of @probe. */
void ipb_linux_probe(IpbSandboxProbe *probe);
/* Describes what is known to forbid user namespaces on this machine, and how to allow them, in
 * sentences. Returns NULL if nothing is known. Caller frees. */
char *ipb_linux_namespace_obstacle(void);
/* Can names be judged here? From Linux 5.19 on: a signal does not repeat a call that the supervisor
 * performs. */
bool ipb_linux_judges_names(void);
/* Is Landlock there, in the form that sandboxes use? */
bool ipb_linux_has_landlock(void);
