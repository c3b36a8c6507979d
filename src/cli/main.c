/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: finds the verb and runs it. Without a verb it is the MCP server, as ipybox 0.9.
 */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ipybox/version.h>

#include "base/fd-limit.h"
#include "base/file.h"
#include "base/spelling.h"
#include "cli/cli.h"

static const IpbVerb *const VERBS[] = {
    &ipb_verb_run,      &ipb_verb_changes,     &ipb_verb_apigen,  &ipb_verb_servers,
    &ipb_verb_login,    &ipb_verb_logout,      &ipb_verb_rules,   &ipb_verb_sandbox,
    &ipb_verb_selftest, &ipb_verb_doctor,      &ipb_verb_gateway, &ipb_verb_mcp,
    &ipb_verb_rpc,      &ipb_verb_tool_server, &ipb_verb_kernel,  &ipb_verb_kernelspec,
    &ipb_verb_record,   &ipb_verb_serve,       &ipb_verb_actions,
};

static void
print_help(void)
{
    puts("Usage:\n"
         "  ipybox [OPTION…]        run the MCP server on standard input and output\n"
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

/* Opens /dev/null for standard streams that are closed. Otherwise the next file would get the
 * number of such a stream, and commands would inherit it as theirs. */
static bool
open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    return true;
}

static int
run_verb(const IpbVerb *verb, int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    if (ipb_file_check_current_directory(&error))
        return verb->run(argc, argv);
    return ipb_cli_fail(verb, IPB_EXIT_FAILED, "%s", error->message);
}

/* If no locale is set, as in many containers, arguments and messages are UTF-8, not ASCII, as in
 * Python (PEP 538). */
static void
set_locale(void)
{
    setlocale(LC_ALL, "");
    if (g_str_equal(nl_langinfo(CODESET), "ANSI_X3.4-1968"))
        setlocale(LC_CTYPE, "C.UTF-8");
}

static const IpbVerb *
find_verb(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(VERBS); i++)
        if (g_str_equal(name, VERBS[i]->name))
            return VERBS[i];
    return NULL;
}

static int
fail_unknown_verb(const char *name)
{
    const char *names[G_N_ELEMENTS(VERBS) + 1] = {NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(VERBS); i++)
        names[i] = VERBS[i]->name;
    const char *nearest = ipb_spelling_nearest(name, names);
    g_autofree char *shown = ipb_cli_printable(name);
    g_autofree char *hint =
        nearest != NULL ? g_strdup_printf(", did you mean %s?", nearest) : g_strdup("");
    fprintf(stderr, "ipybox: no such verb: %s%s\nTry 'ipybox --help'.\n", shown, hint);
    return IPB_EXIT_USAGE;
}

/* `help` and `help VERB`, as many programs have it: the same as --help. */
static int
help(const char *name)
{
    const IpbVerb *verb = name != NULL ? find_verb(name) : NULL;
    if (name != NULL && verb == NULL)
        return fail_unknown_verb(name);
    if (verb != NULL)
        return verb->run(2, (char *[]){(char *) verb->name, "--help", NULL});
    print_help();
    return IPB_EXIT_OK;
}

static int
run_words(int argc, char **argv)
{
    if (argc > 1 && g_str_equal(argv[1], "--version")) {
        puts("ipybox " IPYBOX_VERSION);
        return IPB_EXIT_OK;
    }
    if (argc > 1 && (g_str_equal(argv[1], "--help") || g_str_equal(argv[1], "-h"))) {
        print_help();
        return IPB_EXIT_OK;
    }
    if (argc > 1 && g_str_equal(argv[1], "help"))
        return help(argc > 2 ? argv[2] : NULL);
    if (argc > 1 && argv[1][0] != '-') {
        const IpbVerb *verb = find_verb(argv[1]);
        return verb != NULL ? run_verb(verb, argc - 1, argv + 1) : fail_unknown_verb(argv[1]);
    }
    return run_verb(&ipb_verb_mcp, argc, argv);
}

/* A full disk is not a success: output waits in a buffer until now. If the reader is gone, no
 * message is needed. */
static int
flush_output(int status)
{
    bool had_failed = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !had_failed)
        return status;
    if (!ipb_cli_has_reader(STDOUT_FILENO))
        return IPB_EXIT_NO_READER;
    fprintf(stderr, "ipybox: cannot write to standard output: %s\n",
            had_failed ? "not all of it was taken" : strerror(errno));
    return status == IPB_EXIT_OK ? IPB_EXIT_FAILED : status;
}

static void
on_failing_write(int number)
{
}

/* A write without a reader, or beyond the limit of file sizes (ulimit -f), must not end a verb. The
 * write fails, and its error is reported. This is a handler and not SIG_IGN, so that programs we
 * start get the default back. */
static void
survive_failing_writes(void)
{
    struct sigaction action = {.sa_handler = on_failing_write, .sa_flags = SA_RESTART};
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

int
main(int argc, char **argv)
{
    if (!open_standard_streams()) {
        fputs("ipybox: a standard stream is closed, and /dev/null cannot be opened for it\n",
              stderr);
        return IPB_EXIT_FAILED;
    }
    ipb_fd_limit_raise();
    set_locale();
    survive_failing_writes();
    return flush_output(run_words(argc, argv));
}
