/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox rules`: checks a file of approval rules, and shows what it decides about a call, without
 * making the call.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "json/writer.h"
#include "tools/approval-rules.h"

static void
print_as_json(bool is_decided, const IpbApprovalVerdict *verdict)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "decision",
                           is_decided ? ipb_approval_policy_name(verdict->policy) : NULL);
    ipb_json_key(writer, "rule");
    if (verdict->rule > 0)
        ipb_json_write_int(writer, verdict->rule);
    else
        ipb_json_write_null(writer);
    ipb_json_member_string(writer, "reason", verdict->reason);
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    puts(text);
}

static void
print_for_people(bool is_decided, const IpbApprovalVerdict *verdict)
{
    if (!is_decided) {
        puts("no rule matches and there is no default: the policy of the program decides");
        return;
    }
    g_autofree char *by =
        verdict->rule > 0 ? g_strdup_printf("rule %u", verdict->rule) : g_strdup("the default");
    g_autofree char *reason = verdict->reason != NULL ? ipb_cli_printable(verdict->reason) : NULL;
    printf("%s, by %s%s%s\n", ipb_approval_policy_name(verdict->policy), by,
           reason != NULL ? ": " : "", reason != NULL ? reason : "");
}

static int
explain(const IpbApprovalRules *rules, const char *server, const char *tool, const char *arguments,
        bool as_json)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(arguments, strlen(arguments), &IPB_JSON_LIMITS_SMALL, &error);
    if (document == NULL)
        return ipb_cli_fail(&ipb_verb_rules, IPB_EXIT_USAGE, "ARGUMENTS: %s", error->message);
    if (!ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT))
        return ipb_cli_fail(&ipb_verb_rules, IPB_EXIT_USAGE,
                            "ARGUMENTS must be a JSON object, such as {\"path\": \"/tmp/x\"}");
    if (ipb_json_has_duplicates(document))
        return ipb_cli_fail(
            &ipb_verb_rules, IPB_EXIT_USAGE,
            "ARGUMENTS have the same name twice in one object: such a call is always refused");
    IpbApprovalVerdict verdict = {0};
    IpbApprovalCall call = {
        .server_name = server,
        .is_registered = true,
        .tool_name = tool,
        .arguments = ipb_json_root(document),
    };
    bool is_decided = ipb_approval_rules_decide(rules, &call, &verdict);
    if (as_json)
        print_as_json(is_decided, &verdict);
    else
        print_for_people(is_decided, &verdict);
    return is_decided && verdict.policy == IPB_APPROVAL_DENY ? IPB_EXIT_FAILED : IPB_EXIT_OK;
}

static int
run_rules(int argc, char **argv)
{
    int as_json = 0, status;
    const GOptionEntry options[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &as_json, "print the decision as JSON", NULL},
        G_OPTION_ENTRY_NULL,
    };
    if (!ipb_cli_parse(
            &ipb_verb_rules, options,
            "With SERVER, TOOL and optionally ARGUMENTS (a JSON object) it shows the decision "
            "about that call,\n"
            "without making it. Otherwise it checks the file.\n\nExit status: 0 the file is valid "
            "and the call not denied, 1 the call would be denied, 2 the file\n"
            "or the command line is wrong.\n\nExample:\n  ipybox rules rules.json files read_file "
            "'{\"path\": \"/etc/hosts\"}'",
            &argc, &argv, &status))
        return status;
    if (argc != 2 && argc != 4 && argc != 5)
        return ipb_cli_fail(&ipb_verb_rules, IPB_EXIT_USAGE,
                            "give a file, or a file, a server and a tool");
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbApprovalRules) rules = ipb_approval_rules_load(NULL, argv[1], &error);
    if (rules == NULL)
        return ipb_cli_fail(&ipb_verb_rules, IPB_EXIT_USAGE, "%s", error->message);
    if (argc >= 4)
        return explain(rules, argv[2], argv[3], argc == 5 ? argv[4] : "{}", as_json);
    unsigned n_rules = ipb_approval_rules_count(rules);
    if (as_json)
        printf("{\"rules\":%u}\n", n_rules);
    else
        printf("%u %s\n", n_rules, n_rules == 1 ? "rule" : "rules");
    return IPB_EXIT_OK;
}

const IpbVerb ipb_verb_rules = {"rules", "FILE [SERVER TOOL [ARGUMENTS]]",
                                "check approval rules, and show what they decide about a call",
                                run_rules};
