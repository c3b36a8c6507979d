/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs recorded cells again; see the header. A cell that was stopped then (a timeout, an interrupt)
 * would perhaps never end: it gets the time that it had.
 */
#include "cli/replay.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "cli/replay-difference.h"
#include "cli/run-outputs.h"
#include "cli/run-session.h"
#include "json/writer.h"
#include "notebook/file-changes.h"

/* The least time of a cell that was stopped then, and its time if the record does not say it. */
#define MIN_STOPPED_MS 1000
#define DEFAULT_STOPPED_MS 60000
/* Characters of a line that is shown to people. */
#define MAX_SHOWN 200
/* Where generated packages are, as cells import them. */
#define TOOLS_ROOT "mcptools"

typedef struct {
    const IpbRecordingCell *recorded;
    const char *why_skipped; /* NULL: it runs */
    bool has_ended;
    size_t outputs; /* its index in those of the replay */
    IpyboxStatus status;
    char *files; /* what it has changed in a staged workspace, as text; or NULL */
} Cell;

typedef struct {
    const IpbRecording *recording;
    const IpbRecordingSession *session;
    GArray *cells;  /* Cell */
    bool is_staged; /* the recorded session was, and the new one is */
    guint n_taken;
    size_t n_begun;
    size_t kernel; /* the recorded one of the last cell; 0: unknown */
    IpbRunOutputs *outputs;
    GError *write_error; /* of the report */
    size_t n_same, n_differing, n_left_out;
} Replay;

/* --- cells ------------------------------------------------------------------------------------ */

static void
clear_cell(void *data)
{
    Cell *cell = data;
    g_free(cell->files);
}

static bool
is_stopped(const char *status)
{
    return g_strcmp0(status, "timeout") == 0 || g_strcmp0(status, "cancelled") == 0;
}

static const char *
find_why_skipped(const IpbRecordingCell *cell)
{
    if (cell->status == NULL)
        return "the record ends before the cell";
    if (cell->execution_count == 0 && cell->begin_time == NULL)
        return "it did not run when it was recorded";
    return NULL;
}

static void
add_cells(Replay *replay, size_t session)
{
    const GPtrArray *cells = ipb_recording_cells(replay->recording);
    for (guint i = 0; i < cells->len; i++) {
        Cell cell = {.recorded = g_ptr_array_index(cells, i)};
        cell.why_skipped = find_why_skipped(cell.recorded);
        if (cell.recorded->session == session)
            g_array_append_val(replay->cells, cell);
    }
}

static unsigned
stopped_ms(const IpbRecordingCell *cell)
{
    g_autoptr(GDateTime) begin =
        cell->begin_time != NULL ? g_date_time_new_from_iso8601(cell->begin_time, NULL) : NULL;
    g_autoptr(GDateTime) end =
        cell->end_time != NULL ? g_date_time_new_from_iso8601(cell->end_time, NULL) : NULL;
    if (begin == NULL || end == NULL)
        return DEFAULT_STOPPED_MS;
    return (unsigned) CLAMP(g_date_time_difference(end, begin) / 1000, MIN_STOPPED_MS,
                            UINT_MAX / 2);
}

static Cell *
current_cell(const Replay *replay)
{
    return &g_array_index(replay->cells, Cell, replay->n_taken - 1);
}

static const char *
take_next(void *data, IpbRunCell *ret_cell)
{
    Replay *replay = data;
    while (replay->n_taken < replay->cells->len) {
        replay->n_taken++;
        Cell *cell = current_cell(replay);
        const IpbRecordingCell *recorded = cell->recorded;
        if (cell->why_skipped != NULL)
            continue;
        if (is_stopped(recorded->status))
            ret_cell->timeout_ms = stopped_ms(recorded);
        ret_cell->is_after_reset =
            replay->kernel != 0 && recorded->kernel != 0 && replay->kernel != recorded->kernel;
        replay->kernel = recorded->kernel;
        cell->outputs = replay->n_begun++;
        ipb_run_outputs_begin_cell(replay->outputs);
        return recorded->code;
    }
    return NULL;
}

static void
on_event(void *data, const IpyboxEvent *event)
{
    const Replay *replay = data;
    if (!ipybox_event_get_is_late(event) && ipybox_event_get_type(event) != IPYBOX_EVENT_NOTICE)
        ipb_run_outputs_add(replay->outputs, event);
}

/* The caller frees it. */
static char *
describe_files(const IpyboxResult *result)
{
    const char *text = ipybox_result_get_changes(result);
    g_autoptr(IpbJsonDoc) document =
        text != NULL ? ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_MESSAGE, NULL) : NULL;
    return ipb_file_changes_text(document != NULL ? ipb_json_root(document) : NULL,
                                 ipybox_result_get_changes_cut(result));
}

static bool
on_end(void *data, const IpyboxResult *result)
{
    Replay *replay = data;
    Cell *cell = current_cell(replay);
    cell->has_ended = true;
    cell->status = ipybox_result_get_status(result);
    cell->files = describe_files(result);
    ipb_run_outputs_end_cell(replay->outputs, ipybox_result_get_execution_count(result));
    return ipb_run_outputs_error(replay->outputs) == NULL;
}

/* --- comparing -------------------------------------------------------------------------------- */

static const char *
status_name(IpyboxStatus status)
{
    static const char *const NAMES[] = {
        [IPYBOX_STATUS_OK] = "ok",           [IPYBOX_STATUS_ERROR] = "error",
        [IPYBOX_STATUS_TIMEOUT] = "timeout", [IPYBOX_STATUS_CANCELLED] = "cancelled",
        [IPYBOX_STATUS_LOST] = "lost",
    };
    return NAMES[status];
}

/* How far such a cell came is chance. */
static bool
is_cut(const char *status)
{
    return is_stopped(status) || g_str_equal(status, "lost");
}

/* The caller frees it. */
static GPtrArray *
compare(const Replay *replay, const Cell *cell)
{
    const IpbRecordingCell *recorded = cell->recorded;
    const char *now = status_name(cell->status);
    GPtrArray *differences = ipb_replay_differences_new();
    if (!is_stopped(recorded->status) || !is_stopped(now))
        ipb_replay_compare(differences, "status", recorded->status, now);
    if (!recorded->is_silent && !is_cut(recorded->status) && !is_cut(now))
        ipb_replay_compare_outputs(
            differences,
            ipb_outputs_get(ipb_recording_outputs(replay->recording), recorded->outputs),
            ipb_outputs_get(ipb_run_outputs_get(replay->outputs), cell->outputs));
    if (replay->is_staged && !is_cut(recorded->status) && !is_cut(now))
        ipb_replay_compare(differences, "files", recorded->files, cell->files);
    return differences;
}

/* --- the report ------------------------------------------------------------------------------- */

static void
print(Replay *replay, const char *text, size_t size)
{
    if (replay->write_error == NULL)
        ipb_fd_write_all(STDOUT_FILENO, text, size, &replay->write_error);
}

/* Its first line, for a terminal. */
static void
append_line(GString *text, const char *name, const char *value)
{
    g_string_append_printf(text, "    %-9s ", name);
    if (value == NULL) {
        g_string_append(text, "(nothing)\n");
        return;
    }
    g_autofree char *line = g_strndup(value, strcspn(value, "\n"));
    g_autofree char *printable = ipb_cli_printable(line);
    const char *end = printable;
    for (int i = 0; i < MAX_SHOWN && *end != '\0'; i++)
        end = g_utf8_next_char(end);
    g_string_append_len(text, printable, end - printable);
    g_string_append(text, *end != '\0' ? "…\n" : "\n");
}

static const IpbNotebookOutput *
find_error(const IpbOutputs *outputs, size_t cell)
{
    const GPtrArray *list = ipb_outputs_get(outputs, cell);
    for (guint i = 0; i < list->len; i++) {
        const IpbNotebookOutput *output = g_ptr_array_index(list, i);
        if (output->kind == IPB_OUTPUT_ERROR)
            return output;
    }
    return NULL;
}

/* The text between the first two quotes after @before; NULL: there is none. */
static char *
find_quoted(const char *text, const char *before)
{
    const char *start = strstr(text, before);
    const char *end = start != NULL ? strchr(start + strlen(before), '\'') : NULL;
    return end != NULL ? g_strndup(start + strlen(before), (gsize) (end - start) - strlen(before))
                       : NULL;
}

/* The module that an import in the cell did not find, although it did when it was recorded; or
 * NULL. */
static char *
find_missing_module(const Replay *replay, const Cell *cell)
{
    const IpbNotebookOutput *now = find_error(ipb_run_outputs_get(replay->outputs), cell->outputs);
    const IpbNotebookOutput *then =
        find_error(ipb_recording_outputs(replay->recording), cell->recorded->outputs);
    if (now == NULL || (then != NULL && g_str_equal(then->ename, now->ename)))
        return NULL;
    if (g_str_equal(now->ename, "ModuleNotFoundError"))
        return find_quoted(now->evalue, "No module named '");
    if (!g_str_equal(now->ename, "ImportError"))
        return NULL;
    g_autofree char *name = find_quoted(now->evalue, "cannot import name '");
    g_autofree char *package = find_quoted(now->evalue, " from '");
    return name != NULL && package != NULL ? g_strdup_printf("%s.%s", package, name) : NULL;
}

/* Is @module, or may it be, of a package of the program's tools? */
static bool
is_of_program(const Replay *replay, const char *module)
{
    for (guint i = 0; i < replay->session->tools->len; i++) {
        const char *name = g_ptr_array_index(replay->session->tools, i);
        g_autofree char *package = g_strdup_printf(TOOLS_ROOT ".%s", name);
        g_autofree char *below = g_strconcat(package, ".", NULL);
        if (g_str_equal(module, TOOLS_ROOT) || g_str_equal(module, package) ||
            g_str_has_prefix(module, below))
            return true;
    }
    return false;
}

static char *
explain_missing_module(const Replay *replay, const char *module)
{
    if (is_of_program(replay, module))
        return g_strdup_printf("%s was made of functions of the program that recorded the session; "
                               "its cells can run only in sessions of that program",
                               module);
    if (g_str_equal(module, TOOLS_ROOT) || g_str_has_prefix(module, TOOLS_ROOT "."))
        return g_strdup_printf("there is no package %s in the workspace: generate it with 'ipybox "
                               "apigen', or name the workspace that has it with --workspace",
                               module);
    return g_strdup_printf(
        "%s cannot be imported here: install it for this Python, or name another "
        "Python with --python",
        module);
}

/* Why the cell may differ; NULL: it is not known. The caller frees it. */
static char *
find_hint(const Replay *replay, const Cell *cell)
{
    g_autofree char *module = find_missing_module(replay, cell);
    if (module != NULL)
        return explain_missing_module(replay, module);
    if (cell->recorded->asks_input)
        return g_strdup("it asks for input, and what was typed is not in a record");
    if (cell->recorded->is_after_discard)
        return g_strdup("changes of files were discarded before it, and a replay does not do that");
    return NULL;
}

static void
show_cell(Replay *replay, const Cell *cell, const char *why, const GPtrArray *differences)
{
    g_autoptr(GString) text = g_string_new(NULL);
    if (why == NULL && differences->len == 0)
        return;
    g_autofree char *found = why == NULL ? find_hint(replay, cell) : NULL;
    g_autofree char *hint = found != NULL ? ipb_cli_printable(found) : NULL;
    g_string_append_printf(text, "cell %" G_GINT64_FORMAT, cell->recorded->number);
    if (why != NULL)
        g_string_append_printf(text, " was not run: %s\n", why);
    else
        g_string_append_printf(text, " differs%s%s\n", hint != NULL ? ": " : "",
                               hint != NULL ? hint : "");
    for (guint i = 0; why == NULL && i < differences->len; i++) {
        const IpbReplayDifference *difference = g_ptr_array_index(differences, i);
        g_string_append_printf(text, "  %s", difference->what);
        if (difference->line > 1)
            g_string_append_printf(text, ", line %zu", difference->line);
        g_string_append(text, "\n");
        append_line(text, "recorded:", difference->recorded);
        append_line(text, "now:", difference->now);
    }
    print(replay, text->str, text->len);
}

static void
print_json(Replay *replay, IpbJsonWriter *writer)
{
    size_t size;
    ipb_json_end_object(writer);
    g_autofree char *json = ipb_json_writer_finish(writer, &size);
    json[size] = '\n'; /* in place of the NUL */
    print(replay, json, size + 1);
}

static void
write_cell(Replay *replay, const Cell *cell, const char *why, const GPtrArray *differences)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "cell", cell->recorded->number);
    ipb_json_member_string(writer, "outcome",
                           why != NULL             ? "not run"
                           : differences->len == 0 ? "same"
                                                   : "differs");
    if (why != NULL)
        ipb_json_member_string(writer, "reason", why);
    if (cell->recorded->asks_input)
        ipb_json_member_bool(writer, "asks_input", true);
    g_autofree char *hint = why == NULL && differences->len > 0 ? find_hint(replay, cell) : NULL;
    if (hint != NULL)
        ipb_json_member_string(writer, "hint", hint);
    ipb_json_key(writer, "differences");
    ipb_json_begin_array(writer);
    for (guint i = 0; why == NULL && i < differences->len; i++) {
        const IpbReplayDifference *difference = g_ptr_array_index(differences, i);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "what", difference->what);
        ipb_json_member_int(writer, "line", (int64_t) difference->line);
        ipb_json_member_string(writer, "recorded", difference->recorded);
        ipb_json_member_string(writer, "now", difference->now);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    print_json(replay, writer);
}

static void
report_cell(Replay *replay, const Cell *cell, bool is_json)
{
    const char *why = cell->why_skipped;
    if (why == NULL && !cell->has_ended)
        why = "the replay ended before it";
    g_autoptr(GPtrArray) differences = why == NULL ? compare(replay, cell) : NULL;
    if (why != NULL)
        replay->n_left_out++;
    else if (differences->len > 0)
        replay->n_differing++;
    else
        replay->n_same++;
    if (is_json)
        write_cell(replay, cell, why, differences);
    else
        show_cell(replay, cell, why, differences);
}

static void
report_sum(Replay *replay, bool is_json)
{
    if (is_json) {
        IpbJsonWriter *writer = ipb_json_writer_new();
        ipb_json_begin_object(writer);
        ipb_json_member_int(writer, "same", (int64_t) replay->n_same);
        ipb_json_member_int(writer, "differing", (int64_t) replay->n_differing);
        ipb_json_member_int(writer, "not_run", (int64_t) replay->n_left_out);
        print_json(replay, writer);
        return;
    }
    g_autofree char *text =
        g_strdup_printf("%zu the same, %zu differing, %zu not run\n", replay->n_same,
                        replay->n_differing, replay->n_left_out);
    print(replay, text, strlen(text));
}

/* --- life ------------------------------------------------------------------------------------- */

static bool
find_session(const IpbRecording *recording, const char *given, size_t *ret_session, GError **error)
{
    guint n = ipb_recording_sessions(recording)->len;
    uint64_t number = 1;
    if (given == NULL && n > 1) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the record has %u sessions: choose one with --session, from 1", n);
        return false;
    }
    if (given != NULL && !g_ascii_string_to_unsigned(given, 10, 1, n, &number, NULL)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--session must be a number from 1 to %u, the sessions of the record", n);
        return false;
    }
    *ret_session = number - 1;
    return true;
}

static int
run_cells(Replay *replay, const IpbVerb *verb, const IpbReplayArguments *arguments)
{
    IpbRunCells cells = {
        .next = take_next,
        .on_event = on_event,
        .on_end = on_end,
        .data = replay,
        .is_sequence = true,
        .is_quiet = true,
        .drops_files = true,
    };
    int status = ipb_run_session(verb, &arguments->run, &cells);
    const GError *error = ipb_run_outputs_error(replay->outputs);
    if (error != NULL)
        status = ipb_cli_fail(verb, IPB_EXIT_FAILED, "%s", error->message);
    if (cells.has_begun || status == IPB_EXIT_OK) {
        for (guint i = 0; i < replay->cells->len; i++)
            report_cell(replay, &g_array_index(replay->cells, Cell, i), arguments->is_json);
        report_sum(replay, arguments->is_json);
    }
    return status;
}

/* As with diff(1) and cmp(1), 1 says only that something differs. */
static int
find_status(const Replay *replay, const IpbVerb *verb, int status)
{
    if (replay->write_error != NULL && !ipb_cli_has_reader(STDOUT_FILENO))
        return IPB_EXIT_NO_READER;
    if (replay->write_error != NULL) {
        ipb_cli_say(verb, "%s", replay->write_error->message);
        return IPB_EXIT_USAGE;
    }
    if (status == IPB_EXIT_OK)
        return replay->n_differing > 0 ? IPB_EXIT_FAILED : IPB_EXIT_OK;
    return status == IPB_EXIT_FAILED ? IPB_EXIT_USAGE : status;
}

/* Cells of a staged session wrote no file of the workspace. They do not in a replay either. */
static bool
check_staged(const IpbReplayArguments *arguments, const IpbRecordingSession *session,
             GError **error)
{
    if (session->layer == NULL || arguments->run.kernel.is_sandboxed)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "the recorded session had a staged workspace, and so has its replay, which "
                        "needs a sandbox: leave out --no-sandbox");
    return false;
}

int
ipb_replay(const IpbVerb *verb, const IpbReplayArguments *given, const IpbRecording *recording,
           GError **error)
{
    size_t session;
    IpbReplayArguments own = *given, *arguments = &own;
    if (!find_session(recording, arguments->session, &session, error))
        return IPB_EXIT_USAGE;
    const IpbRecordingSession *recorded =
        g_ptr_array_index(ipb_recording_sessions(recording), session);
    if (!check_staged(arguments, recorded, error))
        return IPB_EXIT_USAGE;
    if (recorded->layer != NULL)
        own.run.kernel.is_staged = true;
    Replay replay = {
        .is_staged = recorded->layer != NULL,
        .recording = recording,
        .session = recorded,
        .cells = g_array_new(FALSE, FALSE, sizeof(Cell)),
        .outputs = ipb_run_outputs_new(),
    };
    g_array_set_clear_func(replay.cells, clear_cell);
    add_cells(&replay, session);
    int status = find_status(&replay, verb, run_cells(&replay, verb, arguments));
    g_array_unref(replay.cells);
    ipb_run_outputs_free(replay.outputs);
    g_clear_error(&replay.write_error);
    return status;
}
