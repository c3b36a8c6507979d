/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/violations.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "base/file.h"
#include "egress/violations.h"

/* More different denials than are reported in a second. */
#define FLOOD 100

typedef struct {
    IpbLoop *loop;
    IpbViolations *violations;
    GPtrArray *told;
} Fixture;

static void
on_violation(const IpbViolation *violation, void *data)
{
    Fixture *fixture = data;
    g_ptr_array_add(fixture->told, ipb_violation_to_text(violation));
}

static void
set_up(Fixture *fixture, const void *unused)
{
    fixture->loop = ipb_loop_new(NULL, NULL);
    fixture->violations = ipb_violations_new(fixture->loop, on_violation, fixture);
    fixture->told = g_ptr_array_new_with_free_func(g_free);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    ipb_violations_free(fixture->violations);
    g_ptr_array_unref(fixture->told);
    ipb_loop_unref(fixture->loop);
}

static const char *
told(const Fixture *fixture, guint i)
{
    g_assert_cmpuint(i, <, fixture->told->len);
    return g_ptr_array_index(fixture->told, i);
}

static void
test_reported_from_the_loop(Fixture *fixture, const void *unused)
{
    ipb_violations_report(fixture->violations, "dns", "a.example", "why");
    ipb_violations_report(fixture->violations, "dns", "b.example", "why");
    ipb_violations_report(fixture->violations, "dns", "a.example", "why");
    g_assert_cmpuint(fixture->told->len, ==, 0);
    while (fixture->told->len < 2)
        g_main_context_iteration(ipb_loop_context(fixture->loop), TRUE);
    g_assert_cmpstr(told(fixture, 0), ==, "operation not permitted: dns a.example: why");
    g_assert_cmpstr(told(fixture, 1), ==, "operation not permitted: dns b.example: why");
    ipb_violations_flush(fixture->violations);
    g_assert_cmpuint(fixture->told->len, ==, 2);
}

static void
test_flush(Fixture *fixture, const void *unused)
{
    for (int i = 0; i < FLOOD; i++) {
        g_autofree char *target = g_strdup_printf("n%d.example:443", i);
        ipb_violations_report(fixture->violations, "network-outbound", target, "why");
    }
    ipb_violations_flush(fixture->violations);
    guint n = fixture->told->len;
    g_assert_cmpuint(n, >, 1);
    g_assert_cmpuint(n, <, FLOOD);
    g_autofree char *rest = g_strdup_printf("%u more denials", FLOOD + 1 - n);
    g_assert_nonnull(strstr(told(fixture, n - 1), rest));
}

static void
test_printable(Fixture *fixture, const void *unused)
{
    g_autofree char *longest = g_strnfill(100000, 'x');
    ipb_violations_report(fixture->violations, "dns", "/tmp/\033[31m\n\xff", longest);
    ipb_violations_flush(fixture->violations);
    g_assert_true(g_utf8_validate(told(fixture, 0), -1, NULL));
    g_assert_null(strpbrk(told(fixture, 0), "\033\n"));
    g_assert_cmpuint(strlen(told(fixture, 0)), <, 2000);
}

static void
test_text_and_process(void)
{
    const IpbViolation violation = {"file-create", "a", "why", "git (process 17)", "git may not"};
    g_autofree char *text = ipb_violation_to_text(&violation);
    g_assert_cmpstr(text, ==, "operation not permitted: git may not");
    g_autofree char *directory = ipb_file_make_temp_directory(NULL, "ipb-", NULL);
    g_autofree char *path = g_build_filename(directory, "log", NULL);
    g_autofree char *line = NULL;
    g_autoptr(IpbViolationLog) log = ipb_violation_log_open(path, NULL);
    g_assert_true(ipb_violation_log_write(log, &violation, NULL));
    g_assert_true(g_file_get_contents(path, &line, NULL, NULL));
    g_assert_true(g_str_has_suffix(line, "\"what\":\"file-create\",\"target\":\"a\","
                                         "\"reason\":\"why\","
                                         "\"process\":\"git (process 17)\"}\n"));
    ipb_file_remove_tree(directory, NULL);
}

static void
test_log(void)
{
    const IpbViolation violation = {"dns", "a.example", "\"why\""};
    g_autofree char *directory = ipb_file_make_temp_directory(NULL, "ipb-", NULL);
    g_autofree char *path = g_build_filename(directory, "log", NULL);
    g_autofree char *text = NULL;
    size_t size;
    GStatBuf status;
    g_autoptr(GError) error = NULL;
    for (int i = 0; i < 2; i++) {
        g_autoptr(IpbViolationLog) log = ipb_violation_log_open(path, &error);
        g_assert_no_error(error);
        g_assert_true(ipb_violation_log_write(log, &violation, &error));
    }
    g_assert_true(ipb_file_read(path, 4096, &text, &size, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 3);
    g_assert_true(g_str_has_suffix(
        lines[1], "\"what\":\"dns\",\"target\":\"a.example\",\"reason\":\"\\\"why\\\"\"}"));
    g_assert_cmpint(g_stat(path, &status), ==, 0);
    g_assert_cmpint(status.st_mode & 0777, ==, 0600);
    g_assert_null(ipb_violation_log_open(directory, NULL));
    g_assert_null(ipb_violation_log_open("/dev/null", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    ipb_file_remove_tree(directory, NULL);
}

/* If a full disk truncates a line, the next line is complete. */
static void
test_full_log(void)
{
    const IpbViolation violation = {"dns", "a.example", "why"};
    g_autofree char *directory = ipb_file_make_temp_directory(NULL, "ipb-", NULL);
    g_autofree char *path = g_build_filename(directory, "log", NULL);
    g_autofree char *text = NULL;
    size_t size;
    struct rlimit before;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbViolationLog) log = ipb_violation_log_open(path, &error);
    signal(SIGXFSZ, SIG_DFL);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &(struct rlimit){20, before.rlim_max}), ==, 0);
    for (int i = 0; i < 2; i++) {
        g_clear_error(&error);
        g_assert_false(ipb_violation_log_write(log, &violation, &error));
        g_assert_nonnull(strstr(error->message, path));
        g_assert_nonnull(strstr(error->message, "ulimit -f"));
    }
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
    g_assert_true(ipb_violation_log_write(log, &violation, NULL));
    g_assert_true(ipb_file_read(path, 4096, &text, &size, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 3);
    g_assert_cmpuint(strlen(lines[0]), ==, 20);
    g_assert_true(g_str_has_prefix(lines[1], "{\"time\"") && g_str_has_suffix(lines[1], "}"));
    ipb_file_remove_tree(directory, NULL);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/egress/violations/loop", Fixture, NULL, set_up, test_reported_from_the_loop,
               tear_down);
    g_test_add("/egress/violations/flush", Fixture, NULL, set_up, test_flush, tear_down);
    g_test_add("/egress/violations/printable", Fixture, NULL, set_up, test_printable, tear_down);
    g_test_add_func("/egress/violations/text-and-process", test_text_and_process);
    g_test_add_func("/egress/violations/log", test_log);
    g_test_add_func("/egress/violations/full-log", test_full_log);
    return g_test_run();
}
