/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes Markdown; see the header.
 */
#include "notebook/markdown.h"

#include <string.h>

#include "base/display-text.h"
#include "notebook/bundle-view.h"

#define MIN_FENCE 3

/* One more than the longest run of backticks in the text. */
static size_t
find_fence(const char *text)
{
    size_t longest = MIN_FENCE - 1;
    while ((text = strchr(text, '`')) != NULL) {
        size_t size = strspn(text, "`");
        longest = MAX(longest, size);
        text += size;
    }
    return longest + 1;
}

static void
add_block(GString *out, const char *language, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    g_autofree char *shown = ipb_display_text_printable(valid);
    g_autofree char *fence = g_strnfill(find_fence(shown), '`');
    g_string_append_printf(out, "%s%s\n%s%s%s\n\n", fence, language, shown,
                           *shown == '\0' || g_str_has_suffix(shown, "\n") ? "" : "\n", fence);
}

/* The characters of inline Markdown and HTML get a backslash. */
static void
add_escaped(GString *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (g_ascii_ispunct(*text))
            g_string_append_c(out, '\\');
        g_string_append_c(out, *text);
    }
}

static void
add_bundle(GString *out, const IpbNotebookOutput *output)
{
    g_auto(IpbBundleView) view;
    ipb_bundle_view_init(&view, output);
    const char *heading = output->kind == IPB_OUTPUT_RESULT ? "Result" : "Display";
    if (view.image == NULL) {
        g_string_append_printf(out, "%s:\n\n", heading);
        add_block(out, "text", view.text != NULL ? view.text : "(nothing that can be shown here)");
        return;
    }
    g_autofree char *alt = ipb_bundle_view_alt(&view);
    g_string_append_printf(out, "%s:\n\n![", heading);
    add_escaped(out, alt);
    g_string_append_printf(out, "](data:%s;base64,%s)\n\n", view.image_type, view.image);
}

static void
add_output(GString *out, const IpbNotebookOutput *output)
{
    switch (output->kind) {
    case IPB_OUTPUT_STREAM:
        g_string_append(out, output->is_stderr ? "Standard error:\n\n" : "Standard output:\n\n");
        add_block(out, "text", output->text->str);
        break;
    case IPB_OUTPUT_DISPLAY:
    case IPB_OUTPUT_RESULT:
        add_bundle(out, output);
        break;
    case IPB_OUTPUT_ERROR:
        g_string_append(out, "Error:\n\n");
        add_block(out, "text", output->traceback);
        break;
    }
}

static void
add_calls(GString *out, const IpbRecordingCell *cell)
{
    if (cell->calls->len == 0)
        return;
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < cell->calls->len; i++) {
        const IpbRecordingNote *call = g_ptr_array_index(cell->calls, i);
        g_string_append_printf(text, "%s\n", call->text);
    }
    g_string_append(out, "Tool calls:\n\n");
    add_block(out, "text", text->str);
}

void
ipb_markdown_add_files(GString *out, const IpbRecordingCell *cell)
{
    if (cell->files != NULL) {
        g_string_append(out, "Changed files:\n\n");
        add_block(out, "text", cell->files);
    }
    for (guint i = 0; i < cell->reviews->len; i++) {
        const IpbRecordingNote *review = g_ptr_array_index(cell->reviews, i);
        g_string_append(out, "After the cell:\n\n");
        add_block(out, "text", review->text);
    }
}

static void
add_cell(GString *out, const IpbRecording *recording, const IpbRecordingCell *cell)
{
    g_string_append_printf(out, "### Cell %" G_GINT64_FORMAT "\n\n", cell->number);
    add_block(out, "python", cell->code);
    add_calls(out, cell);
    const GPtrArray *outputs = ipb_outputs_get(ipb_recording_outputs(recording), cell->outputs);
    for (guint i = 0; i < outputs->len; i++)
        add_output(out, g_ptr_array_index(outputs, i));
    if (cell->status == NULL)
        g_string_append(out, "The record ends before the cell.\n\n");
    else if (!g_str_equal(cell->status, "ok"))
        g_string_append_printf(out, "The cell ended with the status %s.\n\n", cell->status);
    ipb_markdown_add_files(out, cell);
}

static void
add_session(GString *out, const IpbRecordingSession *session, size_t index)
{
    g_string_append_printf(out, "## Session %zu\n\n", index + 1);
    if (session->time != NULL)
        g_string_append_printf(out, "It began at %s.\n\n", session->time);
}

char *
ipb_markdown_make(const IpbRecording *recording, size_t *ret_size)
{
    GString *out = g_string_new("# Record of ipybox\n\n");
    const GPtrArray *sessions = ipb_recording_sessions(recording);
    const GPtrArray *cells = ipb_recording_cells(recording);
    guint next = 0;
    for (guint i = 0; i < sessions->len; i++) {
        add_session(out, g_ptr_array_index(sessions, i), i);
        for (; next < cells->len; next++) {
            const IpbRecordingCell *cell = g_ptr_array_index(cells, next);
            if (cell->session != i)
                break;
            add_cell(out, recording, cell);
        }
    }
    g_string_truncate(out, out->len - 1); /* the last empty line */
    *ret_size = out->len;
    return g_string_free(out, FALSE);
}
