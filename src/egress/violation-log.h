/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbViolationLog: a file that gets one line of JSON for each denial that was told ("time", "what", "target", "reason"). Lines of several
 * sandboxes and processes may go to one file: each is one write to the end of it.
 *
 * Ownership: its owner frees it.
 */
#pragma once

#include <stdbool.h>

#include "egress/egress.h"

typedef struct IpbViolationLog IpbViolationLog;

/* Opens or makes (0600) the file. INVALID: it is no regular file; SYSTEM (a symbolic link, too). */
IpbViolationLog *ipb_violation_log_open(const char *path, GError **error);
/* SYSTEM: the line is not wholly in the file. */
bool ipb_violation_log_write(IpbViolationLog *log, const IpbViolation *violation, GError **error);
void ipb_violation_log_free(IpbViolationLog *log);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbViolationLog, ipb_violation_log_free)
