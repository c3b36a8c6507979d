/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock of all supervisors of one user, in this process and others. A few rules for names depend
 * on what else is in a directory: nothing may change between the judgement and the call.
 *
 * Code inside can take the same lock (it may be able to open the home directory), so waiting for it
 * is limited. A supervisor that does not get it refuses the call.
 */
#pragma once

#include <stdbool.h>

/* Waits for a second at most. Returns false with errno. Each thread may hold it once. */
bool ipb_names_lock(void);
void ipb_names_unlock(void);
