/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock between processes, on a file of its own.
 */
#pragma once

#include <glib.h>

#include "base/fd.h"
#include "base/loop.h"

/* Opens (or makes, 0600) the file at @path and locks it for writing (flock). Returns the fd, whose
 * close unlocks; -1 with BUSY if another process holds the lock for all of @timeout_ms. */
int ipb_file_lock(const char *path, unsigned timeout_ms, GError **error);

/* The same on the loop. @func is called once, from the loop, never before the call has returned; @fd is its own then, -1 with @error. */
typedef struct IpbFileLockWait IpbFileLockWait;
typedef void (*IpbFileLockFunc)(int fd, const GError *error, void *data);
IpbFileLockWait *ipb_file_lock_wait(IpbLoop *loop, const char *path, unsigned timeout_ms,
                                    IpbFileLockFunc func, void *data);
/* No call comes any more. NULL is fine. */
void ipb_file_lock_wait_cancel(IpbFileLockWait *wait);
