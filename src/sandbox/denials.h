/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbDenials: gathers the calls that a sandbox refused because of a name or a path, and reports
 * them in groups: one report for a rule, with a few paths and the number of the others. Code inside
 * can cause denials as fast as it can make calls, and normal programs cause hundreds, too: a clone
 * brings along many files that are refused.
 *
 * Groups are reported a second after the first denial, or at ipb_denials_flush(). While denials
 * continue, the time between two reports grows. Each path is reported once between two flushes.
 *
 * Ownership: the owner frees it, which drops what was not reported yet. Reports come from the loop,
 * and may free it, or from ipb_denials_flush(), and may not.
 */
#pragma once

#include "base/loop.h"
#include "sandbox/sandbox.h"

typedef struct IpbDenials IpbDenials;

/* A group. All texts are printable, have one line, and are valid during the callback only. */
typedef struct {
    const char *what; /* "file-read", "file-write", "file-create", "file-remove", "unix-connect" */
    const char *process; /* "git (process 17)"; NULL: not known */
    const char *targets; /* ".git/hooks/a, .git/hooks/b and 12 more" */
    const char *reason;  /* who obeys the file, the rule, and the key that can allow it */
    /* "git (process 17) may not create .git/hooks/a: git runs it (rule …); … can allow it" */
    const char *text;
} IpbDenialReport;

/* Paths below @workspace are shown relative to it. */
IpbDenials *ipb_denials_new(IpbLoop *loop, const char *workspace,
                            void (*on_report)(const IpbDenialReport *report, void *data),
                            void *data);
/* Never reports, so it never frees the object. */
void ipb_denials_add(IpbDenials *denials, const IpbSandboxDenial *denial);
/* Was a denial added since the last flush whose path has the same last component as @path? */
bool ipb_denials_has_name(const IpbDenials *denials, const char *path);
/* Reports all that was gathered. After that, paths that were reported can be reported again. */
void ipb_denials_flush(IpbDenials *denials);
void ipb_denials_free(IpbDenials *denials);

/* The text of one denial, as in IpbDenialReport. Caller frees. */
char *ipb_denial_to_text(const IpbSandboxDenial *denial, const char *workspace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbDenials, ipb_denials_free)
