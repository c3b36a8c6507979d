/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox run`: runs a file, a string or standard input as one cell, or the cells of a notebook. It
 * shows output as it arrives, asks at the terminal before tool calls, and saves plots and prints
 * their paths.
 */
#include <string.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/run-notebook.h"
#include "cli/run-session.h"

#define MAX_CODE_SIZE (32u * 1024 * 1024)

typedef struct {
    IpbRunArguments run;
    char *code;
    int saves; /* the outputs, into the notebook */
} RunArguments;

/* --- code ------------------------------------------------------------------------------------- */

/* One cell. */
typedef struct {
    const char *code; /* NULL: it was taken */
} OneCell;

static const char *
take_code(void *data, IpbRunCell *ret_cell)
{
    OneCell *one = data;
    const char *code = one->code;
    one->code = NULL;
    return code;
}

static bool
on_end(void *data, const IpyboxResult *result)
{
    return ipybox_result_get_status(result) == IPYBOX_STATUS_OK;
}

/* Returns the exit status. */
static int
execute(const RunArguments *arguments, const char *code)
{
    OneCell one = {code};
    IpbRunCells cells = {.next = take_code, .on_end = on_end, .data = &one};
    return ipb_run_session(&ipb_verb_run, &arguments->run, &cells);
}

/* A link in the workspace may be a cell's of an earlier run, which would read the target in this
 * one. */
static bool
read_file(const RunArguments *arguments, const char *path, char **ret_code, size_t *ret_size,
          GError **error)
{
    g_autofree char *workspace = ipb_run_arguments_workspace(&arguments->run);
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    if (g_str_equal(path, "-"))
        return ipb_file_read_to_end("/dev/stdin", MAX_CODE_SIZE, ret_code, ret_size, error);
    if (arguments->run.kernel.is_sandboxed && ipb_beneath_contains(workspace, absolute))
        return ipb_beneath_read_in(workspace, absolute, MAX_CODE_SIZE, ret_code, ret_size, error);
    return ipb_file_read_to_end(path, MAX_CODE_SIZE, ret_code, ret_size, error);
}

/* --- a notebook ------------------------------------------------------------------------------- */

static const char *
take_next_cell(void *data, IpbRunCell *ret_cell)
{
    return ipb_run_notebook_next(data);
}

static void
on_notebook_event(void *data, const IpyboxEvent *event)
{
    ipb_run_notebook_add(data, event);
}

static bool
on_notebook_cell_end(void *data, const IpyboxResult *result)
{
    return ipb_run_notebook_end_cell(data, result);
}

static void
on_notebook_failure(void *data)
{
    ipb_cli_say(&ipb_verb_run, "the notebook ended at its cell %zu", ipb_run_notebook_number(data));
}

/* Saves the outputs, however it ended. Returns the exit status. */
static int
save(IpbRunNotebook *notebook, int status)
{
    g_autoptr(GError) error = NULL;
    if (ipb_run_notebook_save(notebook, &error))
        return status;
    ipb_cli_say(&ipb_verb_run, "%s", error->message);
    return status != IPB_EXIT_OK ? status : IPB_EXIT_FAILED;
}

/* Runs the cells of a notebook. Returns the exit status. */
static int
execute_notebook(const RunArguments *arguments, const char *path, GError **error)
{
    g_autofree char *workspace = ipb_run_arguments_workspace(&arguments->run);
    IpbRunNotebook *notebook = ipb_run_notebook_open(
        arguments->run.kernel.is_sandboxed ? workspace : NULL, path, arguments->saves, error);
    if (notebook == NULL)
        return IPB_EXIT_FAILED;
    IpbRunCells cells = {
        .next = take_next_cell,
        .on_event = on_notebook_event,
        .on_end = on_notebook_cell_end,
        .on_failure = on_notebook_failure,
        .data = notebook,
        .is_sequence = true,
    };
    int status = ipb_run_session(&ipb_verb_run, &arguments->run, &cells);
    if (cells.has_begun)
        status = save(notebook, status);
    ipb_run_notebook_free(notebook);
    return status;
}

/* --- the command line ------------------------------------------------------------------------- */

static bool
is_notebook(const RunArguments *arguments, int argc, char **argv)
{
    return arguments->code == NULL && argc == 2 && g_str_has_suffix(argv[1], ".ipynb");
}

/* The code of -c, of the file, or of standard input for "-". Caller frees. */
static char *
read_code(const RunArguments *arguments, int argc, char **argv, GError **error)
{
    if ((arguments->code != NULL) == (argc > 1) || argc > 2) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "give one of: FILE.py, NOTEBOOK.ipynb, -c CODE, - (standard input)");
        return NULL;
    }
    if (arguments->code != NULL)
        return g_strdup(arguments->code);
    char *code;
    size_t size;
    if (!read_file(arguments, argv[1], &code, &size, error))
        return NULL;
    if (strlen(code) < size) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s contains a NUL byte", argv[1]);
        g_free(code);
        return NULL;
    }
    const char *text = code;
    if (ipb_utf8_skip_mark(&text, &size)) /* Python accepts such files, too */
        memmove(code, text, size + 1);
    return code;
}

static bool
check_saves(const RunArguments *arguments, int argc, char **argv, GError **error)
{
    if (!arguments->saves || is_notebook(arguments, argc, argv))
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "--save needs a notebook: NOTEBOOK.ipynb");
    return false;
}

static int
run_run(int argc, char **argv)
{
    RunArguments arguments = {.run.kernel.is_sandboxed = TRUE};
    const GOptionEntry options[] = {
        {"code", 'c', 0, G_OPTION_ARG_STRING, &arguments.code, "run CODE", "CODE"},
        IPB_OPTIONS_RUN(&arguments.run),
        IPB_OPTION_STAGED(&arguments.run.kernel, ", and review it at the end"),
        IPB_OPTION_STAGING_DIR(&arguments.run.kernel),
        {"save", 0, 0, G_OPTION_ARG_NONE, &arguments.saves, "write the outputs into the notebook",
         NULL},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(
            &ipb_verb_run, options,
            "The kernel runs in a sandbox. Without --sandbox-config it can write the workspace, "
            "and has no\n"
            "network.\n\nExit status: 0 success, 1 the code failed, 2 wrong usage, 3 something is "
            "missing,\n124 timeout, 130 interrupted.\n\nExample:\n  ipybox run -c '6 * 7'",
            &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    g_autofree char *code = NULL;
    if (ipb_run_arguments_check(&arguments.run, &error) &&
        check_saves(&arguments, argc, argv, &error)) {
        if (is_notebook(&arguments, argc, argv))
            status = execute_notebook(&arguments, argv[1], &error);
        else if ((code = read_code(&arguments, argc, argv, &error)) != NULL)
            status = execute(&arguments, code);
    }
    if (error != NULL)
        status = ipb_cli_fail(&ipb_verb_run, ipb_cli_status(error), "%s", error->message);
    ipb_run_arguments_clear(&arguments.run);
    g_free(arguments.code);
    return status;
}

const IpbVerb ipb_verb_run = {"run", "FILE.py | NOTEBOOK.ipynb | -c CODE | -",
                              "run Python code as one cell, or a notebook", run_run};
