/* SPDX-License-Identifier: Apache-2.0
 *
 * Catalogs of packages: what is written is found again, and hostile files are refused.
 */
#include "apigen/tool-catalog.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "apigen/apigen.h"

static const char TOOLS[] =
    "[{\"name\": \"Get-File\", \"description\": \"Reads.\\n\\nThe second paragraph.\","
    " \"inputSchema\": {\"type\": \"object\", \"properties\": {\"path\": {\"type\": \"string\","
    " \"description\": \"Where\\u001b it is.\\n\\nAbsolute.\"}}, \"required\": [\"path\"]}},"
    " {\"name\": \"put_file\", \"description\": \"Writes what get_file reads.\"}]";

static char *
make_catalog(const char *server)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(TOOLS, strlen(TOOLS), &IPB_JSON_LIMITS_SMALL, &error);
    g_assert_no_error(error);
    IpbApigenOptions options = {.server_name = server, .registration_id = "id"};
    g_auto(GStrv) modules = NULL;
    g_autoptr(GPtrArray) files =
        ipb_apigen_generate(ipb_json_root(doc), &options, &modules, &error);
    g_assert_no_error(error);
    const IpbApigenFile *file = g_ptr_array_index(files, files->len - 1);
    g_assert_cmpstr(file->name, ==, IPB_TOOL_CATALOG_FILE);
    return g_strdup(file->source);
}

typedef struct {
    char *directory;
    IpbBeneath *root;
} Fixture;

static void
write_catalog(const Fixture *fixture, const char *server, const char *text)
{
    g_autofree char *package = g_build_filename(fixture->directory, server, NULL);
    g_autofree char *path = g_build_filename(package, IPB_TOOL_CATALOG_FILE, NULL);
    g_assert_cmpint(g_mkdir_with_parents(package, 0700), ==, 0);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void
set_up(Fixture *fixture, const void *data)
{
    fixture->directory = g_dir_make_tmp("ipybox-catalog-XXXXXX", NULL);
    fixture->root = ipb_beneath_open(fixture->directory, NULL);
    g_autofree char *files = make_catalog("files");
    write_catalog(fixture, "files", files);
    g_autofree char *other = make_catalog("other");
    write_catalog(fixture, "other", other);
}

static void
tear_down(Fixture *fixture, const void *data)
{
    g_autofree char *parent = g_path_get_dirname(fixture->directory);
    g_autofree char *name = g_path_get_basename(fixture->directory);
    g_autoptr(IpbBeneath) beneath = ipb_beneath_open(parent, NULL);
    g_assert_true(ipb_beneath_remove_tree(beneath, name, NULL));
    ipb_beneath_free(fixture->root);
    g_free(fixture->directory);
}

static GPtrArray *
read_all(const Fixture *fixture, const char *const *servers, guint n_unreadable)
{
    g_autoptr(GPtrArray) unreadable = NULL;
    GPtrArray *tools = ipb_tool_catalog_read(fixture->root, servers, &unreadable);
    g_assert_cmpuint(unreadable->len, ==, n_unreadable);
    return tools;
}

static void
test_read(Fixture *fixture, const void *data)
{
    static const char *const BOTH[] = {"files", "other", NULL};
    g_autoptr(GPtrArray) tools = read_all(fixture, BOTH, 0);
    g_assert_cmpuint(tools->len, ==, 4);
    const IpbCatalogTool *tool = g_ptr_array_index(tools, 0);
    g_assert_cmpstr(tool->server, ==, "files");
    g_assert_cmpstr(tool->module, ==, "get_file");
    g_assert_cmpstr(tool->tool, ==, "Get-File");
    g_assert_cmpstr(ipb_catalog_tool_text(tool, IPB_TOOL_SIGNATURE), ==,
                    "def run(*, path: str) -> str: ...  # files.get_file: Reads.");
    g_assert_cmpstr(ipb_catalog_tool_text(tool, IPB_TOOL_STUB), ==,
                    "# files.get_file\n"
                    "class Params:\n"
                    "    path: str  # Where\xef\xbf\xbd it is.\n"
                    "def run(params: Params | None = None, **fields) -> str: ...  # Reads.\n");
    g_assert_cmpstr(ipb_catalog_tool_text(tool, IPB_TOOL_FULL), ==,
                    "# files.get_file\n"
                    "class Params:\n"
                    "    path: str  # Where\xef\xbf\xbd it is. Absolute.\n"
                    "def run(params: Params | None = None, **fields) -> str:\n"
                    "    \"\"\"Reads.\n\n    The second paragraph.\n    \"\"\"\n");
}

static void
check_found(const GPtrArray *found, const char *expected)
{
    g_autoptr(GString) names = g_string_new(NULL);
    for (guint i = 0; i < found->len; i++) {
        const IpbCatalogTool *tool = g_ptr_array_index(found, i);
        g_string_append_printf(names, "%s%s.%s", i > 0 ? " " : "", tool->server, tool->module);
    }
    g_assert_cmpstr(names->str, ==, expected);
}

static void
test_find(Fixture *fixture, const void *data)
{
    static const char *const BOTH[] = {"files", "other", NULL};
    static const struct {
        const char *name, *found;
    } CASES[] = {
        {"files.get_file", "files.get_file"},
        {"files.Get-File", "files.get_file"},
        {"get_file", "files.get_file other.get_file"},
        {"other", "other.get_file other.put_file"},
        {"file", ""},
        {"files.", ""},
        {"", ""},
    };
    g_autoptr(GPtrArray) tools = read_all(fixture, BOTH, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autoptr(GPtrArray) found = ipb_tool_catalog_find(tools, CASES[i].name);
        check_found(found, CASES[i].found);
    }
    g_assert_cmpstr(ipb_tool_catalog_nearest(tools, "files.gte_file"), ==, "get_file");
    g_assert_null(ipb_tool_catalog_nearest(tools, "something_else"));
}

static void
test_search(Fixture *fixture, const void *data)
{
    static const char *const FILES[] = {"files", NULL};
    static const struct {
        const char *query, *found;
    } CASES[] = {
        {"", "files.get_file files.put_file"},
        {"WRITES", "files.put_file"},
        {"paragraph?", "files.get_file"},
        /* the name counts more than the text, in which both have the word */
        {"put", "files.put_file"},
        {"get", "files.get_file files.put_file"},
        {"writes get", "files.get_file files.put_file"},
        {"nothing", ""},
    };
    g_autoptr(GPtrArray) tools = read_all(fixture, FILES, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autoptr(GPtrArray) found = ipb_tool_catalog_search(tools, CASES[i].query);
        check_found(found, CASES[i].found);
    }
}

static void
test_hostile_files(Fixture *fixture, const void *data)
{
    static const char *const SERVERS[] = {"bad", "fifo", "files", "huge", "link", "none", NULL};
    g_autofree char *package = g_build_filename(fixture->directory, "huge", NULL);
    g_autofree char *huge = g_build_filename(package, IPB_TOOL_CATALOG_FILE, NULL);
    g_autofree char *link = g_build_filename(fixture->directory, "link", NULL);
    g_autofree char *target = g_build_filename(fixture->directory, "other", NULL);
    g_autofree char *other = g_build_filename(fixture->directory, "fifo", NULL);
    g_autofree char *fifo = g_build_filename(other, IPB_TOOL_CATALOG_FILE, NULL);
    write_catalog(fixture, "bad", "{\"module\": ");
    write_catalog(fixture, "huge", "");
    g_assert_cmpint(truncate(huge, (off_t) 1 << 40), ==, 0);
    g_assert_cmpint(symlink(target, link), ==, 0);
    g_assert_cmpint(g_mkdir(other, 0700), ==, 0);
    g_assert_cmpint(mkfifo(fifo, 0700), ==, 0);
    g_autoptr(GPtrArray) tools = read_all(fixture, SERVERS, 5);
    g_assert_cmpuint(tools->len, ==, 2);
    write_catalog(fixture, "bad",
                  "{\"module\": \"x\"}\n5\n{\"signature\": 1, \"module\": \"y\"}\n");
    static const char *const BAD[] = {"bad", NULL};
    g_autoptr(GPtrArray) none = read_all(fixture, BAD, 0);
    g_assert_cmpuint(none->len, ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/apigen/tool-catalog/read", Fixture, NULL, set_up, test_read, tear_down);
    g_test_add("/apigen/tool-catalog/find", Fixture, NULL, set_up, test_find, tear_down);
    g_test_add("/apigen/tool-catalog/search", Fixture, NULL, set_up, test_search, tear_down);
    g_test_add("/apigen/tool-catalog/hostile-files", Fixture, NULL, set_up, test_hostile_files,
               tear_down);
    return g_test_run();
}
