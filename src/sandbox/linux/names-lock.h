/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock of all supervisors of one user, in this process and others. A few rules for names depend
 * on what else is in a directory: nothing may change between the judgement and the call.
 *
 * Another program of the user could take the same lock, so waiting for it is limited. A supervisor that does not get it refuses the call.
 */
#pragma once

#include <stdbool.h>

/* Call it before the first lock, with the rights of the user. */
void ipb_names_lock_prepare(void);
/* Waits for a second at most. Returns false with errno. Each thread may hold it once. */
bool ipb_names_lock(void);
void ipb_names_unlock(void);
