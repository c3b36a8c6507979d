/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox actions`: the code actions that agents have saved in a workspace: list, test, remove.
 * They are code of the workspace, so only `test` runs any of it, always in a sandbox.
 */
#include <stdio.h>
#include <string.h>

#include "apigen/saved-code.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/run-session.h"
#include "json/writer.h"

typedef struct {
    IpbRunArguments run;
    int as_json;
    IpbBeneath *workspace;
    GPtrArray *tools, *unreadable; /* the actions, and texts about those that cannot be described */
} Arguments;

static int
fail(const GError *error)
{
    return ipb_cli_fail(&ipb_verb_actions, ipb_cli_status(error), "%s", error->message);
}

static bool
read_actions(Arguments *arguments, GError **error)
{
    g_autofree char *path = ipb_run_arguments_workspace(&arguments->run);
    arguments->workspace = ipb_beneath_open(path, error);
    if (arguments->workspace == NULL)
        return false;
    arguments->tools = g_ptr_array_new_with_free_func(ipb_catalog_tool_free);
    arguments->unreadable = g_ptr_array_new_with_free_func(g_free);
    ipb_saved_code_add_actions(arguments->workspace, arguments->tools, arguments->unreadable);
    return true;
}

static void
clear(Arguments *arguments)
{
    ipb_beneath_free(arguments->workspace);
    g_clear_pointer(&arguments->tools, g_ptr_array_unref);
    g_clear_pointer(&arguments->unreadable, g_ptr_array_unref);
    ipb_run_arguments_clear(&arguments->run);
}

static char *
name_of(const IpbCatalogTool *tool)
{
    return g_strdup_printf("%s.%s", tool->server, tool->module);
}

/* Reports actions that cannot be described. Returns whether there are any. */
static bool
report_unreadable(const Arguments *arguments)
{
    for (guint i = 0; i < arguments->unreadable->len; i++) {
        g_autofree char *text = ipb_cli_printable(g_ptr_array_index(arguments->unreadable, i));
        ipb_cli_say(&ipb_verb_actions, "%s", text);
    }
    return arguments->unreadable->len > 0;
}

/* --- list ------------------------------------------------------------------------------------- */

static void
print_json(const GPtrArray *tools)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (guint i = 0; i < tools->len; i++) {
        const IpbCatalogTool *tool = g_ptr_array_index(tools, i);
        g_autofree char *name = name_of(tool);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "name", name);
        ipb_json_member_string(writer, "signature", tool->signature);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    puts(text);
}

static int
list_actions(const Arguments *arguments)
{
    if (arguments->as_json)
        print_json(arguments->tools);
    for (guint i = 0; i < arguments->tools->len && !arguments->as_json; i++) {
        const IpbCatalogTool *tool = g_ptr_array_index(arguments->tools, i);
        g_autofree char *line = ipb_cli_printable(tool->signature);
        puts(line);
    }
    bool is_faulty = report_unreadable(arguments);
    if (arguments->tools->len == 0 && !is_faulty)
        ipb_cli_say(&ipb_verb_actions, "no code action is saved in %s",
                    ipb_beneath_path(arguments->workspace));
    return is_faulty ? IPB_EXIT_FAILED : IPB_EXIT_OK;
}

/* --- test ------------------------------------------------------------------------------------- */

/* What a cell does for an action: it imports it, as a later session will, and calls the functions
 * test_… of its module test.py, if it has one. */
static const char TEST[] =
    "import importlib.util as _util\n"
    "from importlib import import_module as _import\n"
    "_name = '%s'\n"
    "_package = _import(_name)\n"
    "_run = _import(_name + '.api').run\n"
    "if getattr(_package, 'run', _run) is not _run or not callable(_run):\n"
    "    raise ImportError(f'run of {_name} is not the function run of its api.py')\n"
    "if _util.find_spec(_name + '.impl') is not None:\n"
    "    _import(_name + '.impl')\n"
    "if _util.find_spec(_name + '.test') is not None:\n"
    "    _tests = vars(_import(_name + '.test'))\n"
    "    for _test in [_tests[_each] for _each in _tests if _each.startswith('test_')]:\n"
    "        _value = _test()\n"
    "        if hasattr(_value, '__await__'):\n"
    "            await _value\n";

typedef struct {
    const Arguments *arguments;
    GPtrArray *names; /* of the actions that are tested */
    guint n_begun, n_failed;
    char *code;
    IpbJsonWriter *writer; /* NULL: for people */
} Test;

static const char *
take_next(void *data, IpbRunCell *ret_cell)
{
    Test *test = data;
    if (test->n_begun == test->names->len)
        return NULL;
    g_free(test->code);
    ret_cell->is_after_reset = test->n_begun > 0; /* no action sees what another one has left */
    test->code = g_strdup_printf(TEST, (char *) g_ptr_array_index(test->names, test->n_begun++));
    return test->code;
}

static char *
describe_failure(const IpyboxResult *result)
{
    const char *name = ipybox_result_get_error_name(result);
    const char *message = ipybox_result_get_message(result);
    if (name != NULL)
        return g_strdup_printf("%s: %s", name, ipybox_result_get_error_value(result));
    return g_strdup(message != NULL ? message : "it was interrupted");
}

static void
print_result(const char *name, const char *failure)
{
    g_autofree char *reason = failure != NULL ? ipb_cli_printable(failure) : NULL;
    printf("%-6s %s%s%s\n", failure == NULL ? "ok" : "FAILED", name, reason != NULL ? ": " : "",
           reason != NULL ? reason : "");
    fflush(stdout);
}

static bool
on_end(void *data, const IpyboxResult *result)
{
    Test *test = data;
    const char *name = g_ptr_array_index(test->names, test->n_begun - 1);
    bool is_ok = ipybox_result_get_status(result) == IPYBOX_STATUS_OK;
    g_autofree char *failure = is_ok ? NULL : describe_failure(result);
    test->n_failed += !is_ok;
    if (test->writer == NULL) {
        print_result(name, failure);
        return true;
    }
    ipb_json_begin_object(test->writer);
    ipb_json_member_string(test->writer, "name", name);
    ipb_json_member_bool(test->writer, "ok", is_ok);
    ipb_json_member_string(test->writer, "error", failure);
    ipb_json_member_string(test->writer, "traceback", ipybox_result_get_traceback(result));
    ipb_json_end_object(test->writer);
    return true;
}

static int
run_tests(Test *test)
{
    IpbRunCells cells = {
        .next = take_next,
        .on_end = on_end,
        .data = test,
        .is_sequence = true,
        .is_quiet = true,
    };
    if (test->arguments->as_json) {
        test->writer = ipb_json_writer_new();
        ipb_json_begin_array(test->writer);
    }
    int status = test->names->len > 0
                     ? ipb_run_session(&ipb_verb_actions, &test->arguments->run, &cells)
                     : IPB_EXIT_OK;
    if (test->writer != NULL) {
        ipb_json_end_array(test->writer);
        g_autofree char *text = ipb_json_writer_finish(test->writer, NULL);
        puts(text);
    }
    g_free(test->code);
    return status == IPB_EXIT_OK && test->n_failed > 0 ? IPB_EXIT_FAILED : status;
}

/* Adds the action with this name. */
static bool
choose(GPtrArray *names, const GPtrArray *tools, const char *name, GError **error)
{
    const char *action;
    if (!ipb_saved_code_check_name(name, &action, error))
        return false;
    g_autofree char *whole = g_strdup_printf(IPB_SAVED_CODE_ACTIONS ".%s", action);
    for (guint i = 0; i < tools->len; i++) {
        g_autofree char *known = name_of(g_ptr_array_index(tools, i));
        if (!g_str_equal(known, whole))
            continue;
        g_ptr_array_add(names, g_steal_pointer(&known));
        return true;
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "no action %s can be tested; see 'ipybox actions list'", whole);
    return false;
}

/* @names: of the actions, or none for all. */
static int
test_actions(const Arguments *arguments, char **names)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) chosen = g_ptr_array_new_with_free_func(g_free);
    Test test = {.arguments = arguments, .names = chosen};
    bool is_all = *names == NULL;
    for (guint i = 0; is_all && i < arguments->tools->len; i++)
        g_ptr_array_add(chosen, name_of(g_ptr_array_index(arguments->tools, i)));
    for (; *names != NULL; names++)
        if (!choose(chosen, arguments->tools, *names, &error))
            return fail(error);
    bool is_faulty = is_all && report_unreadable(arguments);
    int status = run_tests(&test);
    return status == IPB_EXIT_OK && is_faulty ? IPB_EXIT_FAILED : status;
}

/* --- remove ----------------------------------------------------------------------------------- */

static int
remove_action(const Arguments *arguments, const char *name)
{
    g_autoptr(GError) error = NULL;
    const char *action;
    if (!ipb_saved_code_check_name(name, &action, &error) ||
        !ipb_saved_code_remove_action(arguments->workspace, action, &error))
        return fail(error);
    return IPB_EXIT_OK;
}

/* --- the command line ------------------------------------------------------------------------- */

static int
run_command(const Arguments *arguments, int argc, char **argv)
{
    static const char *const COMMANDS[] = {"list", "test", "remove", NULL};
    const char *what = argc > 1 ? argv[1] : "list";
    if (g_str_equal(what, "list") && argc <= 2)
        return list_actions(arguments);
    if (g_str_equal(what, "test"))
        return test_actions(arguments, argv + 2);
    if (g_str_equal(what, "remove") && argc == 3)
        return remove_action(arguments, argv[2]);
    return ipb_cli_fail_command(&ipb_verb_actions, what, COMMANDS);
}

static int
run_actions(int argc, char **argv)
{
    Arguments arguments = {.run.kernel.is_sandboxed = TRUE};
    const GOptionEntry options[] = {
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.run.kernel.workspace,
         "directory that has the folder gentools (default: .)", "DIR"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &arguments.as_json,
         "print the list, or the results of tests, as JSON", NULL},
        {"timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.run.timeout_s,
         "interrupt the test of an action after this time (default: never)", "SECONDS"},
        IPB_OPTION_APPROVE(&arguments.run.approval,
                           "allow, ask (default), deny, or a file of rules"),
        IPB_OPTION_AUDIT_LOG(&arguments.run.approval),
        IPB_OPTION_APPROVAL_TIMEOUT(&arguments.run.approval),
        IPB_OPTION_PYTHON(&arguments.run.kernel),
        IPB_OPTION_SANDBOX_CONFIG(&arguments.run.kernel, ""),
        IPB_OPTION_LOG_LEVEL(&arguments.run.log_level),
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(
            &ipb_verb_actions, options,
            "Commands:\n  list                 print the signatures of the actions "
            "(default)\n  test NAME            import these actions in a sandbox, or all "
            "without NAME, and call the\n                       functions test_… of "
            "their test.py\n"
            "  remove NAME          remove an action with all of its files\n\n"
            "NAME is CATEGORY.NAME, for gentools/CATEGORY/NAME in the workspace.\n\n"
            "Exit status: 0 success, 1 an action is not valid or its test failed, 2 "
            "wrong usage,\n3 something is missing.\n\n"
            "Example:\n  ipybox actions test github.commits_of_top_repos",
            &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    if (ipb_run_arguments_check(&arguments.run, &error) && read_actions(&arguments, &error))
        status = run_command(&arguments, argc, argv);
    else
        status = fail(error);
    clear(&arguments);
    return status;
}

const IpbVerb ipb_verb_actions = {"actions", "[list | test [NAME…] | remove NAME]",
                                  "list, test or remove saved code actions", run_actions};
