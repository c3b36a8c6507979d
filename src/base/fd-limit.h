/* SPDX-License-Identifier: Apache-2.0
 *
 * How many files this process may open. The program raises its soft limit to the hard one, and
 * gives its children the old one back: some programs use select(), which cannot handle numbers from
 * 1024 on, or do something for each possible number. An application with libipybox keeps its limit.
 *
 * Besides sessions, the limit decides about sending descriptors. Linux refuses that if more
 * descriptors of this user are in flight, in the sockets of all programs, than the sender may open.
 * A sandbox may open half of our hard limit at most, so it cannot keep us from sending.
 */
#pragma once

/* For main(), before there are threads. */
void ipb_fd_limit_raise(void);
/* For a child, before it executes a program. Async-signal-safe. @unused: so that it fits
 * GSpawnChildSetupFunc. */
void ipb_fd_limit_restore(void *unused);
