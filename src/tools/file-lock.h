/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock between processes, on a file of its own.
 */
#pragma once

#include <glib.h>

#include "base/fd.h"

/* Opens (or makes, 0600) the file at @path and locks it for writing (flock). Returns the fd, whose
 * close unlocks; -1 with BUSY if another process holds the lock for all of @timeout_ms. */
int ipb_file_lock(const char *path, unsigned timeout_ms, GError **error);
