/* SPDX-License-Identifier: Apache-2.0
 *
 * Denials, and who learns of them:
 *
 * - IpbViolation is one denial.
 * - IpbViolations reports denials to the sandbox's owner. It reports from the loop, never from
 *   within the call that found the denial. A denial that repeats is reported once a second. If
 *   there are too many different ones, the rest is counted.
 * - IpbViolationLog is a file with one line of JSON for each reported denial ("time", "what",
 *   "target", "reason", and "process" if it is known). Several sandboxes and processes may share a
 *   file, because each line is appended by one write.
 *
 * Ownership: the owner frees IpbViolations, which drops what was not reported yet, and the log.
 */
#pragma once

#include <stdbool.h>

#include "base/loop.h"

/* Not a denial: a proxy of the machine's network failed. */
#define IPB_VIOLATION_PROXY "network-proxy"

typedef struct {
    /* "network-outbound", "dns", or IPB_VIOLATION_PROXY; or as in sandbox/denials.h */
    const char *what;
    /* canonical "host:port", a name, a path, or several paths; printable */
    const char *target;
    /* the rule that denies it, or that no rule allows it, and how to allow it */
    const char *reason;
    /* who did it: "git (process 17)"; printable; NULL: not known */
    const char *process;
    /* all of that in a sentence; NULL: none */
    const char *text;
} IpbViolation;

/* "operation not permitted: network-outbound evil.example:443: …": one printable line, which the
 * caller frees. */
char *ipb_violation_to_text(const IpbViolation *violation);

typedef struct IpbViolations IpbViolations;

IpbViolations *ipb_violations_new(IpbLoop *loop,
                                  void (*on_violation)(const IpbViolation *violation, void *data),
                                  void *data);
void ipb_violations_free(IpbViolations *violations);
/* Reports all that is queued. on_violation must not free the object during this call. */
void ipb_violations_flush(IpbViolations *violations);
/* @what: static. Characters that are not printable are replaced in the other texts. */
void ipb_violations_report(IpbViolations *violations, const char *what, const char *target,
                           const char *reason);

typedef struct IpbViolationLog IpbViolationLog;

/* Opens the file, or creates it with mode 0600. Errors: INVALID if it is not a regular file;
 * SYSTEM, also for a symbolic link. */
IpbViolationLog *ipb_violation_log_open(const char *path, GError **error);
/* SYSTEM: the line was not written, or not completely. */
bool ipb_violation_log_write(IpbViolationLog *log, const IpbViolation *violation, GError **error);
void ipb_violation_log_free(IpbViolationLog *log);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbViolations, ipb_violations_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbViolationLog, ipb_violation_log_free)
