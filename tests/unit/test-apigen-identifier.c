/* SPDX-License-Identifier: Apache-2.0 */
#include "apigen/identifier.h"

#include <string.h>

#include "apigen/wtf8.h"

static void
check_identifier(const char *wire, const char *expected)
{
    g_autofree char *name = ipb_identifier_make(ipb_wtf8_from(wire));
    g_assert_cmpstr(name, ==, expected);
}

static void
test_identifier(void)
{
    check_identifier("perPage", "perPage");
    check_identifier("from", "from_");
    check_identifier("from_", "from_");
    check_identifier("help-wanted issues", "help_wanted_issues");
    check_identifier("a -- b", "a_b");
    check_identifier("a__b", "a__b");
    check_identifier("what?", "what");
    check_identifier("(x)", "x");
    check_identifier("__init__", "field_init__");
    check_identifier("_id", "field_id");
    check_identifier("1st", "field_1st");
    check_identifier("", "field");
    check_identifier("___", "field");
    check_identifier("🎉", "field");
    check_identifier("größe", "größe");
    check_identifier("名前", "名前");
    check_identifier("ﬁ", "field");            /* NFKC turns it into two letters */
    check_identifier("x\xe2\x80\xaey", "x_y"); /* right-to-left override */
    check_identifier("a\xed\xa0\x80", "a");    /* a lone surrogate */
    check_identifier("a\xff\xc3", "a");        /* not UTF-8 */
    check_identifier("match", "match");        /* a soft keyword can be a name */
    g_autofree char *with_nul = ipb_identifier_make((IpbSpan){"a\0b", 3});
    g_assert_cmpstr(with_nul, ==, "a_b");
    g_autofree char *wire = g_strnfill(10000, 'n');
    g_autofree char *name = ipb_identifier_make(ipb_wtf8_from(wire));
    g_assert_cmpuint(strlen(name), ==, 60);
}

static void
test_member(void)
{
    static const char *const PAIRS[][2] = {
        {"help-wanted-issues", "help_wanted_issues"},
        {"3xl", "_3xl"},
        {"1", "_1"},
        {"1_", "field_1_"}, /* names like _1_ are reserved for Enum */
        {"field_1", "field_1"},
        {"_1", "field_1"},
        {"", "empty"},
        {",", "comma"},
        {">=", "ge"},
        {"&&", "and_"},
        {"<=>", "field"},
        {"🎉", "field"},
        {"+1", "plus_1"},
        {"reactions--1", "reactions_minus_1"},
        {"reactions-+1", "reactions_plus_1"},
        {"utf-8", "utf_8"},
        {"class", "class_"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(PAIRS); i++) {
        g_autofree char *name = ipb_identifier_make_member(ipb_wtf8_from(PAIRS[i][0]));
        g_assert_cmpstr(name, ==, PAIRS[i][1]);
    }
    g_autofree char *with_nul = ipb_identifier_make_member((IpbSpan){"1\0b", 3});
    g_assert_cmpstr(with_nul, ==, "_1_b");
}

static void
check_class(const char *wire, const char *expected)
{
    g_autofree char *name = ipb_identifier_make_class(ipb_wtf8_from(wire));
    g_assert_cmpstr(name, ==, expected);
}

static void
test_class(void)
{
    check_class("sort", "Sort");
    check_class("perPage", "PerPage");
    check_class("help-wanted issues", "HelpWantedIssues");
    check_class("HTML_page", "HTMLPage");
    check_class("3d", "Type3d");
    check_class("état", "État");
    check_class("🎉", "");
    check_class("", "");
}

static void
test_singular(void)
{
    static const char *const PAIRS[][2] = {
        {"Edits", "Edit"},        {"Entries", "Entry"},         {"Classes", "Class"},
        {"Boxes", "Box"},         {"Status", "StatusItem"},     {"Class", "ClassItem"},
        {"Series", "SeriesItem"}, {"SubChildren", "SubChild"},  {"Statuses", "Status"},
        {"Data", "DataItem"},     {"Analysis", "AnalysisItem"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(PAIRS); i++) {
        g_autofree char *singular = ipb_identifier_make_singular(PAIRS[i][0]);
        g_assert_cmpstr(singular, ==, PAIRS[i][1]);
    }
}

static void
test_plain_identifier(void)
{
    g_assert_true(ipb_identifier_is_plain("github_2"));
    g_assert_true(ipb_identifier_is_plain("_x"));
    static const char *const BAD[] = {"", "2x", "a-b", "class", "None", "ü", "a b", "a\n"};
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++)
        g_assert_false(ipb_identifier_is_plain(BAD[i]));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/apigen/identifier/make", test_identifier);
    g_test_add_func("/apigen/identifier/member", test_member);
    g_test_add_func("/apigen/identifier/class", test_class);
    g_test_add_func("/apigen/identifier/singular", test_singular);
    g_test_add_func("/apigen/identifier/plain", test_plain_identifier);
    return g_test_run();
}
