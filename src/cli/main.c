/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: finds the verb and runs it. Without a verb it is the MCP server, as the original is.
 */
#include <locale.h>
#include <stdio.h>

#include <ipybox/version.h>

#include "cli/cli.h"

static const IpbVerb *const VERBS[] = {
    &ipb_verb_run,   &ipb_verb_apigen,  &ipb_verb_servers,     &ipb_verb_login,  &ipb_verb_logout,
    &ipb_verb_rules, &ipb_verb_sandbox, &ipb_verb_selftest,    &ipb_verb_doctor, &ipb_verb_gateway,
    &ipb_verb_mcp,   &ipb_verb_rpc,     &ipb_verb_tool_server,
};

static void
print_help(void)
{
    puts("Usage:\n"
         "  ipybox [OPTION…]        the MCP server on standard input and output\n"
         "  ipybox VERB [OPTION…]\n\n"
         "Python code execution for agents: stateful IPython, and MCP tools as typed Python "
         "functions.\n\n"
         "Verbs:");
    for (size_t i = 0; i < G_N_ELEMENTS(VERBS); i++)
        printf("  %-12s %s\n", VERBS[i]->name, VERBS[i]->summary);
    puts("\nOptions of the MCP server: ipybox mcp --help\n"
         "Options of a verb:         ipybox VERB --help\n"
         "  -h, --help               show this help and exit\n"
         "  --version                show the version and exit");
}

int
main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    if (argc > 1 && g_str_equal(argv[1], "--version")) {
        puts("ipybox " IPYBOX_VERSION);
        return IPB_EXIT_OK;
    }
    if (argc > 1 && (g_str_equal(argv[1], "--help") || g_str_equal(argv[1], "-h"))) {
        print_help();
        return IPB_EXIT_OK;
    }
    if (argc > 1 && argv[1][0] != '-') {
        for (size_t i = 0; i < G_N_ELEMENTS(VERBS); i++)
            if (g_str_equal(argv[1], VERBS[i]->name))
                return VERBS[i]->run(argc - 1, argv + 1);
        fprintf(stderr, "ipybox: no such verb: %s\nTry 'ipybox --help'.\n", argv[1]);
        return IPB_EXIT_USAGE;
    }
    return ipb_verb_mcp.run(argc, argv);
}
