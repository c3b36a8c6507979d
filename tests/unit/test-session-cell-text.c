/* SPDX-License-Identifier: Apache-2.0 */
#include "session/cell-text.h"

#include <string.h>

static void
add(IpbCellText *text, IpbEventType type, const char *piece)
{
    ipb_cell_text_add(text, &(IpbEvent){.type = type, .text = piece});
}

static void
add_bundle(IpbCellText *text, const char *bundle, const char *image_path)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(bundle, strlen(bundle), &IPB_JSON_LIMITS_SMALL, NULL);
    ipb_cell_text_add(text, &(IpbEvent){.type = IPB_EVENT_RESULT,
                                        .data = ipb_json_root(doc),
                                        .image_path = image_path});
}

static void
add_late_bundle(IpbCellText *text, const char *bundle)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(bundle, strlen(bundle), &IPB_JSON_LIMITS_SMALL, NULL);
    ipb_cell_text_add(
        text, &(IpbEvent){.type = IPB_EVENT_DISPLAY, .is_late = true, .data = ipb_json_root(doc)});
}

static void
check(const IpbCellText *text, const char *wanted)
{
    g_autofree char *got = ipb_cell_text_get(text);
    g_assert_cmpstr(got, ==, wanted);
}

static void
test_pieces(void)
{
    g_autoptr(IpbCellText) text = ipb_cell_text_new(SIZE_MAX);
    check(text, "");
    add(text, IPB_EVENT_STDOUT, "\n\n  indented");
    check(text, "  indented");
    add_bundle(text, "{\"text/plain\":\"2\",\"text/html\":\"<b>2</b>\"}", NULL);
    add_bundle(text, "{\"text/html\":\"<b>only</b>\"}", NULL);
    add(text, IPB_EVENT_STDERR, "err \n\n");
    check(text, "  indented\n2\nonly\nerr");
    add_bundle(text, "{\"text/plain\":\"<Figure>\"}", "/i/a.png");
    check(text, "  indented\n2\nonly\nerr \n\n<Figure>");
    g_assert_cmpuint(ipb_cell_text_images(text)->len, ==, 1);
    g_assert_false(ipb_cell_text_is_truncated(text));
}

static void
check_added(const IpbCellText *text, const char *wanted)
{
    g_assert_cmpstr(ipb_cell_text_added(text), ==, wanted);
}

/* Pieces are joined without separators, but late output begins on a line of its own. */
static void
test_joined(void)
{
    g_autoptr(IpbCellText) text = ipb_cell_text_new_joined(SIZE_MAX);
    g_assert_false(ipb_cell_text_has_output(text));
    add(text, IPB_EVENT_STDOUT, "");
    g_assert_false(ipb_cell_text_has_output(text));
    check_added(text, NULL);
    add(text, IPB_EVENT_STDOUT, " \n  a");
    check_added(text, " \n  a");
    g_assert_true(ipb_cell_text_has_output(text));
    add_bundle(text, "{\"text/plain\":\"1\"}", NULL);
    check_added(text, "1");
    add_bundle(text, "{\"image/png\":\"1\"}", NULL);
    check_added(text, NULL);
    add_bundle(text, "{\"text/html\":\"<p>2</p>\"}", NULL);
    check_added(text, "2");
    add(text, IPB_EVENT_LATE_OUTPUT, "late\n");
    check_added(text, "\nlate\n");
    check(text, "a12\nlate");
    g_autofree char *raw = ipb_cell_text_get_raw(text);
    g_assert_cmpstr(raw, ==, " \n  a12\nlate\n");
}

/* Lines of their own say where output of cells that have ended begins and ends. */
static void
test_late_marks(void)
{
    static const char BEGIN[] = "[ipybox] written after its cell had ended:\n";
    static const char END[] = "[ipybox] written by this cell:\n";
    g_autoptr(IpbCellText) text = ipb_cell_text_new(SIZE_MAX);
    ipb_cell_text_mark_late(text);
    add(text, IPB_EVENT_STDOUT, "a");
    add(text, IPB_EVENT_LATE_OUTPUT, "");
    check(text, "a");
    add(text, IPB_EVENT_LATE_OUTPUT, "late");
    add(text, IPB_EVENT_LATE_OUTPUT, "more");
    add(text, IPB_EVENT_STDERR, "");
    add_late_bundle(text, "{\"image/png\":\"x\"}");
    add_late_bundle(text, "{\"text/plain\":\"shown\"}");
    add(text, IPB_EVENT_NOTICE, "[ipybox] n");
    g_autofree char *first = g_strconcat("a\n", BEGIN, "late\nmore\nshown", NULL);
    check(text, first);
    add_bundle(text, "{\"text/plain\":\"1\"}", NULL);
    add_late_bundle(text, "{\"text/plain\":\"2\"}");
    add(text, IPB_EVENT_STDOUT, "3");
    g_autofree char *all = g_strconcat(first, "\n", END, "1\n", BEGIN, "2\n", END, "3", NULL);
    check(text, all);
}

/* Notices are kept apart from the text, except for those that ipybox 0.9 puts into it. */
static void
test_notices(void)
{
    g_autoptr(IpbCellText) text = ipb_cell_text_new_joined(SIZE_MAX);
    add(text, IPB_EVENT_NOTICE, "[ipybox] a");
    check_added(text, NULL);
    g_assert_false(ipb_cell_text_has_output(text));
    add(text, IPB_EVENT_STDOUT, "{}");
    ipb_cell_text_add(text, &(IpbEvent){.type = IPB_EVENT_NOTICE,
                                        .text = "[ipybox] cwd reset to /",
                                        .is_in_text = true});
    check_added(text, "\n[ipybox] cwd reset to /\n");
    check(text, "{}\n[ipybox] cwd reset to /");
    const GPtrArray *notices = ipb_cell_text_notices(text);
    g_assert_cmpuint(notices->len, ==, 2);
    g_assert_cmpstr(g_ptr_array_index(notices, 0), ==, "[ipybox] a");
    g_assert_cmpstr(g_ptr_array_index(notices, 1), ==, "[ipybox] cwd reset to /");
    for (int i = 0; i < 1000; i++)
        add(text, IPB_EVENT_NOTICE, "[ipybox] more");
    g_assert_cmpuint(notices->len, ==, 101);
    g_assert_cmpstr(g_ptr_array_index(notices, 100), ==, "[ipybox] further notices are left out");
}

/* Updates of displays, and their images, are ignored. Added text is reported in full, even beyond
 * the limit. */
static void
test_joined_without_updates(void)
{
    g_autoptr(IpbCellText) text = ipb_cell_text_new_joined(1);
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse("{\"text/plain\":\"2\"}", 18, &IPB_JSON_LIMITS_SMALL, NULL);
    ipb_cell_text_add(
        text,
        &(IpbEvent){.type = IPB_EVENT_UPDATE, .data = ipb_json_root(doc), .image_path = "/a.png"});
    g_assert_false(ipb_cell_text_has_output(text));
    g_assert_cmpuint(ipb_cell_text_images(text)->len, ==, 0);
    add(text, IPB_EVENT_STDOUT, "xyz");
    check_added(text, "xyz");
    check(text, "x\n\n[Output cut here: 2 of 3 characters left out]");
    g_assert_true(ipb_cell_text_is_truncated(text));
}

/* The limit counts characters, not bytes. White space at the end does not count. */
static void
test_limit(void)
{
    g_autoptr(IpbCellText) text = ipb_cell_text_new(3);
    add(text, IPB_EVENT_STDOUT, "é");
    add(text, IPB_EVENT_STDOUT, "€😀");
    add(text, IPB_EVENT_STDOUT, "\n  \n");
    g_assert_false(ipb_cell_text_is_truncated(text));
    add(text, IPB_EVENT_STDOUT, "x");
    g_assert_true(ipb_cell_text_is_truncated(text));
    check(text, "é€\n\n[Output cut here: 5 of 8 characters left out]\n\nx");

    g_autoptr(IpbCellText) none = ipb_cell_text_new(0);
    add(none, IPB_EVENT_STDOUT, "x");
    g_assert_true(ipb_cell_text_is_truncated(none));
    check(none, "[Output cut here: 1 of 1 characters left out]");
}

static void
test_error(void)
{
    g_autoptr(IpbCellText) text = ipb_cell_text_new(10);
    g_assert_null(ipb_cell_text_error(text));
    ipb_cell_text_add(text, &(IpbEvent){.type = IPB_EVENT_ERROR,
                                        .ename = "ValueError",
                                        .evalue = "no",
                                        .text = "---\ntraceback"});
    g_assert_cmpstr(ipb_cell_text_error(text), ==, "ValueError: no\n---\ntraceback");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session/cell-text/pieces", test_pieces);
    g_test_add_func("/session/cell-text/joined", test_joined);
    g_test_add_func("/session/cell-text/joined-without-updates", test_joined_without_updates);
    g_test_add_func("/session/cell-text/late-marks", test_late_marks);
    g_test_add_func("/session/cell-text/notices", test_notices);
    g_test_add_func("/session/cell-text/limit", test_limit);
    g_test_add_func("/session/cell-text/error", test_error);
    return g_test_run();
}
