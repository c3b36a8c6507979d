/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApprovalRules: the rules of a file. They say which tool calls are allowed, which are denied,
 * and for which the user is asked:
 *
 *     {"default": "ask",
 *      "rules": [{"server": "files", "tool": "read_*",
 *                 "arguments": {"path": "/data/report?.csv"}, "decision": "allow"}]}
 *
 * The first rule that matches decides. If none matches, the default decides; without a default, the
 * caller's policy does. docs/how-to/approvals.md describes the format, and tools/argument-pattern.h
 * describes which arguments match.
 *
 * Ownership: reference-counted, immutable.
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
    unsigned rule;      /* the number of the rule in the file, from 1; 0: the default */
    const char *reason; /* of the rule, or NULL; owned by the rules */
} IpbApprovalVerdict;

/* "allow", "ask", "deny". */
bool ipb_approval_policy_parse(const char *name, IpbApprovalPolicy *ret_policy);
const char *ipb_approval_policy_name(IpbApprovalPolicy policy);

/* @origin names the text in errors. Errors: INVALID (says where, and what is allowed), LIMIT. */
IpbApprovalRules *ipb_approval_rules_parse(const char *text, size_t size, const char *origin,
                                           GError **error);
/* Links below @base (may be NULL) are not followed. Further errors: NOT_FOUND, REFUSED, SYSTEM. */
IpbApprovalRules *ipb_approval_rules_load(const char *base, const char *path, GError **error);
IpbApprovalRules *ipb_approval_rules_ref(IpbApprovalRules *rules);
void ipb_approval_rules_unref(IpbApprovalRules *rules);
unsigned ipb_approval_rules_count(const IpbApprovalRules *rules);
/* The call to decide on; borrowed. */
typedef struct {
    const char *server_name;
    /* If not, the caller chose the server's name and says how to start it, so no rule allows the
     * call. */
    bool is_registered;
    const char *tool_name;
    const IpbJson *arguments; /* an object without duplicate members */
} IpbApprovalCall;
/* False: no rule matches, and there is no default. */
bool ipb_approval_rules_decide(const IpbApprovalRules *rules, const IpbApprovalCall *call,
                               IpbApprovalVerdict *ret_verdict);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbApprovalRules, ipb_approval_rules_unref)
