/* SPDX-License-Identifier: Apache-2.0 */
#include "session/clipped-text.h"

#include <stdint.h>
#include <string.h>

static void
check(const IpbClippedText *text, const char *wanted)
{
    g_autofree char *got = ipb_clipped_text_get(text);
    g_assert_cmpstr(got, ==, wanted);
}

static IpbClippedText *
make(size_t max_chars, const char *piece)
{
    IpbClippedText *text = ipb_clipped_text_new(max_chars);
    ipb_clipped_text_append(text, piece);
    return text;
}

static void
test_short(void)
{
    g_autoptr(IpbClippedText) text = ipb_clipped_text_new(10);
    check(text, "");
    ipb_clipped_text_append(text, "abcdefg");
    ipb_clipped_text_append(text, "hij");
    check(text, "abcdefghij");
    g_assert_false(ipb_clipped_text_is_cut(text));
}

static void
test_cut(void)
{
    g_autoptr(IpbClippedText) text = make(10, "abcdefghij");
    ipb_clipped_text_append(text, "k");
    g_assert_true(ipb_clipped_text_is_cut(text));
    check(text, "abcdef\n\n[Output cut here: 1 of 11 characters left out]\n\nhijk");
    ipb_clipped_text_append(text, "lmnopqrstuvwxyz");
    check(text, "abcdef\n\n[Output cut here: 16 of 26 characters left out]\n\nwxyz");
}

static void
test_small_limits(void)
{
    g_autoptr(IpbClippedText) none = make(0, "xyz");
    check(none, "[Output cut here: 3 of 3 characters left out]");
    g_autoptr(IpbClippedText) one = make(1, "xyz");
    check(one, "x\n\n[Output cut here: 2 of 3 characters left out]");
    g_autoptr(IpbClippedText) three = make(3, "abcde");
    check(three, "ab\n\n[Output cut here: 2 of 5 characters left out]\n\ne");
    g_autoptr(IpbClippedText) blank = make(0, "\n \n");
    g_assert_false(ipb_clipped_text_is_cut(blank));
    check(blank, "");
}

/* The limit counts characters, and no character is split. */
static void
test_characters(void)
{
    g_autoptr(IpbClippedText) text = ipb_clipped_text_new(5);
    for (int i = 0; i < 100; i++)
        ipb_clipped_text_append(text, i % 2 == 0 ? "é😀" : "€x");
    check(text, "é😀€\n\n[Output cut here: 195 of 200 characters left out]\n\n€x");
}

/* White space at the end does not count until other text follows. */
static void
test_trailing_white_space(void)
{
    g_autoptr(IpbClippedText) text = make(5, "abcde\n\n\n\n\n\n");
    g_assert_false(ipb_clipped_text_is_cut(text));
    check(text, "abcde");
    ipb_clipped_text_append(text, " \n");
    check(text, "abcde");
    ipb_clipped_text_append(text, "f");
    check(text, "abc\n\n[Output cut here: 9 of 14 characters left out]\n\n\nf");
    g_autoptr(IpbClippedText) with_room = make(8, "abcde\n\n");
    check(with_room, "abcde\n\n");
    g_autoptr(IpbClippedText) within = make(8, "a  \n");
    ipb_clipped_text_append(within, "b  \n  \n");
    check(within, "a  \nb  \n");
}

/* The result does not depend on how the text is divided into pieces. */
static void
test_pieces(void)
{
    static const char *const PIECES[] = {"a", "bc\n", " ", "\n", "é", "0123456789", "€ \n", "😀"};
    for (int i = 0; i < 2000; i++) {
        size_t max = (size_t) g_test_rand_int_range(0, 40);
        g_autoptr(GString) whole = g_string_new(NULL);
        g_autoptr(IpbClippedText) text = ipb_clipped_text_new(max);
        for (int n = g_test_rand_int_range(0, 30); n > 0; n--) {
            const char *piece = PIECES[g_test_rand_int_range(0, G_N_ELEMENTS(PIECES))];
            g_string_append(whole, piece);
            ipb_clipped_text_append(text, piece);
        }
        g_autoptr(IpbClippedText) at_once = make(max, whole->str);
        g_autofree char *got = ipb_clipped_text_get(text), *wanted = ipb_clipped_text_get(at_once);
        g_assert_cmpstr(g_strchomp(got), ==, g_strchomp(wanted));
        g_assert_true(g_utf8_validate(got, -1, NULL));
        g_autofree char *chomped = g_strchomp(g_strdup(whole->str));
        g_assert_cmpint(ipb_clipped_text_is_cut(text), ==,
                        (size_t) g_utf8_strlen(chomped, -1) > max);
        if (!ipb_clipped_text_is_cut(text))
            g_assert_cmpstr(got, ==, chomped);
    }
}

/* Large output takes no more memory than the limit. */
static void
test_large_output(void)
{
    g_autoptr(IpbClippedText) text = ipb_clipped_text_new(1000);
    g_autofree char *blanks = g_strnfill(1000000, ' ');
    g_autofree char *letters = g_strnfill(1000000, 'x');
    for (int i = 0; i < 100; i++) {
        ipb_clipped_text_append(text, letters);
        ipb_clipped_text_append(text, blanks);
    }
    ipb_clipped_text_append(text, "end");
    g_autofree char *got = ipb_clipped_text_get(text);
    g_assert_nonnull(
        strstr(got, "x\n\n[Output cut here: 199999003 of 200000003 characters left out]\n\n  "));
    g_assert_true(g_str_has_suffix(got, " end"));
    g_autoptr(IpbClippedText) all = ipb_clipped_text_new(SIZE_MAX);
    for (int i = 0; i < 5; i++)
        ipb_clipped_text_append(all, letters);
    g_assert_false(ipb_clipped_text_is_cut(all));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session/clipped-text/short", test_short);
    g_test_add_func("/session/clipped-text/cut", test_cut);
    g_test_add_func("/session/clipped-text/small-limits", test_small_limits);
    g_test_add_func("/session/clipped-text/characters", test_characters);
    g_test_add_func("/session/clipped-text/trailing-white-space", test_trailing_white_space);
    g_test_add_func("/session/clipped-text/pieces", test_pieces);
    g_test_add_func("/session/clipped-text/large-output", test_large_output);
    return g_test_run();
}
