/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApprovalRules: which tool calls are allowed, asked for or denied, from a file:
 *
 *     {"default": "ask",
 *      "rules": [{"server": "files", "tool": "read_*", "arguments": {"path": "/data/report?.csv"}, "decision": "allow"}]}
 *
 * The first rule that matches decides; without one the default does, without a default the caller's policy. The format is described
 * in docs/how-to/approvals.md, what arguments match in tools/argument-pattern.h.
 *
 * Ownership: reference-counted, unchanging.
 */
#pragma once

#include "json/json.h"

typedef enum {
    IPB_APPROVAL_ALLOW,
    IPB_APPROVAL_ASK,
    IPB_APPROVAL_DENY,
} IpbApprovalPolicy;

typedef struct IpbApprovalRules IpbApprovalRules;

typedef struct {
    IpbApprovalPolicy policy;
    unsigned rule;      /* its number in the file, from 1; 0: the default */
    const char *reason; /* as the rule has it, or NULL; the rules' */
} IpbVerdict;

/* "allow", "ask", "deny". */
bool ipb_approval_policy_parse(const char *name, IpbApprovalPolicy *ret_policy);
const char *ipb_approval_policy_name(IpbApprovalPolicy policy);

/* @origin names the text in errors: INVALID says where and what is allowed, LIMIT. */
IpbApprovalRules *ipb_approval_rules_parse(const char *text, size_t size, const char *origin,
                                           GError **error);
/* Also NOT_FOUND and SYSTEM. */
IpbApprovalRules *ipb_approval_rules_load(const char *path, GError **error);
IpbApprovalRules *ipb_approval_rules_ref(IpbApprovalRules *rules);
void ipb_approval_rules_unref(IpbApprovalRules *rules);
unsigned ipb_approval_rules_count(const IpbApprovalRules *rules);
/* What is decided on; borrowed. */
typedef struct {
    const char *server_name;
    /* Nobody registered the server: its caller says how it is started, and chose the name. No rule allows that. */
    bool is_unregistered;
    const char *tool_name;
    const IpbJson *arguments; /* an object without duplicate members */
} IpbRuledCall;
/* False: the rules say nothing of this call. */
bool ipb_approval_rules_decide(const IpbApprovalRules *rules, const IpbRuledCall *call,
                               IpbVerdict *ret_verdict);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbApprovalRules, ipb_approval_rules_unref)
