/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the plan share. A plan comes about in three steps: rules (plan-rules.c, plan-mandatory.c: which real path may be
 * read and written, and why), mounts (plan-mounts.c: the rules as a tree, walked from "/" down), and what has nothing to
 * do with files (plan-network.c, plan-limits.c).
 */
#pragma once

#include "sandbox/glob.h"
#include "sandbox/paths.h"
#include "sandbox/plan.h"

#define IPB_PLAN_MAX_MOUNTS 4000
#define IPB_PLAN_TOOL_PORT 8900
#define IPB_PLAN_SOCKS_PORT 1080

/* What is said about one path, by one or several keys. */
typedef struct {
    char *path; /* real */
    bool is_directory;
    bool keep;             /* readable whatever is said, never writable */
    bool allow_read;       /* wins over deny_read at the same path */
    bool deny_read;        /* wins over expose at the same path */
    bool is_total;         /* of deny_read: nothing below is readable again */
    bool expose;           /* readable if a directory above is hidden or private */
    bool allow_write;      /* implies expose */
    bool deny_write;       /* wins over allow_write here, above and below */
    unsigned long n_names; /* hard links of a file that is denied for writing */
    bool is_private;       /* an empty writable file system, unless the path is writable anyway */
    IpbPlanMount *fixed;   /* mounted here in any case; what is below is ours, not the host's */
    char *read_reason, *write_reason;
} IpbPlanRule;

typedef struct {
    const IpbPlanOptions *options;
    IpbSandboxPlan *plan;
    GHashTable *rules;  /* path → IpbPlanRule */
    GHashTable *absent; /* paths that are denied for writing and not there */
    GHashTable
        *aliases; /* path as written → real: kept paths that are reached through symbolic links */
    GHashTable *links; /* symbolic links on the way to what is denied for writing */
    IpbGlobBudget budget;
} IpbPlanner;

/* The rule of @path, made if there is none. */
IpbPlanRule *ipb_plan_rule_get(IpbPlanner *planner, const char *path, bool is_directory);
void ipb_plan_set_reason(char **reason, const char *text);
void ipb_plan_warn(IpbPlanner *planner, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Denies writing at @path, where it is and where it stands if it is a symbolic link; what is not there is to stay so. */
void ipb_plan_deny_write(IpbPlanner *planner, const char *path, const char *reason);

/* The paths of the policy and of the options, into rules. */
bool ipb_plan_add_rules(IpbPlanner *planner, GError **error);
/* What is never writable, in each writable directory that the rules have by now. */
void ipb_plan_add_mandatory(IpbPlanner *planner);
/* /dev, /proc, /tmp, /etc/hosts, …, into rules. */
void ipb_plan_add_system(IpbPlanner *planner);
/* The rules into plan->mounts and plan->absent. LIMIT. */
bool ipb_plan_make_mounts(IpbPlanner *planner, GError **error);
/* plan->listeners, environment, unset. */
void ipb_plan_make_network(IpbPlanner *planner);
bool ipb_plan_has_network(const IpbPlanner *planner);

IpbPlanMount *ipb_plan_mount_new(IpbMountKind kind, const char *source, const char *target,
                                 const char *reason);
void ipb_plan_mount_free(IpbPlanMount *mount);

/* For --explain: the limits in a fixed order; false at the end. */
typedef struct {
    const char *name; /* the key in the policy's "limits" */
    bool is_size;
    uint64_t value;
    const char *reason;
} IpbPlanLimit;
bool ipb_plan_limit_at(const IpbSandboxLimits *limits, size_t index, IpbPlanLimit *ret_limit);
