/* SPDX-License-Identifier: Apache-2.0
 *
 * What every sandbox has of its own: /dev, /proc, /tmp, /run, /dev/shm, and the files in /etc that
 * say how names are resolved.
 */
#pragma once

#include "sandbox/plan.h"

void ipb_own_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options, bool has_network);
