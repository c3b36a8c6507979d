/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/approval-rules.h"

#include <string.h>

#include "base/error.h"

static IpbApprovalRules *
parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    IpbApprovalRules *rules = ipb_approval_rules_parse(text, strlen(text), "rules.json", &error);
    g_assert_no_error(error);
    return rules;
}

/* "allow 1", "deny 0"; "-": no rule matches. */
static char *
decide(const IpbApprovalRules *rules, const char *server, const char *tool, const char *arguments)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(arguments, strlen(arguments), &IPB_JSON_LIMITS_MESSAGE, &error);
    IpbApprovalVerdict verdict;
    g_assert_no_error(error);
    IpbApprovalCall call = {
        .server_name = server,
        .is_registered = true,
        .tool_name = tool,
        .arguments = ipb_json_root(document),
    };
    if (!ipb_approval_rules_decide(rules, &call, &verdict))
        return g_strdup("-");
    return g_strdup_printf("%s %u", ipb_approval_policy_name(verdict.policy), verdict.rule);
}

/* The caller chose the name of a server that is not registered. So no rule allows the call, but
 * rules that deny or ask apply. */
static void
test_unregistered(void)
{
    static const struct {
        const char *tool, *expected;
    } ROWS[] = {{"delete", "deny 1"}, {"write", "ask 3"}, {"read", "-"}};
    g_autoptr(IpbApprovalRules) rules = parse(
        "{\"rules\":[{\"server\":\"files\",\"tool\":\"delete\",\"decision\":\"deny\"},"
        "{\"server\":\"files\",\"decision\":\"allow\"},{\"tool\":\"write\",\"decision\":\"ask\"},"
        "{\"decision\":\"allow\"}]}");
    g_autoptr(IpbJsonDoc) document = ipb_json_parse("{}", 2, &IPB_JSON_LIMITS_SMALL, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        IpbApprovalCall call = {"files", false, ROWS[i].tool, ipb_json_root(document)};
        IpbApprovalVerdict verdict;
        g_autofree char *decision =
            ipb_approval_rules_decide(rules, &call, &verdict)
                ? g_strdup_printf("%s %u", ipb_approval_policy_name(verdict.policy), verdict.rule)
                : g_strdup("-");
        g_assert_cmpstr(decision, ==, ROWS[i].expected);
    }
}

static void
check(const char *text, const char *tool, const char *arguments, const char *expected)
{
    g_autoptr(IpbApprovalRules) rules = parse(text);
    g_autofree char *decision = decide(rules, "files", tool, arguments);
    g_assert_cmpstr(decision, ==, expected);
}

static void
test_names(void)
{
    static const char TEXT[] = "{\"default\": \"ask\", \"rules\": ["
                               "{\"server\": \"files\", \"tool\": \"delete_*\", \"decision\": "
                               "\"deny\", \"reason\": \"no\"},"
                               "{\"server\": \"files\", \"decision\": \"allow\"},"
                               "{\"tool\": \"read\", \"decision\": \"allow\"}]}";
    g_autoptr(IpbApprovalRules) rules = parse(TEXT);
    g_autofree char *first = decide(rules, "files", "delete_all", "{}");
    g_assert_cmpstr(first, ==, "deny 1");
    g_autofree char *second = decide(rules, "files", "read", "{}");
    g_assert_cmpstr(second, ==, "allow 2");
    g_autofree char *third = decide(rules, "web", "read", "{}");
    g_assert_cmpstr(third, ==, "allow 3");
    g_autofree char *rest = decide(rules, "web", "Read", "{}");
    g_assert_cmpstr(rest, ==, "ask 0");
}

static void
test_nothing_said(void)
{
    check("{}", "x", "{}", "-");
    check("{\"rules\": []}", "x", "{}", "-");
    check("{\"default\": \"deny\"}", "x", "{}", "deny 0");
}

#define ALLOW(arguments) "{\"rules\": [{\"decision\": \"allow\", \"arguments\": " arguments "}]}"
#define DENY(arguments) "{\"rules\": [{\"decision\": \"deny\", \"arguments\": " arguments "}]}"

static void
test_values(void)
{
    check(ALLOW("{\"n\": 1}"), "x", "{\"n\": 1.0}", "allow 1");
    check(ALLOW("{\"n\": 1}"), "x", "{\"n\": 2}", "-");
    check(ALLOW("{\"n\": 1}"), "x", "{\"n\": \"1\"}", "-");
    check(ALLOW("{\"n\": 0.5}"), "x", "{\"n\": 5e-1}", "allow 1");
    check(ALLOW("{\"n\": 123456789012345678901}"), "x", "{\"n\": 123456789012345678902}", "-");
    check(ALLOW("{\"n\": 123456789012345678901}"), "x", "{\"n\": 123456789012345678901}",
          "allow 1");
    check(ALLOW("{\"b\": true, \"z\": null}"), "x", "{\"b\": true, \"z\": null}", "allow 1");
    check(ALLOW("{\"b\": true}"), "x", "{\"b\": false}", "-");
    check(ALLOW("{\"b\": null}"), "x", "{}", "-");
    check(ALLOW("{\"m\": [\"GET\", \"HEAD\", 3]}"), "x", "{\"m\": \"HEAD\"}", "allow 1");
    check(ALLOW("{\"m\": [\"GET\", \"HEAD\"]}"), "x", "{\"m\": \"POST\"}", "-");
    check(ALLOW("{\"o\": {\"p\": \"a*\"}}"), "x", "{\"o\": {\"p\": \"ab\", \"q\": 1}}", "allow 1");
    check(ALLOW("{\"o\": {\"p\": \"a*\"}}"), "x", "{\"o\": \"ab\"}", "-");
    check(ALLOW("{\"s\": \"*\"}"), "x", "{\"s\": 1}", "-");
}

/* What untrusted code may try in order to be allowed. */
static void
test_not_allowed_by_tricks(void)
{
    static const char TEXT[] = ALLOW("{\"path\": \"/tmp/**\"}");
    check(TEXT, "x", "{\"path\": \"/tmp/a/b\"}", "allow 1");
    check(TEXT, "x", "{\"path\": \"/tmp/../etc/passwd\"}", "-");
    check(TEXT, "x", "{\"path\": \"/tmp/a/\\u002e\\u002e/b\"}", "-");
    check(TEXT, "x", "{\"path\": \"/tmp/a/..\"}", "-");
    check(TEXT, "x", "{\"path\": \"/tmp/a\\\\..\\\\b\"}", "-");
    check(TEXT, "x", "{\"path\": \"/tmp/..a/b..\"}", "allow 1");
    check(TEXT, "x", "{\"path\": [\"/tmp/a\", \"/etc/passwd\"]}", "-");
    check(TEXT, "x", "{\"path\": [\"/tmp/a\", [\"/tmp/b\"]]}", "allow 1");
    check(TEXT, "x", "{\"path\": []}", "-");
    check(TEXT, "x", "{\"path\": {\"path\": \"/tmp/a\"}}", "-");
    check(TEXT, "x", "{\"path\": \"/tmp/a\\u0000.csv\"}", "-");
    check(TEXT, "x", "{\"Path\": \"/tmp/a\"}", "-");
    /* Some servers take the last one, whatever its case. */
    check(TEXT, "x", "{\"path\": \"/tmp/a\", \"Path\": \"/etc/passwd\"}", "-");
    check(TEXT, "x", "{\"PATH\": \"/tmp/b\", \"path\": \"/tmp/a\"}", "-");
    check(TEXT, "x", "{\"path\": \"/tmp/a\", \"paths\": 1, \"pat\": 1}", "allow 1");
    check(ALLOW("{\"task\": 1}"), "x", "{\"task\": 1, \"ta\\u017f\\u212a\": 2}", "-");
    check(ALLOW("{\"n\": 1}"), "x", "{\"n\": 1.00000000000000000001}", "-");
    check(ALLOW("{\"n\": 9007199254740993}"), "x", "{\"n\": 9007199254740992}", "-");
    /* A pattern that contains ".." itself is taken literally. */
    check(ALLOW("{\"path\": \"../a\"}"), "x", "{\"path\": \"../a\"}", "allow 1");
}

/* What untrusted code may try in order not to be denied. */
static void
test_denied_for_all_tricks(void)
{
    static const char TEXT[] = DENY("{\"path\": \"/etc/**\"}");
    check(TEXT, "x", "{\"path\": \"/etc/x/../passwd\"}", "deny 1");
    check(TEXT, "x", "{\"path\": [\"/tmp/a\", \"/etc/passwd\"]}", "deny 1");
    check(TEXT, "x", "{\"path\": [[\"/etc/passwd\"]]}", "deny 1");
    check(TEXT, "x", "{\"path\": \"/tmp/a\"}", "-");
    check(TEXT, "x", "{\"path\": \"/etc/a\\u0000\"}", "deny 1");
    check(TEXT, "x", "{\"path\": \"/etc/\\ud800\"}", "deny 1");
    check(TEXT, "x", "{\"PATH\": \"/etc/a\"}", "deny 1");
    check(TEXT, "x", "{\"path\": \"/tmp/a\", \"Path\": \"/etc/a\"}", "deny 1");
    check(TEXT, "x", "{\"path\": \"/etc/a\", \"Path\": \"/tmp/a\"}", "deny 1");
    check(TEXT, "x", "{\"path\\u0000\": \"/etc/a\", \"p\\ud800\": 1}", "-");
    check(DENY("{\"n\": 1}"), "x", "{\"n\": 1.00000000000000000001}", "deny 1");
    check(DENY("{\"n\": 100000000000000000000}"), "x", "{\"n\": 1e20}", "deny 1");
    check(DENY("{\"n\": 1}"), "x", "{\"n\": 2}", "-");
}

static void
test_other_arguments(void)
{
    static const char TEXT[] = "{\"rules\": [{\"decision\": \"allow\", \"otherArguments\": false, "
                               "\"arguments\": {\"a\": \"*\"}}]}";
    check(TEXT, "x", "{\"a\": \"1\"}", "allow 1");
    check(TEXT, "x", "{\"a\": \"1\", \"b\": 1}", "-");
    check(TEXT, "x", "{\"a\": \"1\", \"a\\u0000\": 1}", "-");
    check("{\"rules\": [{\"decision\": \"allow\", \"otherArguments\": false}]}", "x", "{}",
          "allow 1");
    check("{\"rules\": [{\"decision\": \"allow\", \"otherArguments\": false}]}", "x", "{\"a\": 1}",
          "-");
}

static void
test_errors(void)
{
    static const struct {
        const char *text;
        const char *message;
    } CASES[] = {
        {"[]", "rules.json must contain an object"},
        {"{", "rules.json:"},
        {"{\"rule\": []}", "rules.json: rule is unknown"},
        {"{\"rules\": {}}", "rules.json: rules must be an array"},
        {"{\"default\": \"maybe\"}", "rules.json: default must be \"allow\", \"ask\" or \"deny\""},
        {"{\"rules\": [{}]}", "rules.json: rule 1 has no decision"},
        {"{\"rules\": [1]}", "rules.json: rule 1 must be an object"},
        {"{\"rules\": [{\"decision\": 1}]}", "rules.json: rule 1.decision must be"},
        {"{\"rules\": [{\"decision\": \"deny\", \"tools\": \"x\"}]}",
         "rules.json: rule 1.tools is unknown; a rule has server, tool"},
        {"{\"rules\": [{\"decision\": \"deny\", \"tool\": \"[\"}]}",
         "rules.json: rule 1.tool: the pattern"},
        {"{\"rules\": [{\"decision\": \"deny\", \"tool\": 3}]}",
         "rules.json: rule 1.tool must be a string"},
        {"{\"rules\": [{\"decision\": \"deny\", \"arguments\": []}]}",
         "rules.json: rule 1.arguments must be an object"},
        {"{\"rules\": [{\"decision\": \"deny\", \"arguments\": {\"a\": {\"b\": [\"[\"]}}}]}",
         "rules.json: rule 1.arguments.a.b[0]: the pattern"},
        {"{\"rules\": [{\"decision\": \"deny\", \"otherArguments\": false}]}",
         "otherArguments false"},
        {"{\"rules\": [{\"decision\": \"deny\", \"reason\": 1}]}",
         "rules.json: rule 1.reason must be a string"},
        {"{\"default\": \"deny\", \"default\": \"allow\"}", "the same name twice"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(
            ipb_approval_rules_parse(CASES[i].text, strlen(CASES[i].text), "rules.json", &error));
        if (strstr(error->message, CASES[i].message) == NULL)
            g_error("\"%s\" should say \"%s\"", error->message, CASES[i].message);
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    }
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_approval_rules_load(NULL, "/nonexistent/rules.json", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/approval-rules/names", test_names);
    g_test_add_func("/approval-rules/nothing-said", test_nothing_said);
    g_test_add_func("/approval-rules/values", test_values);
    g_test_add_func("/approval-rules/not-allowed-by-tricks", test_not_allowed_by_tricks);
    g_test_add_func("/approval-rules/denied-for-all-tricks", test_denied_for_all_tricks);
    g_test_add_func("/approval-rules/other-arguments", test_other_arguments);
    g_test_add_func("/approval-rules/errors", test_errors);
    g_test_add_func("/tools/approval-rules/unregistered", test_unregistered);
    return g_test_run();
}
