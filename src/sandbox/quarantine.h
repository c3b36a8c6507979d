/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbQuarantine: what a sandbox made although it must not exist. What is there when a sandbox starts is protected by a mount; what is
 * not there cannot be, without placeholders in the host's tree. So it is looked for afterwards and moved away, before anything else
 * can obey it. While the sandbox runs it is there: that is the limit of this.
 *
 * Nothing that the sandbox made is followed or opened: from "/" on each step is taken without symbolic links, and a link in
 * the way is itself what is moved.
 *
 * Ownership: the owner frees it. It blocks, for as long as a few renames take.
 */
#pragma once

#include "sandbox/plan.h"

typedef struct IpbQuarantine IpbQuarantine;

typedef struct {
    char *path;
    char *moved_to;   /* NULL: it could not be moved */
    char *failure;    /* why not, or NULL */
    bool is_restored; /* a symbolic link that was there before is there again */
} IpbQuarantined;

/* Before the sandbox starts: notes what is to be compared later. @directory: where things are moved to, created when needed. What cannot
 * be moved there is renamed in its place. */
IpbQuarantine *ipb_quarantine_new(const IpbSandboxPlan *plan, const char *directory);
/* @path, one of the plan's, may come into being as a directory, since others make it, too; but not as a link to one. */
void ipb_quarantine_allow_directory(IpbQuarantine *quarantine, const char *path);
/* Moves away what there is: the list of that, IpbQuarantined. Caller unrefs. */
GPtrArray *ipb_quarantine_sweep(IpbQuarantine *quarantine);
/* One as a line for people, the path first. Caller frees. */
char *ipb_quarantined_describe(const IpbQuarantined *item);
void ipb_quarantine_free(IpbQuarantine *quarantine);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbQuarantine, ipb_quarantine_free)
