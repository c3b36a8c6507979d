/* SPDX-License-Identifier: Apache-2.0 */
#include "session/sandboxing.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* A session's sandboxing without a kernel: the test calls what the kernel calls. */
typedef struct {
    IpbLoop *loop;
    char *directory, *workspace;
    IpbSandboxing *sandboxing;
    IpbKernelSandboxFuncs funcs;
    void *reach;                   /* of the sandbox, which has no listeners */
    GPtrArray *notices, *warnings; /* char * */
} Fixture;

static void
on_log(const char *level, const char *text, void *data)
{
    Fixture *fixture = data;
    g_assert_cmpstr(level, ==, "warning");
    g_ptr_array_add(fixture->warnings, g_strdup(text));
}

static void
on_violation(const char *text, void *data)
{
    Fixture *fixture = data;
    g_ptr_array_add(fixture->notices, g_strdup(text));
}

static void
write_file(const Fixture *fixture, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(fixture->workspace, name, NULL);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void
set_up(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *made = g_dir_make_tmp("ipybox-test-XXXXXX", NULL);
    char *real = realpath(made, NULL);
    fixture->directory = g_strdup(real);
    free(real);
    fixture->workspace = g_build_filename(fixture->directory, "ws", NULL);
    g_autofree char *state = g_build_filename(fixture->directory, "state", NULL);
    g_assert_cmpint(g_mkdir(fixture->workspace, 0755), ==, 0);
    write_file(fixture, "secret", "mine");
    write_file(fixture, "box.json",
               "{\"network\": {\"allowedDomains\": [], \"deniedDomains\": []}, \"filesystem\": "
               "{\"denyRead\": [\"secret\"], \"allowWrite\": [\".\"], \"denyWrite\": [], "
               "\"allowNames\": [\".husky/**\"]}}");
    g_autofree char *config = g_build_filename(fixture->workspace, "box.json", NULL);
    fixture->loop = ipb_loop_new(NULL, NULL);
    fixture->notices = g_ptr_array_new_with_free_func(g_free);
    fixture->warnings = g_ptr_array_new_with_free_func(g_free);
    const char *const nothing[] = {NULL};
    fixture->sandboxing = ipb_sandboxing_new(fixture->loop,
                                             &(IpbSandboxingOptions){
                                                 .config = config,
                                                 .workspace = fixture->workspace,
                                                 .python = "/usr/bin/python3",
                                                 .host_directory = fixture->directory,
                                                 .state_dir = state,
                                                 .keep_out = nothing,
                                                 .on_log = on_log,
                                                 .on_violation = on_violation,
                                                 .data = fixture,
                                             },
                                             &error);
    g_assert_no_error(error);
    fixture->funcs = ipb_sandboxing_of_kernel(fixture->sandboxing);
    g_autoptr(IpbSandboxPlan) plan = fixture->funcs.make_plan(fixture->funcs.data, &error);
    g_assert_no_error(error);
    const int no_listeners[] = {-1, -1, -1, -1, -1, -1, -1, -1};
    g_assert_cmpuint(plan->listeners->len, <=, G_N_ELEMENTS(no_listeners));
    fixture->reach = fixture->funcs.take_listeners(no_listeners, 0, fixture->funcs.data);
    g_ptr_array_set_size(fixture->warnings, 0);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    ipb_sandboxing_free(fixture->sandboxing);
    fixture->funcs.free_reach(fixture->reach); /* it may live longer */
    g_ptr_array_unref(fixture->notices);
    g_ptr_array_unref(fixture->warnings);
    ipb_loop_unref(fixture->loop);
    g_assert_true(ipb_file_remove_tree(fixture->directory, NULL));
    g_free(fixture->workspace);
    g_free(fixture->directory);
}

static const IpbNameRule RULE = {".mcp.json", "agents run what it names", "all", "allowNames"};

static void
deny(Fixture *fixture, const char *name)
{
    g_autofree char *path = g_build_filename(fixture->workspace, name, NULL);
    const IpbSandboxDenial denial = {
        .kind = IPB_DENIED_NAME,
        .path = path,
        .action = IPB_NAME_CREATE,
        .rule = &RULE,
        .pid = 2,
        .process = "python3",
    };
    fixture->funcs.on_denied(&denial, fixture->reach);
}

static char *
explain(const Fixture *fixture, const char *evalue)
{
    return ipb_sandboxing_explain_error(fixture->sandboxing, "PermissionError", evalue);
}

static void
test_a_name_is_reported(Fixture *fixture, const void *unused)
{
    deny(fixture, ".mcp.json");
    deny(fixture, ".mcp.json");
    deny(fixture, "sub/.mcp.json");
    g_assert_cmpuint(fixture->notices->len, ==, 0);
    ipb_sandboxing_report_denials(fixture->sandboxing);
    g_assert_cmpuint(fixture->notices->len, ==, 1);
    g_assert_cmpstr(g_ptr_array_index(fixture->notices, 0), ==,
                    "operation not permitted: python3 (process 2) may not create .mcp.json and "
                    "sub/.mcp.json: agents run what it names (rule \".mcp.json\"); "
                    "filesystem.allowNames can allow it");
    ipb_sandboxing_report_denials(fixture->sandboxing);
    g_assert_cmpuint(fixture->notices->len, ==, 1);
}

/* The notice of the denial says more than the error; both would say it twice. */
static void
test_an_error_that_is_reported_already(Fixture *fixture, const void *unused)
{
    const char *hidden = "[Errno 13] Permission denied: 'secret'";
    g_autofree char *before = explain(fixture, hidden);
    g_assert_nonnull(strstr(before, "the sandbox hides"));
    g_assert_nonnull(strstr(before, "filesystem.denyRead: secret"));
    deny(fixture, "secret");
    g_assert_null(explain(fixture, hidden));
    g_assert_null(explain(fixture, "[Errno 13] Permission denied: 'other' -> 'secret'"));
    ipb_sandboxing_report_denials(fixture->sandboxing);
    g_autofree char *after = explain(fixture, hidden);
    g_assert_cmpstr(after, ==, before);
}

/* Its denial was lost, or another call of the same name failed before. */
static void
test_an_error_of_a_rule_for_names(Fixture *fixture, const void *unused)
{
    g_autofree char *created = explain(fixture, "[Errno 13] Permission denied: '.mcp.json'");
    g_assert_true(g_str_has_prefix(created, "operation not permitted: code inside may not create "
                                            ".mcp.json: MCP hosts start the servers"));
    g_assert_true(
        g_str_has_suffix(created, "(rule \".mcp.json\"); filesystem.allowNames can allow it"));
    g_autofree char *renamed = explain(fixture, "[Errno 13] Permission denied: 'a' -> '.bashrc'");
    g_assert_nonnull(strstr(renamed, "may not create .bashrc: bash runs it"));
    write_file(fixture, ".bashrc", "mine");
    g_autofree char *changed = explain(fixture, "[Errno 13] Permission denied: '.bashrc'");
    g_assert_nonnull(strstr(changed, "may not write .bashrc: bash runs it"));
    g_assert_null(explain(fixture, "[Errno 2] No such file or directory: '.mcp.json'"));
}

/* Libraries have their own classes, with the words of the C library. */
static void
test_an_error_without_a_network(Fixture *fixture, const void *unused)
{
    static const char *const VALUES[] = {
        "[Errno -3] Temporary failure in name resolution",
        "<urlopen error [Errno -3] Temporary failure in name resolution>",
        "[Errno 101] Network is unreachable",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(VALUES); i++) {
        g_autofree char *text =
            ipb_sandboxing_explain_error(fixture->sandboxing, "URLError", VALUES[i]);
        g_assert_cmpstr(text, ==,
                        "operation not permitted: the sandbox has no network; "
                        "network.allowedDomains can allow domains");
    }
    g_assert_null(
        ipb_sandboxing_explain_error(fixture->sandboxing, "URLError", "[Errno 111] refused"));
}

static void
test_an_error_that_is_not_ours(Fixture *fixture, const void *unused)
{
    g_assert_null(explain(fixture, "[Errno 13] Permission denied: 'plain'"));
    g_assert_null(explain(fixture, "[Errno 13] Permission denied"));
    g_assert_null(explain(fixture, "[Errno 13] Permission denied: 'plain' -> 'sub/plain'"));
    g_assert_null(explain(fixture, "[Errno 2] No such file or directory: 'plain'"));
}

static void
test_a_socket(Fixture *fixture, const void *unused)
{
    const IpbSandboxDenial denial = {.kind = IPB_DENIED_SOCKET, .path = "/run/a\n[ipybox] fine"};
    fixture->funcs.on_denied(&denial, fixture->reach);
    ipb_sandboxing_report_denials(fixture->sandboxing);
    g_assert_cmpuint(fixture->notices->len, ==, 1);
    g_assert_cmpstr(g_ptr_array_index(fixture->notices, 0), ==,
                    "operation not permitted: code inside may not connect to the socket "
                    "\"/run/a\\n[ipybox] fine\": sockets of the host cannot be reached; "
                    "network.allowUnixSockets can allow it");
}

/* The notice of an installation names the key, so the key must have an effect there. */
static void
test_names_that_packages_may_have(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    const char *const nothing[] = {NULL};
    g_autofree char *packages = g_build_filename(fixture->workspace, "packages", NULL);
    g_assert_cmpint(g_mkdir(packages, 0755), ==, 0);
    g_autoptr(IpbSandboxPlan) plan =
        ipb_sandboxing_make_install_plan(fixture->sandboxing, packages, nothing, nothing, &error);
    g_assert_no_error(error);
    static const struct {
        const char *name;
        IpbNameVerdict verdict;
    } CASES[] = {{".husky", IPB_NAME_ALLOWED}, {".vscode", IPB_NAME_REFUSED}};
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *path = g_build_filename(packages, CASES[i].name, "x", NULL);
        const IpbNameQuestion question = {
            .action = IPB_NAME_CREATE,
            .kind = IPB_NAME_FILE,
            .path = path,
            .root_size = strlen(packages),
        };
        g_assert_cmpint(ipb_name_rules_judge(plan->names, &question).verdict, ==, CASES[i].verdict);
    }
}

/* Each kernel of the session has a new sandbox, and the warning is the same. */
static void
test_a_system_that_cannot_judge_names(Fixture *fixture, const void *unused)
{
    fixture->funcs.on_unnamed("Linux 5.10 cannot judge names", fixture->reach);
    fixture->funcs.on_unnamed("Linux 5.10 cannot judge names", fixture->reach);
    g_assert_cmpuint(fixture->warnings->len, ==, 1);
    g_assert_cmpstr(g_ptr_array_index(fixture->warnings, 0), ==,
                    "sandbox: Linux 5.10 cannot judge names");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
    g_test_add("/session/sandboxing/" name, Fixture, NULL, set_up, function, tear_down)
    ADD("name", test_a_name_is_reported);
    ADD("reported-already", test_an_error_that_is_reported_already);
    ADD("name-rule", test_an_error_of_a_rule_for_names);
    ADD("no-network", test_an_error_without_a_network);
    ADD("not-ours", test_an_error_that_is_not_ours);
    ADD("names-of-packages", test_names_that_packages_may_have);
    ADD("socket", test_a_socket);
    ADD("names-not-judged", test_a_system_that_cannot_judge_names);
    return g_test_run();
}
