/* SPDX-License-Identifier: Apache-2.0 */
#include "apigen/apigen.h"

#include <string.h>

#include "apigen/generated-package.h"
#include "base/error.h"
#include "base/file.h"

static void
check_module_name(const char *tool, const char *expected)
{
    g_autofree char *name = ipb_apigen_module_name(tool);
    g_assert_cmpstr(name, ==, expected);
}

static void
test_module_name(void)
{
    check_module_name("search_repositories", "search_repositories");
    check_module_name("get-Env.v2", "get_env_v2");
    check_module_name("class", "class_");
    check_module_name("None", "none");
    check_module_name("1st", "tool_1st");
    check_module_name("__init__", "tool___init__");
    check_module_name("é", "tool__");
    check_module_name("aé日🎉b", "a___b");
    check_module_name("../x", "___x");
    check_module_name("", "tool_");
    g_autofree char *long_name = g_strnfill(10000, 'x');
    g_autofree char *name = ipb_apigen_module_name(long_name);
    g_assert_cmpuint(strlen(name), ==, 100);
}

static void
test_server_name(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_true(ipb_apigen_check_server_name("brave_search", &error));
    g_assert_no_error(error);
    g_assert_false(ipb_apigen_check_server_name("brave-search", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static GPtrArray *
generate(const char *json, char ***ret_modules, GError **error)
{
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(json, strlen(json), &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbApigenOptions options = {.server_name = "srv", .registration_id = "id"};
    return ipb_apigen_generate(ipb_json_root(doc), &options, ret_modules, error);
}

static void
test_generate(void)
{
    g_auto(GStrv) modules = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) files = generate(
        "[{\"name\": \"a-b\"}, {\"name\": \"a b\"}, {\"name\": \"a_b\"}]", &modules, &error);
    g_assert_no_error(error);
    g_autofree char *names = g_strjoinv(" ", modules);
    g_assert_cmpstr(names, ==, "a_b_2 a_b_3 a_b"); /* in the order of the tools */
    g_assert_cmpuint(files->len, ==, 5);
    const IpbApigenFile *init = g_ptr_array_index(files, 0), *last = g_ptr_array_index(files, 3);
    const IpbApigenFile *catalog = g_ptr_array_index(files, 4);
    g_assert_cmpstr(catalog->name, ==, ".tools.jsonl");
    g_assert_cmpstr(init->name, ==, "__init__.py");
    g_assert_nonnull(strstr(init->source, "server_name=\"srv\", server_id=\"id\""));
    g_assert_cmpstr(last->name, ==, "a_b.py");
    g_assert_nonnull(strstr(last->source, "CLIENT.call_sync(\"a_b\", "));
}

static void
test_bad_lists(void)
{
    static const char *const BAD[] = {"{}", "[1]", "[{}]", "[{\"name\": \"\"}]", "[{\"name\": 1}]"};
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        g_auto(GStrv) modules = NULL;
        g_autoptr(GError) error = NULL;
        g_assert_null(generate(BAD[i], &modules, &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
    }
}

static void
test_write(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *root = ipb_file_make_temp_directory(NULL, "apigen-", &error);
    g_assert_no_error(error);
    g_autofree char *tools = g_build_filename(root, "mcptools", NULL);
    g_autoptr(IpbBeneath) place = ipb_beneath_open_in(root, tools, 0755, &error);
    char *note;
    for (int round = 0; round < 2; round++) {
        g_auto(GStrv) modules = NULL;
        g_autoptr(GPtrArray) files =
            generate(round == 0 ? "[{\"name\": \"old\"}]" : "[]", &modules, &error);
        g_assert_true(ipb_generated_package_write(files, place, "srv", NULL, NULL, &note, &error));
        g_assert_no_error(error);
        g_autofree char *old = g_build_filename(tools, "srv", "old.py", NULL);
        g_autofree char *init = g_build_filename(tools, "srv", "__init__.py", NULL);
        g_assert_cmpint(g_file_test(old, G_FILE_TEST_EXISTS), ==, round == 0);
        g_assert_true(g_file_test(init, G_FILE_TEST_EXISTS));
    }
    g_autoptr(GPtrArray) none = g_ptr_array_new();
    g_autofree char *precious = g_build_filename(tools, "precious", "data", NULL);
    g_assert_true(ipb_file_make_directories(precious, 0755, &error));
    g_assert_false(ipb_generated_package_write(none, place, "precious", NULL, NULL, &note, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_true(ipb_file_remove_tree(root, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/apigen/apigen/module-name", test_module_name);
    g_test_add_func("/apigen/apigen/server-name", test_server_name);
    g_test_add_func("/apigen/apigen/generate", test_generate);
    g_test_add_func("/apigen/apigen/bad-lists", test_bad_lists);
    g_test_add_func("/apigen/apigen/write", test_write);
    return g_test_run();
}
