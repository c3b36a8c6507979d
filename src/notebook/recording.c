/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a record line by line; see the header. A line that is no JSON is ignored where a crash of
 * the machine or a full disk may have cut it: at the end of the file, or before a header.
 */
#include "notebook/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/fd.h"
#include "json/lines.h"
#include "notebook/file-changes.h"

/* The newest version of the format that is known: that of session/record.h. */
#define MAX_FORMAT 1
/* Bytes of a line, as in session/record.c. */
#define MAX_LINE (256u * 1024 * 1024)
/* Bytes of the file, which bounds the code and the names in it. */
#define MAX_FILE ((int64_t) 2 * 1024 * 1024 * 1024)
#define MAX_CELLS 1000000
#define MAX_SESSIONS 100000
#define MAX_CALLS 100000
#define MAX_REVIEWS 100000
#define MAX_PACKAGES 64 /* as in tools/application-tools.h */
#define MAX_LAYER 64    /* bytes of its name */
#define MAX_VERSION 64
#define CHUNK_SIZE (64 * 1024)

struct IpbRecording {
    GPtrArray *cells, *sessions;
    IpbOutputs *outputs;
};

typedef struct {
    IpbRecording *recording;
    GHashTable *numbers;    /* number of a cell in this session → IpbRecordingCell, or SILENT */
    IpbRecordingCell *last; /* of this session, or NULL */
    IpbRecordingUse use;
    size_t n_kernels; /* of this session, that were ready */
    size_t line;
    size_t n_calls, n_reviews;
    GError *torn; /* of the line before, unless a header follows */
    size_t n_torn;
} Reader;

/* A cell whose lines are left out. */
static const IpbRecordingCell SILENT;

static void
free_note(void *data)
{
    IpbRecordingNote *note = data;
    g_free(note->time);
    g_free(note->text);
    g_free(note);
}

static void
free_cell(void *data)
{
    IpbRecordingCell *cell = data;
    g_free(cell->code);
    g_free(cell->begin_time);
    g_free(cell->end_time);
    g_free(cell->status);
    g_ptr_array_unref(cell->calls);
    g_ptr_array_unref(cell->reviews);
    g_free(cell->files);
    g_free(cell);
}

static void
free_session(void *data)
{
    IpbRecordingSession *session = data;
    g_free(session->time);
    g_free(session->version);
    g_free(session->layer);
    g_ptr_array_unref(session->tools);
    g_free(session);
}

void
ipb_recording_free(IpbRecording *recording)
{
    if (recording == NULL)
        return;
    g_ptr_array_unref(recording->cells);
    g_ptr_array_unref(recording->sessions);
    ipb_outputs_free(recording->outputs);
    g_free(recording);
}

const GPtrArray *
ipb_recording_cells(const IpbRecording *recording)
{
    return recording->cells;
}

const GPtrArray *
ipb_recording_sessions(const IpbRecording *recording)
{
    return recording->sessions;
}

const IpbOutputs *
ipb_recording_outputs(const IpbRecording *recording)
{
    return recording->outputs;
}

/* --- members of lines ------------------------------------------------------------------------- */

static bool
refuse(GError **error, IpyboxError code, const char *what)
{
    g_set_error_literal(error, IPYBOX_ERROR, (int) code, what);
    return false;
}

/* NULL with @error. */
static const char *
need_string(const IpbJson *line, const char *name, GError **error)
{
    const char *text = ipb_json_get_string(line, name);
    if (text == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "\"%s\" must be a string", name);
    return text;
}

/* 0: it is not there, or not a positive number. */
static int64_t
get_count(const IpbJson *line, const char *name)
{
    int64_t count;
    return ipb_json_get_int64(line, name, &count) && count > 0 ? count : 0;
}

static char *
copy_time(const IpbJson *line)
{
    const char *text = ipb_json_get_string(line, "time");
    g_autoptr(GDateTime) time = text != NULL ? g_date_time_new_from_iso8601(text, NULL) : NULL;
    return time != NULL ? g_strdup(text) : NULL;
}

static char *
copy_version(const IpbJson *line)
{
    const char *text = ipb_json_get_string(line, "ipybox");
    bool is_plain = text != NULL && strlen(text) <= MAX_VERSION &&
                    text[strspn(text, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS ".~+-")] == '\0';
    return is_plain ? g_strdup(text) : NULL;
}

/* --- lines ------------------------------------------------------------------------------------ */

static bool
read_header(Reader *reader, const IpbJson *line, GError **error)
{
    IpbRecording *recording = reader->recording;
    int64_t format = get_count(line, "format");
    if (format == 0 || format > MAX_FORMAT) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "its format is not known: this ipybox reads records up to format %d",
                    MAX_FORMAT);
        return false;
    }
    if (recording->sessions->len >= MAX_SESSIONS)
        return refuse(error, IPYBOX_ERROR_LIMIT, "the record has too many sessions");
    IpbRecordingSession *session = g_new0(IpbRecordingSession, 1);
    session->time = copy_time(line);
    session->version = copy_version(line);
    session->tools = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(recording->sessions, session);
    g_hash_table_remove_all(reader->numbers);
    ipb_outputs_forget_displays(recording->outputs);
    reader->last = NULL;
    reader->n_kernels = 0;
    return true;
}

static IpbRecordingSession *
current_session(const Reader *reader)
{
    const GPtrArray *sessions = reader->recording->sessions;
    return g_ptr_array_index(sessions, sessions->len - 1);
}

static bool
read_cell(Reader *reader, const IpbJson *line, GError **error)
{
    IpbRecording *recording = reader->recording;
    const char *code = need_string(line, "code", error);
    int64_t number = get_count(line, "cell");
    if (code == NULL)
        return false;
    if (number == 0 || g_hash_table_contains(reader->numbers, &number))
        return refuse(error, IPYBOX_ERROR_PROTOCOL, "\"cell\" must be a new number above 0");
    if (g_hash_table_size(reader->numbers) >= MAX_CELLS || recording->cells->len >= MAX_CELLS)
        return refuse(error, IPYBOX_ERROR_LIMIT, "the record has too many cells");
    int64_t *key = g_new(int64_t, 1);
    *key = number;
    bool is_silent = ipb_json_get_bool(line, "silent", false);
    if (is_silent && reader->use == IPB_RECORDING_DOCUMENT) {
        g_hash_table_insert(reader->numbers, key, (void *) &SILENT);
        return true;
    }
    IpbRecordingCell *cell = g_new0(IpbRecordingCell, 1);
    cell->session = recording->sessions->len - 1;
    cell->number = number;
    cell->is_silent = is_silent;
    cell->code = g_strdup(code);
    cell->calls = g_ptr_array_new_with_free_func(free_note);
    cell->reviews = g_ptr_array_new_with_free_func(free_note);
    cell->is_after_discard = current_session(reader)->has_discard;
    cell->outputs = ipb_outputs_add_cell(recording->outputs);
    g_ptr_array_add(recording->cells, cell);
    g_hash_table_insert(reader->numbers, key, cell);
    reader->last = cell;
    return true;
}

static bool
add_text(Reader *reader, const IpbRecordingCell *cell, const IpbJson *line, bool is_stderr,
         GError **error)
{
    const char *text = need_string(line, "text", error);
    if (text == NULL)
        return false;
    ipb_outputs_add_text(reader->recording->outputs, cell->outputs, is_stderr, text);
    return true;
}

/* A notice is a line of its own, as `ipybox run` and the gateway show it. */
static bool
add_notice(Reader *reader, const IpbRecordingCell *cell, const IpbJson *line, GError **error)
{
    const char *text = need_string(line, "text", error);
    if (text == NULL)
        return false;
    g_autofree char *notice = g_strconcat(text, g_str_has_suffix(text, "\n") ? "" : "\n", NULL);
    ipb_outputs_add_text(reader->recording->outputs, cell->outputs, true, notice);
    return true;
}

static bool
add_error(Reader *reader, const IpbRecordingCell *cell, const IpbJson *line, GError **error)
{
    const char *ename = need_string(line, "ename", error);
    const char *evalue = ename != NULL ? need_string(line, "evalue", error) : NULL;
    const char *traceback = evalue != NULL ? need_string(line, "traceback", error) : NULL;
    if (traceback == NULL)
        return false;
    ipb_outputs_add_error(reader->recording->outputs, cell->outputs, ename, evalue, traceback);
    return true;
}

static bool
add_bundle(Reader *reader, const IpbRecordingCell *cell, const IpbJson *line, const char *type,
           GError **error)
{
    IpbOutputs *outputs = reader->recording->outputs;
    const IpbJson *data = ipb_json_get(line, "data"), *metadata = ipb_json_get(line, "metadata");
    const char *display_id = ipb_json_get_string(line, "display_id");
    if (g_str_equal(type, "update"))
        return ipb_outputs_update(outputs, data, metadata, display_id, error);
    bool is_result = g_str_equal(type, "result");
    return ipb_outputs_add_bundle(outputs, cell->outputs,
                                  is_result ? IPB_OUTPUT_RESULT : IPB_OUTPUT_DISPLAY, data,
                                  metadata, display_id, get_count(line, "execution_count"), error);
}

static char *
describe_call(const IpbJson *line)
{
    const char *server = ipb_json_get_string(line, "server");
    const char *tool = ipb_json_get_string(line, "tool");
    const char *decision = ipb_json_get_string(line, "decision");
    const char *by = ipb_json_get_string(line, "by");
    const IpbJson *arguments = ipb_json_get(line, "arguments");
    g_autofree char *shown = NULL;
    if (arguments != NULL) {
        IpbSpan raw = ipb_json_raw(arguments);
        shown = g_strndup(raw.start, raw.size);
    }
    return g_strdup_printf("%s.%s %s: %s by %s", server != NULL ? server : "?",
                           tool != NULL ? tool : "?", shown != NULL ? shown : "(…)",
                           decision != NULL ? decision : "?", by != NULL ? by : "?");
}

static bool
add_call(Reader *reader, IpbRecordingCell *cell, const IpbJson *line, GError **error)
{
    if (reader->n_calls++ >= MAX_CALLS)
        return refuse(error, IPYBOX_ERROR_LIMIT, "the record has too many tool calls");
    IpbRecordingNote *note = g_new0(IpbRecordingNote, 1);
    note->time = copy_time(line);
    note->text = describe_call(line);
    g_ptr_array_add(cell->calls, note);
    return true;
}

/* How a cell ended that did not raise: a reader sees it where Jupyter shows errors. */
static bool
end_cell(Reader *reader, IpbRecordingCell *cell, const IpbJson *line, GError **error)
{
    static const char *const STATUSES[] = {"ok", "error", "timeout", "cancelled", "lost", NULL};
    const char *status = need_string(line, "status", error);
    if (status == NULL)
        return false;
    if (!g_strv_contains(STATUSES, status))
        return refuse(error, IPYBOX_ERROR_PROTOCOL, "\"status\" is not known");
    const char *message = ipb_json_get_string(line, "message");
    g_free(cell->status);
    cell->status = g_strdup(status);
    g_free(cell->end_time);
    cell->end_time = copy_time(line);
    g_free(cell->files);
    cell->files = ipb_file_changes_text(ipb_json_get(line, "changes"),
                                        ipb_json_get_string(line, "changes_cut"));
    if (get_count(line, "execution_count") > 0)
        cell->execution_count = get_count(line, "execution_count");
    if (message != NULL && !g_str_equal(status, "ok") && reader->use == IPB_RECORDING_DOCUMENT) {
        g_autofree char *text = g_strdup_printf("[ipybox] %s: %s\n", status, message);
        ipb_outputs_add_text(reader->recording->outputs, cell->outputs, true, text);
    }
    return true;
}

/* "layer-…", as ipybox names it. */
static bool
is_layer(const char *name)
{
    return name != NULL && *name != '\0' && strlen(name) <= MAX_LAYER &&
           name[strspn(name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-_")] == '\0';
}

static bool
read_staged(const Reader *reader, const IpbJson *line, GError **error)
{
    IpbRecordingSession *session = current_session(reader);
    const char *layer = ipb_json_get_string(line, "layer");
    if (!is_layer(layer) || session->layer != NULL)
        return refuse(error, IPYBOX_ERROR_PROTOCOL, "\"layer\" must be a name, once");
    session->layer = g_strdup(layer);
    return true;
}

static bool
read_tools(const Reader *reader, const IpbJson *line, GError **error)
{
    GPtrArray *tools = current_session(reader)->tools;
    IPB_JSON_FOREACH (item, ipb_json_get(line, "packages")) {
        const char *name = ipb_json_string(item, NULL);
        if (name == NULL || tools->len >= MAX_PACKAGES)
            return refuse(error, IPYBOX_ERROR_PROTOCOL,
                          "\"packages\" must be an array of at most 64 names");
        g_ptr_array_add(tools, g_strdup(name));
    }
    return true;
}

/* "2 committed, 1 not", and the changes. */
static char *
describe_review(const IpbJson *line, bool is_discard)
{
    const char *what = is_discard ? "discarded" : "committed";
    const char *failure = ipb_json_get_string(line, "error");
    const IpbJson *result = ipb_json_get(line, "result");
    if (failure != NULL) {
        g_autofree char *printable = g_utf8_make_valid(failure, -1);
        return g_strdup_printf("nothing was %s: %s\n", what, g_strdelimit(printable, "\n", ' '));
    }
    int64_t total = get_count(result, "total"), n_problems = get_count(result, "problems");
    const IpbJson *changes = ipb_json_get(result, "changes");
    g_autofree char *files = ipb_file_changes_text(changes, ipb_json_get_string(result, "cut"));
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "%" G_GINT64_FORMAT " %s", MAX(total - n_problems, 0), what);
    if (n_problems > 0)
        g_string_append_printf(text, ", %" G_GINT64_FORMAT " not", n_problems);
    g_string_append_printf(text, "\n%s", files != NULL ? files : "");
    int64_t n_shown = changes != NULL ? (int64_t) ipb_json_length(changes) : 0;
    if (total > n_shown)
        g_string_append_printf(text, "… and %" G_GINT64_FORMAT " more\n", total - n_shown);
    return g_string_free(text, FALSE);
}

/* Of the cell before, since nothing else says when it was. A session's lines may be followed by one
 * of an earlier session, whose changes were reviewed after its end: that is left out. */
static bool
read_review(Reader *reader, const IpbJson *line, bool is_discard, GError **error)
{
    IpbRecordingSession *session = current_session(reader);
    IpbRecordingCell *cell = reader->last;
    if (g_strcmp0(session->layer, ipb_json_get_string(line, "layer")) != 0)
        return true;
    session->has_discard = session->has_discard || is_discard;
    if (cell == NULL)
        return true;
    if (reader->n_reviews++ >= MAX_REVIEWS)
        return refuse(error, IPYBOX_ERROR_LIMIT, "the record has too many commits");
    IpbRecordingNote *note = g_new0(IpbRecordingNote, 1);
    note->time = copy_time(line);
    note->text = describe_review(line, is_discard);
    g_ptr_array_add(cell->reviews, note);
    return true;
}

static bool
read_line_of_cell(Reader *reader, IpbRecordingCell *cell, const char *type, const IpbJson *line,
                  GError **error)
{
    if (g_str_equal(type, "stdout") || g_str_equal(type, "late"))
        return add_text(reader, cell, line, false, error);
    if (g_str_equal(type, "stderr"))
        return add_text(reader, cell, line, true, error);
    if (g_str_equal(type, "notice") || g_str_equal(type, "start_failed"))
        return reader->use == IPB_RECORDING_REPLAY || add_notice(reader, cell, line, error);
    if (g_str_equal(type, "display") || g_str_equal(type, "update") || g_str_equal(type, "result"))
        return add_bundle(reader, cell, line, type, error);
    if (g_str_equal(type, "error"))
        return add_error(reader, cell, line, error);
    if (g_str_equal(type, "tool_call"))
        return add_call(reader, cell, line, error);
    if (g_str_equal(type, "done"))
        return end_cell(reader, cell, line, error);
    if (g_str_equal(type, "clear_output")) {
        ipb_outputs_clear(reader->recording->outputs, cell->outputs,
                          ipb_json_get_bool(line, "wait", false));
    } else if (g_str_equal(type, "started")) {
        g_free(cell->begin_time);
        cell->begin_time = copy_time(line);
        cell->execution_count = get_count(line, "execution_count");
        cell->kernel = reader->n_kernels;
    } else if (g_str_equal(type, "input_request")) {
        cell->asks_input = true;
    }
    return true; /* a later version may have further types */
}

/* Late output of which no one knows the cell. */
static bool
is_of_unknown(const IpbJson *line)
{
    return ipb_json_get(line, "cell") == NULL && ipb_json_get_bool(line, "late", false);
}

static bool
is_output(const char *type)
{
    return g_str_equal(type, "stdout") || g_str_equal(type, "stderr") ||
           g_str_equal(type, "display") || g_str_equal(type, "result") ||
           g_str_equal(type, "error");
}

/* A clear_output of an unknown cell would clear what other cells have shown. */
static bool
clears_other_output(const IpbJson *line, const char *type)
{
    return g_str_equal(type, "clear_output") && is_of_unknown(line);
}

/* When it came is chance. */
static bool
is_late(const IpbJson *line, const char *type)
{
    return ipb_json_get_bool(line, "late", false) || g_str_equal(type, "late");
}

/* Lines of no cell belong to the last one, whose threads may have caused them. */
static bool
read_other_line(Reader *reader, const char *type, const IpbJson *line, GError **error)
{
    const IpbJson *number = ipb_json_get(line, "cell");
    IpbRecordingCell *cell = reader->last;
    if (number != NULL) {
        int64_t key;
        cell = ipb_json_int64(number, &key) ? g_hash_table_lookup(reader->numbers, &key) : NULL;
        if (cell == NULL)
            return refuse(error, IPYBOX_ERROR_PROTOCOL, "there is no such cell before this line");
    }
    if (number == NULL && g_str_equal(type, "ready"))
        reader->n_kernels++;
    if (cell == NULL || cell == &SILENT || clears_other_output(line, type) ||
        (reader->use == IPB_RECORDING_REPLAY && is_late(line, type)))
        return true;
    if (is_output(type))
        ipb_outputs_set_unknown(reader->recording->outputs, cell->outputs, is_of_unknown(line));
    return read_line_of_cell(reader, cell, type, line, error) &&
           ipb_outputs_check_size(reader->recording->outputs, error);
}

static bool
read_object(Reader *reader, const IpbJson *line, GError **error)
{
    const char *type =
        ipb_json_is(line, IPB_JSON_OBJECT) ? ipb_json_get_string(line, "type") : NULL;
    if (type == NULL)
        return refuse(error, IPYBOX_ERROR_PROTOCOL, "it is no object with a \"type\"");
    if (g_str_equal(type, "record"))
        return read_header(reader, line, error);
    if (reader->recording->sessions->len == 0)
        return refuse(error, IPYBOX_ERROR_INVALID,
                      "a record begins with a line of type \"record\"");
    if (g_str_equal(type, "cell"))
        return read_cell(reader, line, error);
    if (g_str_equal(type, "tools"))
        return read_tools(reader, line, error);
    if (g_str_equal(type, "staged"))
        return read_staged(reader, line, error);
    if (g_str_equal(type, "commit") || g_str_equal(type, "discard"))
        return read_review(reader, line, g_str_equal(type, "discard"), error);
    return read_other_line(reader, type, line, error);
}

static bool
is_header(const IpbJson *line)
{
    return g_strcmp0(ipb_json_get_string(line, "type"), "record") == 0;
}

static bool
read_line(Reader *reader, const char *text, size_t size, bool is_complete, GError **error)
{
    g_autoptr(GError) failure = NULL;
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, &failure);
    reader->line++;
    if (reader->torn != NULL && (document == NULL || !is_header(ipb_json_root(document)))) {
        g_propagate_error(error, g_steal_pointer(&reader->torn));
        return false;
    }
    if (reader->torn != NULL || (document == NULL && !is_complete))
        reader->n_torn++;
    g_clear_error(&reader->torn);
    if (document == NULL) {
        g_prefix_error(&failure, "line %zu: ", reader->line);
        if (is_complete)
            reader->torn = g_steal_pointer(&failure);
        return true;
    }
    if (read_object(reader, ipb_json_root(document), error))
        return true;
    g_prefix_error(error, "line %zu: ", reader->line);
    return false;
}

/* --- the file --------------------------------------------------------------------------------- */

static bool
take_lines(Reader *reader, IpbLineReader *lines, GError **error)
{
    const char *line;
    size_t size;
    while (ipb_line_reader_next(lines, &line, &size))
        if (!read_line(reader, line, size, true, error))
            return false;
    return true;
}

static bool
refuse_size(GError **error)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "it is larger than %d MiB",
                (int) (MAX_FILE >> 20));
    return false;
}

static bool
read_lines(Reader *reader, IpbLineReader *lines, int fd, GError **error)
{
    g_autofree char *chunk = g_malloc(CHUNK_SIZE);
    const char *line;
    size_t size;
    int64_t n_read = 0;
    ssize_t n;
    while ((n = read(fd, chunk, CHUNK_SIZE)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ipb_error_set_errno(error, errno, "cannot read it");
        n_read += n;
        if (n_read > MAX_FILE) /* it grows, or the system does not know its size */
            return refuse_size(error);
        if (!ipb_line_reader_push(lines, chunk, (size_t) n, error)) {
            g_prefix_error(error, "line %zu: ", reader->line + 1);
            return false;
        }
        if (!take_lines(reader, lines, error))
            return false;
    }
    if (ipb_line_reader_rest(lines, &line, &size) && !read_line(reader, line, size, false, error))
        return false;
    if (reader->torn != NULL) {
        g_propagate_error(error, g_steal_pointer(&reader->torn));
        return false;
    }
    if (reader->recording->sessions->len > 0)
        return true;
    return refuse(error, IPYBOX_ERROR_INVALID, "it is empty: no session was recorded");
}

static bool
open_record(const char *base, const char *path, int *ret_fd, GError **error)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    g_autofree char *parent = g_path_get_dirname(absolute);
    g_autofree char *name = g_path_get_basename(absolute);
    g_autoptr(IpbBeneath) directory = NULL;
    bool is_below = base != NULL && ipb_beneath_contains(base, parent);
    if (is_below && (directory = ipb_beneath_open_in(base, parent, 0, error)) == NULL)
        return false;
    ipb_autofd fd =
        is_below ? openat(ipb_beneath_fd(directory), name, flags | O_NOFOLLOW) : open(path, flags);
    struct stat status;
    if (fd < 0 && is_below && errno == ELOOP)
        return refuse(error, IPYBOX_ERROR_REFUSED, "it is a symbolic link in the workspace");
    if (fd < 0 && errno == ENOENT) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "there is no such file");
        return false;
    }
    if (fd < 0 || fstat(fd, &status) < 0)
        return ipb_error_set_errno(error, errno, "cannot open it");
    if (!S_ISREG(status.st_mode))
        return refuse(error, IPYBOX_ERROR_INVALID, "it is not a regular file");
    if (status.st_size > MAX_FILE)
        return refuse_size(error);
    *ret_fd = ipb_fd_steal(&fd);
    return true;
}

IpbRecording *
ipb_recording_read(const char *base, const char *path, IpbRecordingUse use, size_t *ret_n_torn,
                   GError **error)
{
    ipb_autofd fd = -1;
    if (!open_record(base, path, &fd, error)) {
        g_prefix_error(error, "%s: ", path);
        return NULL;
    }
    IpbRecording *recording = g_new0(IpbRecording, 1);
    recording->cells = g_ptr_array_new_with_free_func(free_cell);
    recording->sessions = g_ptr_array_new_with_free_func(free_session);
    recording->outputs = ipb_outputs_new();
    Reader reader = {
        .recording = recording,
        .use = use,
        .numbers = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL),
    };
    IpbLineReader lines;
    ipb_line_reader_init(&lines, MAX_LINE);
    if (read_lines(&reader, &lines, fd, error))
        *ret_n_torn = reader.n_torn;
    else
        g_clear_pointer(&recording, ipb_recording_free);
    if (recording == NULL)
        g_prefix_error(error, "%s: ", path);
    ipb_line_reader_clear(&lines);
    g_hash_table_unref(reader.numbers);
    g_clear_error(&reader.torn);
    return recording;
}
