/* SPDX-License-Identifier: Apache-2.0
 *
 * Code actions and output parsers; see the header.
 */
#include "apigen/saved-code.h"

#include <string.h>
#include <sys/stat.h>

#include "apigen/generated-package.h"
#include "apigen/python-function.h"
#include "base/error.h"

/* Bytes of a source, and of all that are read at once. */
#define MAX_SOURCE (256 << 10)
#define MAX_READ (8 << 20)
/* Entries of a directory, and actions in total. */
#define MAX_ENTRIES 1000
#define MAX_ACTIONS 1000
#define MAX_NAME_SIZE 100

typedef struct {
    GPtrArray *tools, *unreadable;
    unsigned n_actions, n_read;
    size_t left; /* bytes that may still be read */
} Reading;

/* --- names ------------------------------------------------------------------------------------ */

/* Names that begin with "_" are not listed: __init__.py, __pycache__, private modules. */
static bool
is_name(const char *name, size_t size)
{
    if (size == 0 || size > MAX_NAME_SIZE || !g_ascii_isalpha(*name))
        return false;
    for (size_t i = 0; i < size; i++)
        if (!g_ascii_isalnum(name[i]) && name[i] != '_')
            return false;
    return true;
}

bool
ipb_saved_code_check_name(const char *name, const char **ret_action, GError **error)
{
    static const char PREFIX[] = IPB_SAVED_CODE_ACTIONS ".";
    const char *action = g_str_has_prefix(name, PREFIX) ? name + strlen(PREFIX) : name;
    const char *point = strchr(action, '.');
    if (point != NULL && is_name(action, (size_t) (point - action)) &&
        is_name(point + 1, strlen(point + 1))) {
        *ret_action = action;
        return true;
    }
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "the name of an action is CATEGORY.NAME, both of ASCII letters, digits and "
                        "_, beginning with a letter; see 'ipybox actions list'");
    return false;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads a source as text: UTF-8 without NUL. */
static char *
read_source(const IpbBeneath *directory, const char *path, size_t max, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_beneath_read(directory, path, max, &text, &size, error))
        return NULL;
    if (g_utf8_validate_len(text, size, NULL))
        return g_steal_pointer(&text);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s is not a UTF-8 text", path);
    return NULL;
}

static void
report(const Reading *reading, const char *name, const char *reason)
{
    g_ptr_array_add(reading->unreadable, g_strdup_printf(IPB_SAVED_CODE_ACTIONS "%s%s: %s",
                                                         *name != '\0' ? "." : "", name, reason));
}

static char *
describe_function(const IpbPythonFunction *function, const char *module)
{
    return g_strdup_printf("%s: ...  # %s%s%s", function->signature, module,
                           function->summary != NULL ? ": " : "",
                           function->summary != NULL ? function->summary : "");
}

static IpbCatalogTool *
make_action(const char *category, const char *name, const char *source,
            const IpbPythonFunction *function)
{
    IpbCatalogTool *tool = g_new0(IpbCatalogTool, 1);
    g_autofree char *module = g_strdup_printf(IPB_SAVED_CODE_ACTIONS ".%s.%s", category, name);
    tool->server = g_strdup_printf(IPB_SAVED_CODE_ACTIONS ".%s", category);
    tool->module = g_strdup(name);
    tool->tool = g_strdup(name);
    tool->signature = describe_function(function, module);
    tool->stub = g_strdup_printf("# %s\n%s", module, source);
    return tool;
}

static bool
read_action(Reading *reading, const IpbBeneath *directory, const char *category, const char *name,
            GError **error)
{
    g_autoptr(IpbBeneath) action = ipb_beneath_descend(directory, name, 0, error);
    size_t max = MIN(reading->left, MAX_SOURCE);
    g_autofree char *source = action != NULL ? read_source(action, "api.py", max, error) : NULL;
    IpbPythonFunction function;
    if (source == NULL)
        return false;
    reading->left -= strlen(source);
    if (!ipb_python_function_find(source, "run", &function)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "its api.py has no function run()");
        return false;
    }
    g_ptr_array_insert(reading->tools, (int) reading->n_read++,
                       make_action(category, name, source, &function));
    ipb_python_function_clear(&function);
    return true;
}

static bool
is_listed(const IpbBeneath *directory, const char *name)
{
    return is_name(name, strlen(name)) && !S_ISREG(ipb_beneath_kind(directory, name));
}

static void
read_category(Reading *reading, const IpbBeneath *root, const char *category)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbBeneath) directory = ipb_beneath_descend(root, category, 0, &error);
    g_autoptr(GPtrArray) names =
        directory != NULL ? ipb_beneath_list(directory, MAX_ENTRIES, &error) : NULL;
    if (names == NULL) {
        report(reading, category, error->message);
        return;
    }
    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autofree char *whole = g_strdup_printf("%s.%s", category, name);
        g_autoptr(GError) failure = NULL;
        if (!is_listed(directory, name))
            continue;
        if (++reading->n_actions > MAX_ACTIONS) {
            report(reading, category, "there are more than " G_STRINGIFY(MAX_ACTIONS) " actions");
            return;
        }
        if (!read_action(reading, directory, category, name, &failure))
            report(reading, whole, failure->message);
    }
}

void
ipb_saved_code_add_actions(const IpbBeneath *workspace, GPtrArray *tools, GPtrArray *unreadable)
{
    Reading reading = {.tools = tools, .unreadable = unreadable, .left = MAX_READ};
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbBeneath) root = ipb_beneath_descend(workspace, IPB_SAVED_CODE_ACTIONS, 0, &error);
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND))
        return;
    g_autoptr(GPtrArray) categories =
        root != NULL ? ipb_beneath_list(root, MAX_ENTRIES, &error) : NULL;
    if (categories == NULL) {
        report(&reading, "", error->message);
        return;
    }
    for (guint i = 0; i < categories->len && reading.n_actions <= MAX_ACTIONS; i++) {
        const char *category = g_ptr_array_index(categories, i);
        if (is_listed(root, category))
            read_category(&reading, root, category);
    }
}

/* --- output parsers --------------------------------------------------------------------------- */

static void
append_text(char **text, const char *separator, const char *more)
{
    g_autofree char *old = *text;
    g_strchomp(old);
    *text = g_strconcat(old, separator, more, NULL);
}

/* Adds the function, and to the longer texts @source, which has its types. */
static void
add_parser(IpbCatalogTool *tool, const IpbPythonFunction *function, const char *module,
           const char *source)
{
    g_autofree char *line = describe_function(function, module);
    g_autofree char *code = g_strdup_printf("# Its output parser, in %s:\n%s", module, source);
    append_text(&tool->signature, "\n", line);
    if (tool->stub != NULL)
        append_text(&tool->stub, "\n\n", code);
    if (tool->full != NULL)
        append_text(&tool->full, "\n\n", code);
}

/* Whether the parser is in the file @path, as the text that was added to a generated module, or as
 * all of it. */
static bool
take_parser(const IpbBeneath *directory, const char *path, bool is_generated, const char *module,
            IpbCatalogTool *tool)
{
    g_autofree char *source = read_source(directory, path, MAX_SOURCE, NULL);
    IpbPythonFunction function = {0};
    bool has_parser = source != NULL && ipb_python_function_find(source, "run_parsed", &function);
    if (has_parser) {
        g_autofree char *added =
            is_generated ? ipb_generated_package_read_added(directory, path) : NULL;
        const char *text = added != NULL ? added + strspn(added, "\r\n") : source;
        g_autofree char *only = g_strconcat(function.signature, ": ...", NULL);
        add_parser(tool, &function, module, is_generated && added == NULL ? only : text);
    }
    ipb_python_function_clear(&function);
    return has_parser;
}

void
ipb_saved_code_add_parser(const IpbBeneath *workspace, IpbCatalogTool *tool)
{
    static const char *const ROOTS[] = {"mcptools", "mcpparse"};
    g_autofree char *file = g_strconcat(tool->module, ".py", NULL);
    if (!is_name(tool->server, strlen(tool->server)) || strchr(tool->module, '/') != NULL)
        return; /* a code action, or a catalog that was changed */
    for (size_t i = 0; i < G_N_ELEMENTS(ROOTS); i++) {
        g_autofree char *path = g_build_filename(ROOTS[i], tool->server, NULL);
        g_autofree char *module =
            i == 0 ? g_strdup_printf("%s.%s", tool->server, tool->module)
                   : g_strdup_printf("%s.%s.%s", ROOTS[i], tool->server, tool->module);
        g_autoptr(IpbBeneath) directory = ipb_beneath_descend(workspace, path, 0, NULL);
        if (directory != NULL && take_parser(directory, file, i == 0, module, tool))
            return;
    }
}

/* --- removing --------------------------------------------------------------------------------- */

bool
ipb_saved_code_remove_action(const IpbBeneath *workspace, const char *name, GError **error)
{
    const char *point = strchr(name, '.');
    g_return_val_if_fail(point != NULL, false);
    g_autofree char *category = g_strndup(name, (gsize) (point - name));
    g_autofree char *path = g_build_filename(IPB_SAVED_CODE_ACTIONS, category, NULL);
    g_autoptr(GError) failure = NULL;
    g_autoptr(IpbBeneath) directory = ipb_beneath_descend(workspace, path, 0, &failure);
    if (directory == NULL && !g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return false;
    }
    if (directory == NULL || ipb_beneath_kind(directory, point + 1) == 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "%s has no action %s; see 'ipybox actions list'", ipb_beneath_path(workspace),
                    name);
        return false;
    }
    return ipb_beneath_remove_tree(directory, point + 1, error);
}
