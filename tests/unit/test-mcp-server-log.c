/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/server-log.h"

#include <string.h>

static void
test_clean(void)
{
    static const struct {
        const char *text, *clean;
    } CASES[] = {
        {"plain\ttext\nmore", "plain\ttext\nmore"},
        {"\033[1;32mINFO\033[0m ok", "INFO ok"},
        {"\033]0;title\a\033]8;;http://x\033\\link", "link"},
        {"\033[2J\033c\033", ""},
        {"a\033[", "a"},
        {"a\033]", "a"},
        {"\033[31\303\251", "é"},
        {"a\bb\x7f\302\233c", "a\357\277\275b\357\277\275\357\277\275c"},
        {"user\342\200\256gpj.exe", "user\357\277\275gpj.exe"},
        {"\xff\xc3", "\357\277\275\357\277\275"},
        {"line\r\n", "line\n"},
        {"line\r", "line"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *clean = ipb_server_log_clean(CASES[i].text, strlen(CASES[i].text), 100);
        g_assert_cmpstr(clean, ==, CASES[i].clean);
    }
    g_autofree char *nul = ipb_server_log_clean("a\0b", 3, 100);
    g_assert_cmpstr(nul, ==, "a\357\277\275b");
    g_autofree char *cut = ipb_server_log_clean("0123456789", 10, 5);
    g_assert_cmpstr(cut, ==, "01234…");
    g_autofree char *fits = ipb_server_log_clean("01234", 5, 5);
    g_assert_cmpstr(fits, ==, "01234");
}

static void
on_line(const char *level, const char *text, void *data)
{
    g_string_append_printf(data, "%s: %s\n", level, text);
}

static void
test_lines(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    g_autoptr(GString) told = g_string_new(NULL);
    g_autoptr(IpbServerLog) log = ipb_server_log_new(loop, on_line, told);
    g_assert_null(ipb_server_log_last_lines(log));
    const char *text = "one\n\ntwo\nthr";
    for (const char *c = text; *c != '\0'; c++)
        ipb_server_log_add_stderr(log, c, 1, false);
    g_assert_cmpstr(told->str, ==, "stderr: one\nstderr: two\n");
    ipb_server_log_add_stderr(log, "ee", 2, true);
    g_assert_cmpstr(told->str, ==, "stderr: one\nstderr: two\nstderr: three\n");
    g_autofree char *last = ipb_server_log_last_lines(log);
    g_assert_cmpstr(last, ==, "    one\n    \n    two\n    three");

    g_string_truncate(told, 0);
    g_autofree char *block = g_strnfill(10000, 'x');
    for (int i = 0; i < 100; i++)
        ipb_server_log_add_stderr(log, block, 10000, false);
    ipb_server_log_add_stderr(log, "\nend\n", 5, false);
    g_assert_cmpuint(told->len, ==, strlen("stderr: …\nstderr: end\n") + 4096);
    g_autofree char *end = ipb_server_log_last_lines(log);
    g_assert_true(g_str_has_suffix(end, "x…\n    end"));
    g_assert_cmpuint(strlen(end), <, 500);

    ipb_server_log_mute(log);
    ipb_server_log_write(log, "info", "x", 1);
    g_assert_null(strstr(told->str, "info"));
}

/* The last 20 lines, wherever the ring buffer begins. */
static void
test_last_lines(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    g_autoptr(IpbServerLog) log = ipb_server_log_new(loop, NULL, NULL);
    for (int i = 0; i < 20000; i++) {
        g_autofree char *line = g_strdup_printf("%d\n", i);
        ipb_server_log_add_stderr(log, line, strlen(line), false);
        if (i % 997 != 0 || i < 20)
            continue;
        g_autofree char *last = ipb_server_log_last_lines(log);
        g_auto(GStrv) lines = g_strsplit(last, "\n", -1);
        g_assert_cmpuint(g_strv_length(lines), ==, 20);
        for (int k = 0; k < 20; k++)
            g_assert_cmpint(g_ascii_strtoll(lines[k], NULL, 10), ==, i - 19 + k);
    }
}

static void
test_gate(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    g_autoptr(GString) told = g_string_new(NULL);
    g_autoptr(IpbServerLog) log = ipb_server_log_new(loop, on_line, told);
    for (int i = 0; i < 5000; i++)
        ipb_server_log_write(log, "info", "x", 1);
    size_t size = told->len;
    /* 100, or 200 if a second has passed in the test. */
    g_assert_cmpuint(size, >=, 100 * strlen("info: x\n"));
    g_assert_cmpuint(size, <=, 1000 * strlen("info: x\n"));
    while (strstr(told->str, "warning: ") == NULL)
        g_main_context_iteration(NULL, TRUE);
    g_assert_true(g_str_has_suffix(told->str, " lines were left out: too many at once\n"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/mcp/server-log/clean", test_clean);
    g_test_add_func("/mcp/server-log/lines", test_lines);
    g_test_add_func("/mcp/server-log/last-lines", test_last_lines);
    g_test_add_func("/mcp/server-log/gate", test_gate);
    return g_test_run();
}
