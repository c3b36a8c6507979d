/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbQuarantine: files that code in a sandbox created although they must not exist. Files that
 * exist when a sandbox starts are protected. For files that do not exist, that would need
 * placeholders in the host's tree. So they are looked for afterwards and moved away, before another
 * program can obey them. This has a limit: the files are there while the sandbox runs.
 *
 * Nothing that the sandbox created is followed or opened. The walk starts at "/" and follows no
 * symbolic link; if a link is in the way, the link itself is moved.
 *
 * Ownership: the owner frees it. Calls block, for as long as a few renames take.
 */
#pragma once

#include "sandbox/plan.h"

typedef struct IpbQuarantine IpbQuarantine;

typedef struct {
    char *path;
    char *moved_to;   /* NULL: it could not be moved */
    char *failure;    /* why not; or NULL */
    bool is_restored; /* the original symbolic link was restored */
} IpbQuarantined;

/* Call it before the sandbox starts: it records what is compared later. @directory: where files are
 * moved to, created when needed. A file that cannot be moved there is renamed where it is. */
IpbQuarantine *ipb_quarantine_new(const IpbSandboxPlan *plan, const char *directory);
/* @path, one of the plan's, may be created as a directory, because other programs create it, too;
 * but not as a link to one. */
void ipb_quarantine_allow_directory(IpbQuarantine *quarantine, const char *path);
/* Moves away what was created. Returns a list of IpbQuarantined; the caller unrefs it. */
GPtrArray *ipb_quarantine_sweep(IpbQuarantine *quarantine);
/* Describes one in a line for people, the path first. Caller frees. */
char *ipb_quarantined_describe(const IpbQuarantined *item);
void ipb_quarantine_free(IpbQuarantine *quarantine);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbQuarantine, ipb_quarantine_free)
