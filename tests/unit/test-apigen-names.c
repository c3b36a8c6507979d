/* SPDX-License-Identifier: Apache-2.0 */
#include "apigen/names.h"

#include "apigen/wtf8.h"

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
        ipb_class_add_field(class)->wire_name = ipb_wtf8_from(*wire);
    ipb_names_give_fields(module);
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
    /* A name that is usable stays, wherever it is. */
    check_fields((const char *[]){"a-b", "a.b", "a_b", "class", "class_", NULL},
                 (const char *[]){"a_b_2", "a_b_3", "a_b", "class__2", "class_"});
    /* No field gets the wire name of another. */
    check_fields((const char *[]){"$from", "from", "1", "2", "", NULL},
                 (const char *[]){"from_", "from__2", "field_1", "field_2", "field"});
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/apigen/names/take", test_take);
    g_test_add_func("/apigen/names/fields", test_fields);
    return g_test_run();
}
