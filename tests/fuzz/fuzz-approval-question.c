/* SPDX-License-Identifier: Apache-2.0
 *
 * The question about a call with any arguments and any names of server and tool. No line looks like
 * another one, no character is invisible, and the question shows the whole call.
 */
#include <stdint.h>
#include <string.h>

#include "base/display-text.h"
#include "tools/approval-question.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_characters(const char *text)
{
    g_assert_true(g_utf8_validate(text, -1, NULL));
    for (const char *p = text; *p != '\0'; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        g_assert_true(c == '\n' || c == ' ' || g_unichar_isgraph(c) || g_unichar_ismark(c));
        g_assert_true(c < 0xe0000 || c > 0xe0fff);
        g_assert_false(c >= 0x2028 && c <= 0x202f);
        g_assert_false(c >= 0x0590 && c <= 0x08ff);
    }
}

/* The object whose members @lines are, with two spaces before each. Caller frees. */
static char *
join_members(const char *lines)
{
    g_autoptr(GString) out = g_string_new("{");
    g_auto(GStrv) parts = g_strsplit(lines, "\n", -1);
    for (size_t i = 0; parts[i] != NULL; i++) {
        g_assert_true(g_str_has_prefix(parts[i], "  \""));
        g_string_append_printf(out, "%s%s", i > 0 ? "," : "", parts[i]);
    }
    g_string_append_c(out, '}');
    return g_string_free(g_steal_pointer(&out), FALSE);
}

static char *
make_question(const char *name, const char *arguments, size_t size)
{
    IpbApprovalRequest request = {
        .server_name = name,
        .tool_name = name,
        .arguments_json = arguments,
        .arguments_size = size,
    };
    return ipb_approval_question(&request, NULL);
}

/* The question shows the whole call: if it is read back, it gives the same question. */
static void
check_arguments(const char *question, const char *name)
{
    const char *at = strstr(question, "\nArguments:");
    g_assert_nonnull(at);
    at += strlen("\nArguments:");
    if (g_str_equal(at, " none"))
        return;
    g_assert_true(*at == '\n');
    g_autofree char *json = join_members(at + 1);
    g_autofree char *again = make_question(name, json, strlen(json));
    g_assert_cmpstr(again, ==, question);
}

static void
check_rows(const char *question)
{
    g_autoptr(GPtrArray) rows = ipb_display_text_rows(question, 20);
    for (guint i = 0; i < rows->len; i++) {
        const char *row = g_ptr_array_index(rows, i);
        g_assert_true(g_str_has_prefix(row, "Tool call: ") || g_str_has_prefix(row, "Arguments:") ||
                      g_str_has_prefix(row, "  \"") ||
                      g_str_has_prefix(row, IPB_DISPLAY_TEXT_CONTINUED));
        g_assert_true(g_utf8_strlen(row, -1) <= 20);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *) data;
    g_autofree char *name = g_strndup(text, MIN(size, 100));
    g_autofree char *question = make_question(name, text, size);
    if (question == NULL)
        return 0;
    check_characters(question);
    check_arguments(question, name);
    check_rows(question);
    return 0;
}
