/* SPDX-License-Identifier: Apache-2.0 */
#include "apigen/names.h"

#include <string.h>

#include "apigen/text.h"

static void
check_identifier(const char *wire, const char *expected)
{
    g_autofree char *name = ipb_names_make_identifier(ipb_text_from(wire));
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
    check_identifier("ﬁ", "field");            /* NFKC makes two letters of it */
    check_identifier("x\xe2\x80\xaey", "x_y"); /* right-to-left override */
    check_identifier("a\xed\xa0\x80", "a");    /* a lone surrogate */
    check_identifier("a\xff\xc3", "a");        /* no UTF-8 */
    check_identifier("match", "match");        /* a soft keyword is a name */
    g_autofree char *with_nul = ipb_names_make_identifier((IpbText){"a\0b", 3});
    g_assert_cmpstr(with_nul, ==, "a_b");
    g_autofree char *wire = g_strnfill(10000, 'n');
    g_autofree char *name = ipb_names_make_identifier(ipb_text_from(wire));
    g_assert_cmpuint(strlen(name), ==, 60);
}

static void
check_class(const char *wire, const char *expected)
{
    g_autofree char *name = ipb_names_make_class(ipb_text_from(wire));
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
        {"Edits", "Edit"},    {"Entries", "Entry"},         {"Classes", "Class"},
        {"Boxes", "Box"},     {"Status", "StatusItem"},     {"Class", "ClassItem"},
        {"Data", "DataItem"}, {"Analysis", "AnalysisItem"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(PAIRS); i++) {
        g_autofree char *singular = ipb_names_make_singular(PAIRS[i][0]);
        g_assert_cmpstr(singular, ==, PAIRS[i][1]);
    }
}

static void
test_take(void)
{
    g_autoptr(IpbModule) module = ipb_module_new();
    ipb_names_reserve(module);
    g_assert_cmpstr(ipb_names_take(module, "Sort"), ==, "Sort");
    g_assert_cmpstr(ipb_names_take(module, "Sort"), ==, "Sort_2");
    g_assert_cmpstr(ipb_names_take(module, "Sort"), ==, "Sort_3");
    g_assert_cmpstr(ipb_names_take(module, "Any"), ==, "Any_2");
}

/* Fields of these wire names get these names. */
static void
check_fields(const char *const *wire, const char *const *names)
{
    g_autoptr(IpbModule) module = ipb_module_new();
    ipb_names_reserve(module);
    IpbClass *class = ipb_class_new(ipb_names_take(module, "Sort"));
    g_ptr_array_add(module->classes, class);
    for (; *wire != NULL; wire++)
        ipb_class_add_field(class)->wire_name = ipb_text_from(*wire);
    ipb_names_finish(module);
    for (guint i = 0; i < class->fields->len; i++)
        g_assert_cmpstr(((IpbField *) g_ptr_array_index(class->fields, i))->name, ==, names[i]);
}

static void
test_fields(void)
{
    check_fields((const char *[]){"query", "Sort", "str", "json", "id", "Any", NULL},
                 (const char *[]){"query", "Sort_", "str_", "json_", "id", "Any_"});
    check_fields((const char *[]){"run", "annotations", "run_parsed", "_id", "Params", NULL},
                 (const char *[]){"run", "annotations", "run_parsed", "field_id", "Params_"});
    /* What can keep its name does, wherever it stands. */
    check_fields((const char *[]){"a-b", "a.b", "a_b", "class", "class_", NULL},
                 (const char *[]){"a_b_2", "a_b_3", "a_b", "class__2", "class_"});
    /* No field has another one's wire name. */
    check_fields((const char *[]){"$from", "from", "1", "2", "", NULL},
                 (const char *[]){"from_", "from__2", "field_1", "field_2", "field"});
}

static void
test_plain_identifier(void)
{
    g_assert_true(ipb_names_is_plain_identifier("github_2"));
    g_assert_true(ipb_names_is_plain_identifier("_x"));
    static const char *const BAD[] = {"", "2x", "a-b", "class", "None", "ü", "a b", "a\n"};
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++)
        g_assert_false(ipb_names_is_plain_identifier(BAD[i]));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/apigen/names/identifier", test_identifier);
    g_test_add_func("/apigen/names/class", test_class);
    g_test_add_func("/apigen/names/singular", test_singular);
    g_test_add_func("/apigen/names/take", test_take);
    g_test_add_func("/apigen/names/fields", test_fields);
    g_test_add_func("/apigen/names/plain-identifier", test_plain_identifier);
    return g_test_run();
}
