/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock of all supervisors of one user, in this process and others. Between the moment when a path
 * is found and judged, and the call on it, no other sandbox may move the directory, or complete
 * what the rules for names look for (a repository of git).
 *
 * Calls that make names hold it shared. Calls that move directories, and those that are judged by
 * what else is in a directory, hold it alone.
 *
 * Another program of the user could take the same lock, so waiting for it is limited. A supervisor
 * that does not get it refuses the call.
 */
#pragma once

#include <stdbool.h>

typedef enum { IPB_NAMES_UNLOCKED, IPB_NAMES_SHARED, IPB_NAMES_ALONE } IpbNamesLock;

/* Each supervisor opens it once, with the rights of the user, and closes it at its end. */
void ipb_names_lock_open(void);
void ipb_names_lock_close(void);
/* Waits for a second at most. Returns false if it did not get the lock. Each thread may hold it
 * once. */
bool ipb_names_lock(IpbNamesLock kind);
void ipb_names_unlock(IpbNamesLock kind);
