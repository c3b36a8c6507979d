/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/name-guard.h"

#include <errno.h>
#include <string.h>

static int
report(const IpbNameGuard *guard, const IpbCaller *caller, const IpbNameAttempt *attempt,
       const IpbNameRule *rule, const char *reason)
{
    if (attempt->is_quiet)
        return EACCES;
    IpbDenialRecord record = {
        .denial = {.kind = IPB_DENIED_NAME,
                   .action = attempt->action,
                   .rule = rule,
                   .pid = caller->inner_group},
    };
    char name[IPB_CALLER_NAME_SIZE];
    ipb_caller_name(caller, name);
    g_strlcpy(record.denial.process, name, sizeof record.denial.process);
    g_strlcpy(record.denial.reason, reason != NULL ? reason : "", sizeof record.denial.reason);
    g_strlcpy(record.path, attempt->path->real, sizeof record.path);
    guard->on_denied(&record, guard->data);
    return EACCES;
}

static bool
has_entry(const char *path, size_t directory_size, const char *name, void *data)
{
    g_autofree char *entry = g_strdup_printf("%.*s/%s", (int) directory_size, path, name);
    return ipb_caller_path_exists(data, entry);
}

static bool
has_other(const char *path, size_t directory_size, const char *suffix, void *data)
{
    g_autofree char *directory = g_strndup(path, directory_size);
    return ipb_caller_path_has_other(data, directory, suffix);
}

static IpbNameJudgement
ask_rules(const IpbNameGuard *guard, IpbCaller *caller, const IpbNameAttempt *attempt,
          size_t root_size)
{
    IpbNameQuestion question = {
        .action = attempt->action,
        .kind = attempt->kind,
        .path = attempt->path->real,
        .root_size = root_size,
        .is_rmdir = attempt->is_rmdir,
        .is_mode = attempt->is_mode,
        .has_entry = has_entry,
        .has_other = has_other,
        .data = caller,
    };
    if (attempt->source != NULL) {
        IpbPlanAccess source = ipb_sandbox_plan_access(guard->plan, attempt->source->real);
        /* No rule held in a place of the sandbox's own. What comes from there is judged as if it
         * came from nowhere. */
        if (source.is_writable && !source.is_own) {
            question.source = attempt->source->real;
            question.source_root_size = source.root_size;
        }
    }
    return ipb_name_rules_judge(guard->plan->names, &question);
}

static int
judge_name(IpbNameGuard *guard, IpbCaller *caller, const IpbNameAttempt *attempt, size_t root_size,
           const IpbNameRule **ret_parsed)
{
    IpbNameJudgement judgement = ask_rules(guard, caller, attempt, root_size);
    /* All that is in a directory gets other names with it. */
    bool is_moved = attempt->source != NULL && attempt->kind == IPB_NAME_DIRECTORY;
    if ((judgement.is_structural || is_moved) && guard->lock != IPB_NAMES_ALONE) {
        if (attempt->is_quiet)
            return EACCES;
        guard->wants_to_be_alone = true;
        return EAGAIN;
    }
    if (judgement.verdict == IPB_NAME_ALLOWED)
        return 0;
    if (judgement.verdict == IPB_NAME_REFUSED || ret_parsed == NULL)
        return report(guard, caller, attempt, judgement.rule, NULL);
    *ret_parsed = judgement.rule;
    return 0;
}

bool
ipb_name_guard_would_refuse(const IpbNameGuard *guard, IpbCaller *caller,
                            const IpbNameAttempt *attempt)
{
    IpbPlanAccess access = ipb_sandbox_plan_access(guard->plan, attempt->path->real);
    return !access.is_own &&
           ask_rules(guard, caller, attempt, access.root_size).verdict != IPB_NAME_ALLOWED;
}

/* Would a path that the policy denies get contents that code inside chose, or lose its denial? A
 * directory or a link would be put above it. */
static bool
makes_denied_path(const IpbNameGuard *guard, const IpbNameAttempt *attempt)
{
    const char *to = attempt->path->real;
    if (attempt->kind != IPB_NAME_DIRECTORY && attempt->kind != IPB_NAME_LINK)
        return false;
    if (ipb_sandbox_plan_has_denial_below(guard->plan, to))
        return true;
    return attempt->source != NULL && attempt->kind == IPB_NAME_DIRECTORY &&
           (ipb_sandbox_plan_loses_denial(guard->plan, attempt->source->real, to) ||
            ipb_sandbox_plan_loses_denial(guard->plan, to, attempt->source->real));
}

int
ipb_name_guard_judge(IpbNameGuard *guard, IpbCaller *caller, const IpbNameAttempt *attempt,
                     const IpbNameRule **ret_parsed)
{
    IpbPlanAccess access = ipb_sandbox_plan_access(guard->plan, attempt->path->real);
    if (ret_parsed != NULL)
        *ret_parsed = NULL;
    if (attempt->action == IPB_NAME_READ)
        return access.is_readable ? 0 : report(guard, caller, attempt, NULL, access.reason);
    if (!access.is_writable || (access.is_system && attempt->action != IPB_NAME_WRITE))
        return EROFS;
    if (access.is_own)
        return 0;
    if (attempt->is_moved && attempt->kind == IPB_NAME_DIRECTORY &&
        ipb_sandbox_plan_has_denial_below(guard->plan, attempt->path->real))
        return EBUSY;
    if (attempt->action == IPB_NAME_PUT && makes_denied_path(guard, attempt))
        return EBUSY;
    return judge_name(guard, caller, attempt, access.root_size, ret_parsed);
}

int
ipb_name_guard_refuse_contents(const IpbNameGuard *guard, const IpbCaller *caller,
                               const IpbNameAttempt *attempt, const IpbNameRule *rule, char *reason)
{
    g_autofree char *owned = reason;
    return report(guard, caller, attempt, rule, owned);
}

bool
ipb_name_guard_is_own(const IpbNameGuard *guard, const IpbCallerPath *path)
{
    return ipb_sandbox_plan_access(guard->plan, path->real).is_own;
}
