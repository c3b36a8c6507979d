/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApprovals: decides whether a tool call may run, for every interface. A request holds the exact
 * text of the arguments that are shown, and the call that runs uses that text. So what was approved
 * is what is executed. Rules decide first, then the policy. Each decision is written to the audit
 * log before it is reported.
 *
 * What ipybox itself does for a session is a call of IPB_OWN_SERVER, too: the installation of a
 * package for a cell, and commit and discard of the changes of a staged workspace. An installation
 * and a commit run unasked only if a rule or a policy that the user chose allows them.
 *
 * If a call names a server that is not registered, the caller chose the name. So no rule can allow
 * the call: its author meant another server. Rules that deny or ask, the policy and the user decide
 * on it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "tools/approval-rules.h"
#include "tools/audit-log.h"

/* The server of ipybox's own tools. No registration has this id: theirs are 32 hex digits. */
#define IPB_OWN_SERVER "ipybox"
/* Its tools: installs a package; writes what was changed to the workspace; undoes it. */
#define IPB_INSTALL_TOOL "install_package"
#define IPB_COMMIT_TOOL "commit_changes"
#define IPB_DISCARD_TOOL "discard_changes"

/* What is asked about: the question is worded for it. */
typedef enum {
    IPB_APPROVAL_OF_CALL,
    IPB_APPROVAL_OF_INSTALLATION,
    IPB_APPROVAL_OF_COMMIT,
    IPB_APPROVAL_OF_DISCARD,
} IpbApprovalSubject;

typedef struct IpbApprovals IpbApprovals;

typedef struct {
    uint64_t id;
    const char *server_name;
    /* Canonical JSON: the parameters of a server that is not registered, which the question shows;
     * NULL: the server is registered */
    const char *server_params;
    const char *tool_name;
    const char *arguments_json;
    size_t arguments_size;
    bool is_by_rule; /* a rule says to ask, not only the policy */
    IpbApprovalSubject subject;
} IpbApprovalRequest;

/* @error is NULL if the call is approved. Errors: REFUSED (denied by the policy, rejected, no one
 * to ask), TIMEOUT, CANCELLED, LIMIT. */
typedef void (*IpbApprovalFunc)(const GError *error, void *data);
/* Asks the user. The answer is given with _respond, at once or later. */
typedef void (*IpbApprovalAskFunc)(const IpbApprovalRequest *request, void *data);
/* A request ended before the user answered it. */
typedef void (*IpbApprovalWithdrawnFunc)(uint64_t request, void *data);
/* The number of waiting requests changed from or to zero. The cell's timeout is paused while one
 * waits. */
typedef void (*IpbApprovalWaitFunc)(bool is_waiting, void *data);

typedef struct {
    IpbApprovalPolicy policy; /* for calls that no rule matches */
    /* The user did not choose the policy. If it allows calls, installations and commits ask. */
    bool is_policy_default;
    IpbApprovalRules *rules; /* referenced; NULL: none */
    IpbAuditLog *audit_log;  /* taken over; NULL: none */
    int64_t timeout_ms;      /* for the user's answer; negative: none */
    IpbApprovalAskFunc ask;  /* NULL: there is no one to ask, so ASK denies and says so */
    IpbApprovalWithdrawnFunc on_withdrawn; /* may be NULL */
    IpbApprovalWaitFunc on_wait;           /* may be NULL */
    /* gets each decision when it is made, after the audit log; may be NULL */
    void (*on_decision)(const IpbDecision *decision, void *data);
    void *data;
} IpbApprovalOptions;

IpbApprovals *ipb_approvals_new(IpbLoop *loop, const IpbApprovalOptions *options);
/* Pending requests end with CANCELLED, before this returns. No IpbApprovalFunc may call it. */
void ipb_approvals_free(IpbApprovals *approvals);
/* The user chose @policy. */
void ipb_approvals_set_policy(IpbApprovals *approvals, IpbApprovalPolicy policy);
/* Requests a decision. @func is called once, from the loop. Returns the request's id. The texts are
 * borrowed for this call; @ask copies what it keeps. The caller keeps @arguments_json unchanged and
 * runs that text. LIMIT: more than 1000 requests are pending. @server_params: see
 * IpbApprovalRequest. */
uint64_t ipb_approvals_request(IpbApprovals *approvals, const char *server_name,
                               const char *server_params, const char *tool_name,
                               const char *arguments_json, size_t arguments_size,
                               IpbApprovalFunc func, void *data);
/* The same for what ipybox itself does. @subject: not OF_CALL. */
uint64_t ipb_approvals_request_own(IpbApprovals *approvals, IpbApprovalSubject subject,
                                   const char *arguments_json, size_t arguments_size,
                                   IpbApprovalFunc func, void *data);
/* Answers a request. False: no such request waits (it was answered, timed out or was cancelled). */
bool ipb_approvals_respond(IpbApprovals *approvals, uint64_t id, bool accept);
/* Refuses a request because no one could be asked. @why follows "Approval request for server.tool
 * failed: ". */
bool ipb_approvals_refuse(IpbApprovals *approvals, uint64_t id, const char *why);
/* Ends the request because its caller is gone: @func gets CANCELLED. */
void ipb_approvals_cancel(IpbApprovals *approvals, uint64_t id);
/* Ends all waiting requests with CANCELLED (at a reset, or the end of the cell). */
void ipb_approvals_cancel_all(IpbApprovals *approvals);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbApprovals, ipb_approvals_free)
