/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock between processes, on a file of its own.
 */
#pragma once

#include <glib.h>

#include "base/fd.h"
#include "base/loop.h"

/* Opens the file at @path, or makes it with mode 0600, and locks it for writing (flock). Returns
 * the fd; closing it unlocks. Returns -1 with BUSY if another process holds the lock for all of
 * @timeout_ms. */
int ipb_file_lock(const char *path, unsigned timeout_ms, GError **error);

/* The same on the loop. @func is called once, from the loop, never before this call has returned.
 * It owns @fd, which is -1 if there is an @error. */
typedef struct IpbFileLockWait IpbFileLockWait;
typedef void (*IpbFileLockFunc)(int fd, const GError *error, void *data);
IpbFileLockWait *ipb_file_lock_wait(IpbLoop *loop, const char *path, unsigned timeout_ms,
                                    IpbFileLockFunc func, void *data);
/* Cancels the call of @func. NULL is allowed. */
void ipb_file_lock_wait_cancel(IpbFileLockWait *wait);
