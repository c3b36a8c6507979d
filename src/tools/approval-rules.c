/* SPDX-License-Identifier: Apache-2.0
 *
 * Approval rules; see the header. The user runs a rules file that others may have written. So
 * nothing in it is guessed: an unknown member is an error.
 */
#include "tools/approval-rules.h"

#include <string.h>

#include "base/beneath.h"
#include "base/error.h"
#include "tools/argument-pattern.h"
#include "tools/text-pattern.h"

#define MAX_FILE_SIZE (1024 * 1024)
#define MAX_RULES 1000

typedef struct {
    IpbTextPattern *server, *tool; /* NULL: any */
    IpbArgumentPattern *arguments; /* NULL: any */
    bool takes_other_arguments;
    IpbApprovalPolicy decision;
    char *reason;
} Rule;

struct IpbApprovalRules {
    int references;
    GPtrArray *rules; /* Rule */
    bool has_default;
    IpbApprovalPolicy default_policy;
};

static const char *const NAMES[] = {
    [IPB_APPROVAL_ALLOW] = "allow",
    [IPB_APPROVAL_ASK] = "ask",
    [IPB_APPROVAL_DENY] = "deny",
};

bool
ipb_approval_policy_parse(const char *name, IpbApprovalPolicy *ret_policy)
{
    for (size_t i = 0; name != NULL && i < G_N_ELEMENTS(NAMES); i++) {
        if (g_str_equal(name, NAMES[i])) {
            *ret_policy = (IpbApprovalPolicy) i;
            return true;
        }
    }
    return false;
}

const char *
ipb_approval_policy_name(IpbApprovalPolicy policy)
{
    return NAMES[policy];
}

static void
free_rule(void *data)
{
    Rule *rule = data;
    ipb_text_pattern_free(rule->server);
    ipb_text_pattern_free(rule->tool);
    ipb_argument_pattern_free(rule->arguments);
    g_free(rule->reason);
    g_free(rule);
}

/* --- reading --- */

static bool
invalid(GError **error, const char *where, const char *what)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s %s", where, what);
    return false;
}

static bool
read_policy(const IpbJson *value, const char *where, IpbApprovalPolicy *ret_policy, GError **error)
{
    if (ipb_approval_policy_parse(ipb_json_string(value, NULL), ret_policy))
        return true;
    return invalid(error, where, "must be \"allow\", \"ask\" or \"deny\"");
}

static bool
read_name_pattern(const IpbJson *value, const char *where, IpbTextPattern **ret_pattern,
                  GError **error)
{
    const char *text = ipb_json_string(value, NULL);
    if (text == NULL)
        return invalid(error, where, "must be a string: a name, or a pattern such as \"read_*\"");
    *ret_pattern = ipb_text_pattern_new(text, error);
    if (*ret_pattern == NULL)
        g_prefix_error(error, "%s: ", where);
    return *ret_pattern != NULL;
}

static bool
read_arguments(Rule *rule, const IpbJson *value, const char *where, GError **error)
{
    if (!ipb_json_is(value, IPB_JSON_OBJECT))
        return invalid(error, where, "must be an object: argument name to pattern");
    rule->arguments = ipb_argument_pattern_new(value, where, error);
    return rule->arguments != NULL;
}

static bool
read_member(Rule *rule, const IpbJson *member, const char *where, GError **error)
{
    const char *name = ipb_json_name(member, NULL);
    g_autofree char *place = g_strdup_printf("%s.%s", where, name);
    if (g_str_equal(name, "server"))
        return read_name_pattern(member, place, &rule->server, error);
    if (g_str_equal(name, "tool"))
        return read_name_pattern(member, place, &rule->tool, error);
    if (g_str_equal(name, "arguments"))
        return read_arguments(rule, member, place, error);
    if (g_str_equal(name, "decision"))
        return read_policy(member, place, &rule->decision, error);
    if (g_str_equal(name, "otherArguments")) {
        rule->takes_other_arguments = ipb_json_bool(member, false);
        return ipb_json_is(member, IPB_JSON_BOOL) || invalid(error, place, "must be true or false");
    }
    if (g_str_equal(name, "reason")) {
        rule->reason = g_strdup(ipb_json_string(member, NULL));
        return rule->reason != NULL || invalid(error, place, "must be a string");
    }
    return invalid(error, place,
                   "is unknown; a rule has server, tool, arguments, otherArguments, decision and "
                   "reason");
}

static bool
read_rule(IpbApprovalRules *rules, const IpbJson *value, const char *where, GError **error)
{
    if (!ipb_json_is(value, IPB_JSON_OBJECT))
        return invalid(error, where, "must be an object");
    Rule *rule = g_new0(Rule, 1);
    rule->takes_other_arguments = true;
    g_ptr_array_add(rules->rules, rule);
    IPB_JSON_FOREACH (member, value)
        if (!read_member(rule, member, where, error))
            return false;
    if (ipb_json_get(value, "decision") == NULL)
        return invalid(error, where, "has no decision: \"allow\", \"ask\" or \"deny\"");
    if (!rule->takes_other_arguments && rule->decision != IPB_APPROVAL_ALLOW)
        return invalid(error, where,
                       "has otherArguments false, which only makes sense where the decision is "
                       "\"allow\": another argument would bypass the rule");
    return true;
}

static bool
read_rules(IpbApprovalRules *rules, const IpbJson *value, const char *origin, GError **error)
{
    g_autofree char *list = g_strconcat(origin, ": rules", NULL);
    if (!ipb_json_is(value, IPB_JSON_ARRAY))
        return invalid(error, list, "must be an array");
    if (ipb_json_length(value) > MAX_RULES) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s: more than %d", list, MAX_RULES);
        return false;
    }
    unsigned number = 0;
    IPB_JSON_FOREACH (item, value) {
        g_autofree char *where = g_strdup_printf("%s: rule %u", origin, ++number);
        if (!read_rule(rules, item, where, error))
            return false;
    }
    return true;
}

static bool
read_file(IpbApprovalRules *rules, const IpbJson *root, const char *origin, GError **error)
{
    if (!ipb_json_is(root, IPB_JSON_OBJECT))
        return invalid(error, origin, "must contain an object: {\"default\": …, \"rules\": […]}");
    IPB_JSON_FOREACH (member, root) {
        const char *name = ipb_json_name(member, NULL);
        g_autofree char *place = g_strdup_printf("%s: %s", origin, name);
        bool is_read = false;
        if (g_str_equal(name, "rules")) {
            is_read = read_rules(rules, member, origin, error);
        } else if (g_str_equal(name, "default")) {
            rules->has_default = true;
            is_read = read_policy(member, place, &rules->default_policy, error);
        } else {
            invalid(error, place, "is unknown; the members are default and rules");
        }
        if (!is_read)
            return false;
    }
    return true;
}

IpbApprovalRules *
ipb_approval_rules_parse(const char *text, size_t size, const char *origin, GError **error)
{
    g_autoptr(GError) cause = NULL;
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, &cause);
    if (document == NULL) { /* the parser reports PROTOCOL */
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s: %s", origin, cause->message);
        return NULL;
    }
    if (ipb_json_has_duplicates(document)) {
        invalid(error, origin, "contains an object with the same name twice");
        return NULL;
    }
    g_autoptr(IpbApprovalRules) rules = g_new0(IpbApprovalRules, 1);
    rules->references = 1;
    rules->rules = g_ptr_array_new_with_free_func(free_rule);
    return read_file(rules, ipb_json_root(document), origin, error) ? g_steal_pointer(&rules)
                                                                    : NULL;
}

IpbApprovalRules *
ipb_approval_rules_load(const char *base, const char *path, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_beneath_read_in(base, path, MAX_FILE_SIZE, &text, &size, error)) {
        g_prefix_error(error, "approval rules: ");
        return NULL;
    }
    return ipb_approval_rules_parse(text, size, path, error);
}

IpbApprovalRules *
ipb_approval_rules_ref(IpbApprovalRules *rules)
{
    rules->references++;
    return rules;
}

void
ipb_approval_rules_unref(IpbApprovalRules *rules)
{
    if (rules == NULL || --rules->references > 0)
        return;
    g_ptr_array_unref(rules->rules);
    g_free(rules);
}

unsigned
ipb_approval_rules_count(const IpbApprovalRules *rules)
{
    return rules->rules->len;
}

/* --- deciding --- */

static bool
matches_name(const IpbTextPattern *pattern, const char *name)
{
    return pattern == NULL || ipb_text_pattern_matches(pattern, name, strlen(name));
}

static bool
matches(const Rule *rule, const IpbApprovalCall *call)
{
    bool is_strict = rule->decision == IPB_APPROVAL_ALLOW;
    if (is_strict && !call->is_registered)
        return false;
    if (!matches_name(rule->server, call->server_name) ||
        !matches_name(rule->tool, call->tool_name))
        return false;
    if (rule->arguments == NULL)
        return rule->takes_other_arguments || ipb_json_length(call->arguments) == 0;
    return ipb_argument_pattern_matches(rule->arguments, call->arguments, is_strict) &&
           (rule->takes_other_arguments ||
            ipb_argument_pattern_names_all(rule->arguments, call->arguments));
}

bool
ipb_approval_rules_decide(const IpbApprovalRules *rules, const IpbApprovalCall *call,
                          IpbApprovalVerdict *ret_verdict)
{
    for (guint i = 0; i < rules->rules->len; i++) {
        const Rule *rule = g_ptr_array_index(rules->rules, i);
        if (matches(rule, call)) {
            *ret_verdict = (IpbApprovalVerdict){rule->decision, i + 1, rule->reason};
            return true;
        }
    }
    *ret_verdict = (IpbApprovalVerdict){.policy = rules->default_policy};
    return rules->has_default;
}
