/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/denials.h"

#include <string.h>

/* More denials than are shown, groups than are kept, and paths than are remembered. */
#define MANY 500
#define VERY_MANY 10000

static const IpbNameRule HOOKS = {".git/hooks/**", "git runs it", "all but *.sample", "allowNames"};
static const IpbNameRule CONFIG = {".git/config", "git obeys it", "write", "allowGitConfig"};
static const IpbNameRule OWN = {".ipybox-new-*", "ipybox is writing it", "all", NULL};

typedef struct {
    IpbLoop *loop;
    IpbDenials *denials;
    GPtrArray *texts; /* char * */
    bool is_freed_by_report;
} Fixture;

static void
on_report(const IpbDenialReport *report, void *data)
{
    Fixture *fixture = data;
    g_assert_true(g_str_has_suffix(report->text, report->reason));
    g_assert_null(strchr(report->text, '\n'));
    g_assert_true(g_utf8_validate(report->text, -1, NULL));
    g_ptr_array_add(fixture->texts, g_strdup(report->text));
    if (fixture->is_freed_by_report)
        g_clear_pointer(&fixture->denials, ipb_denials_free);
}

static void
set_up(Fixture *fixture, const void *unused)
{
    fixture->loop = ipb_loop_new(NULL, NULL);
    fixture->texts = g_ptr_array_new_with_free_func(g_free);
    fixture->denials = ipb_denials_new(fixture->loop, "/ws", on_report, fixture);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    ipb_denials_free(fixture->denials);
    g_ptr_array_unref(fixture->texts);
    ipb_loop_unref(fixture->loop);
}

static const char *
text_at(const Fixture *fixture, guint i)
{
    g_assert_cmpuint(i, <, fixture->texts->len);
    return g_ptr_array_index(fixture->texts, i);
}

static IpbSandboxDenial
make_denial(const IpbNameRule *rule, IpbNameAction action, const char *path, const char *process)
{
    IpbSandboxDenial denial = {
        .kind = IPB_DENIED_NAME,
        .path = path,
        .action = action,
        .rule = rule,
        .pid = 17,
    };
    g_strlcpy(denial.process, process, sizeof denial.process);
    return denial;
}

static void
add(Fixture *fixture, const IpbNameRule *rule, IpbNameAction action, const char *path)
{
    IpbSandboxDenial denial = make_denial(rule, action, path, "git");
    ipb_denials_add(fixture->denials, &denial);
}

static void
assert_text(const IpbSandboxDenial *denial, const char *expected)
{
    g_autofree char *text = ipb_denial_to_text(denial, "/ws");
    g_assert_cmpstr(text, ==, expected);
}

static void
test_text(void)
{
    IpbSandboxDenial denial =
        make_denial(&HOOKS, IPB_NAME_CREATE, "/ws/.git/hooks/pre-commit", "git");
    assert_text(&denial, "git (process 17) may not create .git/hooks/pre-commit: git runs it "
                         "(rule \".git/hooks/**\"); filesystem.allowNames can allow it");
    denial = make_denial(&CONFIG, IPB_NAME_PUT, "/ws/a/.git/config", "git");
    g_strlcpy(denial.reason, "core.fsmonitor runs a program", sizeof denial.reason);
    assert_text(&denial, "git (process 17) may not create or replace a/.git/config: git obeys it "
                         "(rule \".git/config\"): core.fsmonitor runs a program; "
                         "filesystem.allowGitConfig can allow it");
    denial = make_denial(&OWN, IPB_NAME_WRITE, "/elsewhere/.ipybox-new-1", "");
    assert_text(&denial, "process 17 may not write /elsewhere/.ipybox-new-1: ipybox is writing it "
                         "(rule \".ipybox-new-*\")");
    denial.pid = 0;
    denial.action = IPB_NAME_REMOVE;
    assert_text(&denial, "code inside may not remove or rename /elsewhere/.ipybox-new-1: ipybox is "
                         "writing it (rule \".ipybox-new-*\")");
}

/* The plan's paths decided. */
static void
test_text_without_a_rule(void)
{
    IpbSandboxDenial denial = make_denial(NULL, IPB_NAME_READ, "/ws/.env", "cat");
    g_strlcpy(denial.reason, "filesystem.denyRead: .env", sizeof denial.reason);
    assert_text(&denial, "cat (process 17) may not read .env: the sandbox hides it "
                         "(filesystem.denyRead: .env); filesystem.allowRead can allow it");
    denial = make_denial(NULL, IPB_NAME_CREATE, "/ws", "sh");
    assert_text(&denial, "sh (process 17) may not create /ws: the sandbox does not write there; "
                         "filesystem.allowWrite can allow it");
}

/* A hostile name cannot end its line, look like the words around it, or fill the notice. */
static void
test_hostile_texts(void)
{
    IpbSandboxDenial denial = make_denial(&HOOKS, IPB_NAME_CREATE, "/ws/a\n[ipybox] fine", "a b\n");
    assert_text(&denial, "\"a b\\n\" (process 17) may not create \"a\\n[ipybox] fine\": git runs "
                         "it (rule \".git/hooks/**\"); filesystem.allowNames can allow it");
    denial = make_denial(&HOOKS, IPB_NAME_CREATE, "/ws/\xff\xe2\x80\xae.txt", "g\xc3");
    g_strlcpy(denial.reason, "it says \"\x1b[2J\n\xff\"", sizeof denial.reason);
    assert_text(&denial, "\"g\\ufffd\" (process 17) may not create \"\\ufffd\\u202e.txt\": git "
                         "runs it (rule \".git/hooks/**\"): it says \"␛[2J \uFFFD\"; "
                         "filesystem.allowNames can allow it");
    g_autofree char *filler = g_strnfill(5000, 'x');
    g_autofree char *path = g_strconcat("/ws/ü", filler, "/.git/hooks/z", NULL);
    denial = make_denial(&HOOKS, IPB_NAME_CREATE, path, "git");
    g_autofree char *text = ipb_denial_to_text(&denial, "/ws");
    g_assert_cmpuint(strlen(text), <, 400);
    g_assert_nonnull(strstr(text, "may not create …xxx"));
    g_assert_nonnull(strstr(text, "x/.git/hooks/z: git runs it"));
}

static void
test_a_path_cut_within_a_letter(void)
{
    for (int shift = 0; shift < 4; shift++) {
        g_autoptr(GString) path = g_string_new("/ws/");
        for (int i = 0; i < shift; i++)
            g_string_append_c(path, 'a');
        for (int i = 0; i < 200; i++)
            g_string_append(path, "語");
        const IpbSandboxDenial denial = make_denial(&HOOKS, IPB_NAME_CREATE, path->str, "git");
        g_autofree char *text = ipb_denial_to_text(&denial, "/ws");
        g_assert_nonnull(strstr(text, "may not create …語"));
        g_assert_null(strstr(text, "fffd"));
    }
}

static void
test_one_report_for_a_rule(Fixture *fixture, const void *unused)
{
    for (int i = 0; i < MANY; i++) {
        g_autofree char *path = g_strdup_printf("/ws/.git/hooks/%d", i);
        add(fixture, &HOOKS, IPB_NAME_CREATE, path);
    }
    add(fixture, &CONFIG, IPB_NAME_WRITE, "/ws/.git/config");
    add(fixture, &CONFIG, IPB_NAME_WRITE, "/ws/x/.git/config");
    g_assert_cmpuint(fixture->texts->len, ==, 0);
    ipb_denials_flush(fixture->denials);
    g_assert_cmpuint(fixture->texts->len, ==, 2);
    g_assert_cmpstr(text_at(fixture, 0), ==,
                    "git (process 17) may not create .git/hooks/0, .git/hooks/1, .git/hooks/2 and "
                    "497 more: git runs it (rule \".git/hooks/**\"); filesystem.allowNames can "
                    "allow it");
    g_assert_true(g_str_has_prefix(text_at(fixture, 1),
                                   "git (process 17) may not write .git/config and "
                                   "x/.git/config: git obeys it"));
}

/* Reading and changing are different; so are different reasons. */
static void
test_what_belongs_together(Fixture *fixture, const void *unused)
{
    add(fixture, &CONFIG, IPB_NAME_READ, "/ws/.git/config");
    add(fixture, &CONFIG, IPB_NAME_CREATE, "/ws/.git/config");
    add(fixture, &CONFIG, IPB_NAME_PUT, "/ws/b/.git/config");
    const IpbSandboxDenial socket = {.kind = IPB_DENIED_SOCKET, .path = "s", .rule = &CONFIG};
    ipb_denials_add(fixture->denials, &socket);
    IpbSandboxDenial denial = make_denial(&CONFIG, IPB_NAME_PUT, "/ws/c/.git/config", "git");
    g_strlcpy(denial.reason, "it is too large", sizeof denial.reason);
    ipb_denials_add(fixture->denials, &denial);
    ipb_denials_flush(fixture->denials);
    g_assert_cmpuint(fixture->texts->len, ==, 4);
    g_assert_nonnull(strstr(text_at(fixture, 1), "may not create .git/config and b/.git/config:"));
    g_assert_nonnull(strstr(text_at(fixture, 2), "may not connect to the socket s:"));
}

static void
test_several_processes(Fixture *fixture, const void *unused)
{
    add(fixture, &HOOKS, IPB_NAME_CREATE, "/ws/.git/hooks/a");
    IpbSandboxDenial denial = make_denial(&HOOKS, IPB_NAME_CREATE, "/ws/.git/hooks/b", "cp");
    denial.pid = 18;
    ipb_denials_add(fixture->denials, &denial);
    ipb_denials_flush(fixture->denials);
    g_assert_true(g_str_has_prefix(text_at(fixture, 0),
                                   "git (process 17) and others may not create "
                                   ".git/hooks/a and .git/hooks/b: "));
}

static void
test_each_path_once(Fixture *fixture, const void *unused)
{
    for (int i = 0; i < MANY; i++)
        add(fixture, &HOOKS, IPB_NAME_CREATE, "/ws/.git/hooks/a");
    while (fixture->texts->len < 1)
        g_main_context_iteration(ipb_loop_context(fixture->loop), TRUE);
    g_assert_nonnull(strstr(text_at(fixture, 0), "may not create .git/hooks/a: "));
    add(fixture, &HOOKS, IPB_NAME_CREATE, "/ws/.git/hooks/a");
    g_assert_true(ipb_denials_has_name(fixture->denials, "/elsewhere/a"));
    g_assert_false(ipb_denials_has_name(fixture->denials, "/ws/.git/hooks/b"));
    ipb_denials_flush(fixture->denials);
    g_assert_cmpuint(fixture->texts->len, ==, 1);
    g_assert_false(ipb_denials_has_name(fixture->denials, "/elsewhere/a"));
    add(fixture, &HOOKS, IPB_NAME_CREATE, "/ws/.git/hooks/a");
    ipb_denials_flush(fixture->denials);
    g_assert_cmpuint(fixture->texts->len, ==, 2);
    ipb_denials_flush(fixture->denials);
    g_assert_cmpuint(fixture->texts->len, ==, 2);
}

/* Reasons that quote hostile texts are all different. */
static void
test_flood(Fixture *fixture, const void *unused)
{
    for (int i = 0; i < VERY_MANY; i++) {
        g_autofree char *path = g_strdup_printf("/ws/%d", i);
        IpbSandboxDenial denial = make_denial(&CONFIG, IPB_NAME_PUT, path, "git");
        g_snprintf(denial.reason, sizeof denial.reason, "key %d", i);
        ipb_denials_add(fixture->denials, &denial);
    }
    ipb_denials_flush(fixture->denials);
    guint n = fixture->texts->len;
    g_assert_cmpuint(n, >, 1);
    g_assert_cmpuint(n, <, 100);
    g_autofree char *rest = g_strdup_printf("%u more calls", VERY_MANY + 1 - n);
    g_assert_true(g_str_has_prefix(text_at(fixture, n - 1), rest));
}

/* Reports come from the loop one by one, and the first one may free the object. */
static void
test_freed_by_a_report(Fixture *fixture, const void *unused)
{
    add(fixture, &HOOKS, IPB_NAME_CREATE, "/ws/.git/hooks/a");
    add(fixture, &CONFIG, IPB_NAME_CREATE, "/ws/.git/config");
    fixture->is_freed_by_report = true;
    while (fixture->denials != NULL)
        g_main_context_iteration(ipb_loop_context(fixture->loop), TRUE);
    g_assert_cmpuint(fixture->texts->len, ==, 1);
}

static void
test_reported_from_the_loop(Fixture *fixture, const void *unused)
{
    add(fixture, &HOOKS, IPB_NAME_CREATE, "/ws/.git/hooks/a");
    add(fixture, &CONFIG, IPB_NAME_CREATE, "/ws/.git/config");
    while (fixture->texts->len < 2)
        g_main_context_iteration(ipb_loop_context(fixture->loop), TRUE);
    add(fixture, &CONFIG, IPB_NAME_CREATE, "/ws/new/.git/config");
    while (fixture->texts->len < 3)
        g_main_context_iteration(ipb_loop_context(fixture->loop), TRUE);
    g_assert_nonnull(strstr(text_at(fixture, 2), "may not create new/.git/config: "));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/denials/text", test_text);
    g_test_add_func("/sandbox/denials/text-without-a-rule", test_text_without_a_rule);
    g_test_add_func("/sandbox/denials/hostile-texts", test_hostile_texts);
    g_test_add_func("/sandbox/denials/cut-within-a-letter", test_a_path_cut_within_a_letter);
#define ADD(name, function)                                                                        \
    g_test_add("/sandbox/denials/" name, Fixture, NULL, set_up, function, tear_down)
    ADD("one-report-for-a-rule", test_one_report_for_a_rule);
    ADD("what-belongs-together", test_what_belongs_together);
    ADD("several-processes", test_several_processes);
    ADD("each-path-once", test_each_path_once);
    ADD("flood", test_flood);
    ADD("freed-by-a-report", test_freed_by_a_report);
    ADD("reported-from-the-loop", test_reported_from_the_loop);
    return g_test_run();
}
