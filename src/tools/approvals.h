/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApprovals: decides whether a tool call may run, for every interface. A request holds the exact
 * text of the arguments that are shown, and the call that runs uses that text. So what was approved
 * is what is executed. Rules decide first, then the policy. Each decision is written to the audit
 * log before it is reported.
 *
 * If a call names a server that is not registered, the caller chose the name, so no rule can allow
 * the call: its author meant another server. Rules that deny or ask, the policy and the user decide
 * on it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "tools/approval-rules.h"
#include "tools/audit-log.h"

typedef struct IpbApprovals IpbApprovals;

typedef struct {
    uint64_t id;
    const char *server_name;
    /* Canonical JSON: the parameters of a server that is not registered, to be shown with the
     * question; NULL if it is registered */
    const char *server_params;
    const char *tool_name;
    const char *arguments_json;
    size_t arguments_size;
    bool is_by_rule; /* a rule says that it is asked, not only the policy */
} IpbApprovalRequest;

/* @error NULL: approved. REFUSED (denied by the policy, rejected, nobody to ask), TIMEOUT,
 * CANCELLED, LIMIT. */
typedef void (*IpbApprovalFunc)(const GError *error, void *data);
/* Somebody is to be asked; answered by _respond, at once or later. */
typedef void (*IpbApprovalAskFunc)(const IpbApprovalRequest *request, void *data);
/* A request that was asked for is no longer waiting, and nobody answered it. */
typedef void (*IpbApprovalWithdrawnFunc)(uint64_t request, void *data);
/* The number of waiting requests changed from or to zero. The cell's timeout is paused while one
 * waits. */
typedef void (*IpbApprovalWaitFunc)(bool is_waiting, void *data);

typedef struct {
    IpbApprovalPolicy policy;              /* of calls that no rule names */
    IpbApprovalRules *rules;               /* referenced; NULL: none */
    IpbAuditLog *audit_log;                /* taken over; NULL: none */
    int64_t timeout_ms;                    /* of ASK; negative: none */
    IpbApprovalAskFunc ask;                /* NULL: nobody to ask, so ASK denies and says so */
    IpbApprovalWithdrawnFunc on_withdrawn; /* may be NULL */
    IpbApprovalWaitFunc on_wait;           /* may be NULL */
    void *data;
} IpbApprovalOptions;

IpbApprovals *ipb_approvals_new(IpbLoop *loop, const IpbApprovalOptions *options);
/* Pending requests end with CANCELLED, before this returns. No IpbApprovalFunc may call it. */
void ipb_approvals_free(IpbApprovals *approvals);
void ipb_approvals_set_policy(IpbApprovals *approvals, IpbApprovalPolicy policy);
/* @func exactly once, from the loop. Returns the request's id (also of requests that are not
 * asked). The texts are borrowed for this call: @ask gets them and copies what it keeps. Whoever
 * asks keeps @arguments_json unchanged and runs that very text. LIMIT above 1000 pending
 * requests. @server_params: see IpbApprovalRequest. */
uint64_t ipb_approvals_request(IpbApprovals *approvals, const char *server_name,
                               const char *server_params, const char *tool_name,
                               const char *arguments_json, size_t arguments_size,
                               IpbApprovalFunc func, void *data);
/* False if no such request waits (answered, timed out, cancelled). */
bool ipb_approvals_respond(IpbApprovals *approvals, uint64_t id, bool accept);
/* Refuses a request because nobody could be asked. @why follows "Approval request for server.tool
 * failed: ". */
bool ipb_approvals_refuse(IpbApprovals *approvals, uint64_t id, const char *why);
/* The caller went away: @func gets CANCELLED. */
void ipb_approvals_cancel(IpbApprovals *approvals, uint64_t id);
/* All waiting requests end with CANCELLED (reset, end of the cell). */
void ipb_approvals_cancel_all(IpbApprovals *approvals);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbApprovals, ipb_approvals_free)
