/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes notebooks; see the header. Members are sorted and texts are arrays of lines, as Jupyter
 * writes them, so that a notebook differs little after it was saved there.
 */
#include "notebook/ipynb.h"

#include <string.h>

#include "notebook/indent.h"
#include "notebook/markdown.h"

/* Jupyter's. */
#define INDENT 1

/* WTF-8, may hold NUL. */
static void
write_text(IpbJsonWriter *writer, const char *text, size_t size)
{
    if (g_utf8_validate_len(text, size, NULL)) {
        ipb_json_write_string_n(writer, text, size);
        return;
    }
    g_autofree char *valid = g_utf8_make_valid(text, (gssize) size);
    ipb_json_write_string(writer, valid);
}

static void
write_member_text(IpbJsonWriter *writer, const char *name, const char *text)
{
    ipb_json_key(writer, name);
    write_text(writer, text, strlen(text));
}

/* An array of the lines; @has_ends: each with its newline. */
static void
write_lines(IpbJsonWriter *writer, const char *text, bool has_ends)
{
    ipb_json_begin_array(writer);
    while (*text != '\0') {
        size_t size = strcspn(text, "\n");
        size_t end = text[size] == '\n' ? 1 : 0;
        write_text(writer, text, has_ends ? size + end : size);
        text += size + end;
    }
    ipb_json_end_array(writer);
}

static int
compare_members(const void *a, const void *b)
{
    return strcmp(ipb_json_name(*(const IpbJson *const *) a, NULL),
                  ipb_json_name(*(const IpbJson *const *) b, NULL));
}

/* The members of an object by name. Of members with one name the last one counts, as in Python. */
static GPtrArray *
sort_members(const IpbJson *object)
{
    GPtrArray *all = g_ptr_array_new();
    IPB_JSON_FOREACH (member, object)
        g_ptr_array_add(all, (void *) member);
    g_ptr_array_sort(all, compare_members); /* stable */
    guint n_kept = 0;
    for (guint i = 0; i < all->len; i++)
        if (i + 1 == all->len || compare_members(&all->pdata[i], &all->pdata[i + 1]) != 0)
            all->pdata[n_kept++] = all->pdata[i];
    g_ptr_array_set_size(all, (int) n_kept);
    return all;
}

static void
write_name(IpbJsonWriter *writer, const IpbJson *member)
{
    g_autofree char *valid = g_utf8_make_valid(ipb_json_name(member, NULL), -1);
    ipb_json_key(writer, valid);
}

static void write_value(IpbJsonWriter *writer, const IpbJson *value);

static void
write_members(IpbJsonWriter *writer, const IpbJson *object)
{
    g_autoptr(GPtrArray) members = sort_members(object);
    for (guint i = 0; i < members->len; i++) {
        write_name(writer, g_ptr_array_index(members, i));
        write_value(writer, g_ptr_array_index(members, i));
    }
}

/* Any value, with valid strings. */
static void
write_value(IpbJsonWriter *writer, const IpbJson *value)
{
    size_t size;
    switch (ipb_json_type(value)) {
    case IPB_JSON_STRING: {
        const char *text = ipb_json_string(value, &size);
        write_text(writer, text, size);
        return;
    }
    case IPB_JSON_ARRAY:
        ipb_json_begin_array(writer);
        IPB_JSON_FOREACH (item, value)
            write_value(writer, item);
        ipb_json_end_array(writer);
        return;
    case IPB_JSON_OBJECT:
        ipb_json_begin_object(writer);
        write_members(writer, value);
        ipb_json_end_object(writer);
        return;
    case IPB_JSON_NULL:
    case IPB_JSON_BOOL:
    case IPB_JSON_NUMBER:
        break;
    }
    ipb_json_write_value(writer, value);
}

/* Only text for people is written as lines. */
static bool
has_lines(const char *mime_type)
{
    return g_str_has_prefix(mime_type, "text/") || g_str_equal(mime_type, "image/svg+xml") ||
           g_str_equal(mime_type, "application/javascript");
}

static void
write_data(IpbJsonWriter *writer, const char *text)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_MESSAGE, NULL);
    ipb_json_begin_object(writer);
    if (document != NULL) {
        g_autoptr(GPtrArray) members = sort_members(ipb_json_root(document));
        for (guint i = 0; i < members->len; i++) {
            size_t size;
            const IpbJson *value = g_ptr_array_index(members, i);
            const char *type = ipb_json_name(value, NULL);
            const char *string = ipb_json_string(value, &size);
            write_name(writer, value);
            if (string != NULL && has_lines(type) && strlen(string) == size)
                write_lines(writer, string, true);
            else
                write_value(writer, value);
        }
    }
    ipb_json_end_object(writer);
}

static void
write_metadata(IpbJsonWriter *writer, const char *text)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_MESSAGE, NULL);
    if (document != NULL) {
        write_value(writer, ipb_json_root(document));
        return;
    }
    ipb_json_begin_object(writer);
    ipb_json_end_object(writer);
}

static void
write_count(IpbJsonWriter *writer, int64_t execution_count)
{
    ipb_json_key(writer, "execution_count");
    if (execution_count > 0)
        ipb_json_write_int(writer, execution_count);
    else
        ipb_json_write_null(writer);
}

static void
write_output(IpbJsonWriter *writer, const IpbNotebookOutput *output)
{
    ipb_json_begin_object(writer);
    switch (output->kind) {
    case IPB_OUTPUT_STREAM:
        ipb_json_member_string(writer, "name", output->is_stderr ? "stderr" : "stdout");
        ipb_json_member_string(writer, "output_type", "stream");
        ipb_json_key(writer, "text");
        write_lines(writer, output->text->str, true);
        break;
    case IPB_OUTPUT_DISPLAY:
    case IPB_OUTPUT_RESULT:
        ipb_json_key(writer, "data");
        write_data(writer, output->bundle->data);
        if (output->kind == IPB_OUTPUT_RESULT)
            write_count(writer, output->execution_count);
        ipb_json_key(writer, "metadata");
        write_metadata(writer, output->bundle->metadata);
        ipb_json_member_string(writer, "output_type",
                               output->kind == IPB_OUTPUT_RESULT ? "execute_result"
                                                                 : "display_data");
        break;
    case IPB_OUTPUT_ERROR:
        write_member_text(writer, "ename", output->ename);
        write_member_text(writer, "evalue", output->evalue);
        ipb_json_member_string(writer, "output_type", "error");
        ipb_json_key(writer, "traceback");
        write_lines(writer, output->traceback, false);
        break;
    }
    ipb_json_end_object(writer);
}

void
ipb_ipynb_write_outputs(IpbJsonWriter *writer, const IpbOutputs *outputs, size_t cell)
{
    const GPtrArray *list = ipb_outputs_get(outputs, cell);
    ipb_json_begin_array(writer);
    for (guint i = 0; i < list->len; i++)
        write_output(writer, g_ptr_array_index(list, i));
    ipb_json_end_array(writer);
}

/* --- whole notebooks -------------------------------------------------------------------------- */

static void
begin_member_object(IpbJsonWriter *writer, const char *name)
{
    ipb_json_key(writer, name);
    ipb_json_begin_object(writer);
}

/* Times as JupyterLab records them, and what Jupyter has no place for. */
static void
write_cell_metadata(IpbJsonWriter *writer, const IpbRecordingCell *cell)
{
    begin_member_object(writer, "metadata");
    if (cell->begin_time != NULL || cell->end_time != NULL) {
        begin_member_object(writer, "execution");
        if (cell->begin_time != NULL)
            ipb_json_member_string(writer, "iopub.execute_input", cell->begin_time);
        if (cell->end_time != NULL)
            ipb_json_member_string(writer, "shell.execute_reply", cell->end_time);
        ipb_json_end_object(writer);
    }
    begin_member_object(writer, "ipybox");
    ipb_json_member_string(writer, "status", cell->status);
    if (cell->calls->len > 0) {
        ipb_json_key(writer, "tool_calls");
        ipb_json_begin_array(writer);
        for (guint i = 0; i < cell->calls->len; i++) {
            const IpbRecordingNote *call = g_ptr_array_index(cell->calls, i);
            write_text(writer, call->text, strlen(call->text));
        }
        ipb_json_end_array(writer);
    }
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
}

static void
write_cell(IpbJsonWriter *writer, const IpbRecording *recording, const IpbRecordingCell *cell)
{
    g_autofree char *id =
        g_strdup_printf("session-%zu-cell-%" G_GINT64_FORMAT, cell->session + 1, cell->number);
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "cell_type", "code");
    write_count(writer, cell->execution_count);
    ipb_json_member_string(writer, "id", id);
    write_cell_metadata(writer, cell);
    ipb_json_key(writer, "outputs");
    ipb_ipynb_write_outputs(writer, ipb_recording_outputs(recording), cell->outputs);
    ipb_json_key(writer, "source");
    write_lines(writer, cell->code, true);
    ipb_json_end_object(writer);
}

static void
write_markdown_cell(IpbJsonWriter *writer, const char *id, const char *text)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "cell_type", "markdown");
    ipb_json_member_string(writer, "id", id);
    begin_member_object(writer, "metadata");
    ipb_json_end_object(writer);
    ipb_json_key(writer, "source");
    write_lines(writer, text, true);
    ipb_json_end_object(writer);
}

/* What was done with the files of a staged session: a cell of text below the cell. */
static void
write_files(IpbJsonWriter *writer, const IpbRecordingCell *cell)
{
    if (cell->files == NULL && cell->reviews->len == 0)
        return;
    g_autoptr(GString) text = g_string_new(NULL);
    ipb_markdown_add_files(text, cell);
    g_autofree char *id = g_strdup_printf("session-%zu-cell-%" G_GINT64_FORMAT "-files",
                                          cell->session + 1, cell->number);
    write_markdown_cell(writer, id, text->str);
}

/* Variables of one session do not exist in the next: the notebook says where it begins. */
static void
write_session(IpbJsonWriter *writer, const IpbRecordingSession *session, size_t index)
{
    g_autofree char *id = g_strdup_printf("session-%zu", index + 1);
    g_autofree char *text =
        g_strdup_printf("## Session %zu%s%s", index + 1, session->time != NULL ? ", " : "",
                        session->time != NULL ? session->time : "");
    write_markdown_cell(writer, id, text);
}

static void
write_notebook_metadata(IpbJsonWriter *writer)
{
    begin_member_object(writer, "metadata");
    begin_member_object(writer, "kernelspec");
    ipb_json_member_string(writer, "display_name", "Python 3 (ipykernel)");
    ipb_json_member_string(writer, "language", "python");
    ipb_json_member_string(writer, "name", "python3");
    ipb_json_end_object(writer);
    begin_member_object(writer, "language_info");
    ipb_json_member_string(writer, "file_extension", ".py");
    ipb_json_member_string(writer, "mimetype", "text/x-python");
    ipb_json_member_string(writer, "name", "python");
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
}

char *
ipb_ipynb_make(const IpbRecording *recording, size_t *ret_size)
{
    const GPtrArray *cells = ipb_recording_cells(recording);
    const GPtrArray *sessions = ipb_recording_sessions(recording);
    size_t n_sessions = 0; /* whose cells were written */
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "cells");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < cells->len; i++) {
        const IpbRecordingCell *cell = g_ptr_array_index(cells, i);
        if (sessions->len > 1 && n_sessions <= cell->session) {
            write_session(writer, g_ptr_array_index(sessions, cell->session), cell->session);
            n_sessions = cell->session + 1;
        }
        write_cell(writer, recording, cell);
        write_files(writer, cell);
    }
    ipb_json_end_array(writer);
    write_notebook_metadata(writer);
    ipb_json_member_int(writer, "nbformat", 4);
    ipb_json_member_int(writer, "nbformat_minor", 5);
    ipb_json_end_object(writer);
    g_autofree char *json = ipb_json_writer_finish(writer, NULL);
    size_t size;
    g_autofree char *indented = ipb_indent_json(json, INDENT, 0, &size);
    *ret_size = size + 1;
    return g_strconcat(indented, "\n", NULL);
}
