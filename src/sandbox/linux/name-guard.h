/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbNameGuard: may the caller do this to this path? It asks the plan for the access and the rules
 * for names, and reports what it refuses. The mounts are the first wall: what they forbid fails
 * anyway. The guard also holds where a mount is gone, because the host replaced the file under it,
 * and for names that did not exist when the mounts were made.
 */
#pragma once

#include "sandbox/linux/caller-path.h"
#include "sandbox/linux/names-lock.h"
#include "sandbox/sandbox.h"

/* Longer paths are cut in reports. */
#define IPB_DENIAL_MAX_PATH 1024

/* A refused call, on its way from the supervisor's thread to its owner. It fits into what a pipe
 * passes on as one piece. */
typedef struct {
    IpbSandboxDenial denial; /* without its path */
    char path[IPB_DENIAL_MAX_PATH];
} IpbDenialRecord;

typedef struct {
    const IpbSandboxPlan *plan;
    /* Called in the supervisor's thread. */
    void (*on_denied)(const IpbDenialRecord *record, void *data);
    void *data;
    IpbNamesLock lock;      /* that is held for the call that is judged now */
    bool wants_to_be_alone; /* the call has to be started again, with the lock held alone */
} IpbNameGuard;

/* What the caller wants to do. */
typedef struct {
    IpbNameAction action;
    IpbNameKind kind;
    const IpbCallerPath *path;
    const IpbCallerPath *source; /* of a PUT by rename; else NULL */
    bool is_moved;               /* of REMOVE: all that is in it goes along */
    bool is_rmdir, is_mode;      /* as in IpbNameQuestion */
    bool is_quiet;               /* nothing is reported, and EAGAIN is EACCES */
} IpbNameAttempt;

/* Returns 0, EAGAIN (@guard->wants_to_be_alone), EACCES (a rule for names, or nothing may be read
 * there), EROFS, or EBUSY (something below is protected). *ret_parsed (NULL: then it is refused):
 * the contents have to pass this rule; NULL if they need not. */
int ipb_name_guard_judge(IpbNameGuard *guard, IpbCaller *caller, const IpbNameAttempt *attempt,
                         const IpbNameRule **ret_parsed);
/* The contents did not pass @rule. Takes @reason, which may be NULL. Returns EACCES. */
int ipb_name_guard_refuse_contents(const IpbNameGuard *guard, const IpbCaller *caller,
                                   const IpbNameAttempt *attempt, const IpbNameRule *rule,
                                   char *reason);
/* Would the rules for names refuse the attempt? Reports nothing. */
bool ipb_name_guard_would_refuse(const IpbNameGuard *guard, IpbCaller *caller,
                                 const IpbNameAttempt *attempt);
/* Is the path in a place of the sandbox's own, such as /tmp? */
bool ipb_name_guard_is_own(const IpbNameGuard *guard, const IpbCallerPath *path);
