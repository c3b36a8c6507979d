/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes HTML; see the header.
 */
#include "notebook/html.h"

#include <string.h>

#include "base/display-text.h"
#include "notebook/bundle-view.h"

static const char HEAD[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; img-src data:\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<title>Record of ipybox</title>\n"
    "<style>\n"
    "body { font-family: sans-serif; line-height: 1.5; margin: 0 auto; max-width: 60rem; "
    "padding: 1rem; }\n"
    "pre { border: 1px solid; overflow: auto; padding: 0.5rem; }\n"
    "pre.code { border-left-width: 0.5rem; }\n"
    "img { height: auto; max-width: 100%; }\n"
    "h4 { margin-bottom: 0; }\n"
    "</style>\n"
    "</head>\n"
    "<body>\n"
    "<main>\n"
    "<h1>Record of ipybox</h1>\n";
static const char TAIL[] = "</main>\n</body>\n</html>\n";

static void
add_escaped(GString *out, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    g_autofree char *shown = ipb_display_text_printable(valid);
    g_autofree char *escaped = g_markup_escape_text(shown, -1);
    g_string_append(out, escaped);
}

/* A block that scrolls can be reached with the keyboard, and says what it is. */
static void
add_block(GString *out, const char *class, const char *label, const char *text)
{
    g_string_append_printf(
        out, "<pre class=\"%s\" role=\"group\" tabindex=\"0\" aria-label=\"%s\">", class, label);
    g_string_append_c(out, '\n'); /* the first newline is not shown; the text's own is */
    add_escaped(out, text);
    g_string_append(out, "</pre>\n");
}

static void
add_labelled_block(GString *out, const char *label, const char *text)
{
    g_string_append_printf(out, "<h4>%s</h4>\n", label);
    add_block(out, "output", label, text);
}

static void
add_bundle(GString *out, const IpbNotebookOutput *output)
{
    g_auto(IpbBundleView) view;
    ipb_bundle_view_init(&view, output);
    const char *label = output->kind == IPB_OUTPUT_RESULT ? "Result" : "Display";
    if (view.image == NULL) {
        add_labelled_block(out, label,
                           view.text != NULL ? view.text : "(nothing that can be shown here)");
        return;
    }
    g_autofree char *alt = ipb_bundle_view_alt(&view);
    g_string_append_printf(out, "<h4>%s</h4>\n<p><img alt=\"", label);
    add_escaped(out, alt);
    g_string_append_printf(out, "\" src=\"data:%s;base64,%s\"></p>\n", view.image_type, view.image);
}

static void
add_output(GString *out, const IpbNotebookOutput *output)
{
    switch (output->kind) {
    case IPB_OUTPUT_STREAM:
        add_labelled_block(out, output->is_stderr ? "Standard error" : "Standard output",
                           output->text->str);
        break;
    case IPB_OUTPUT_DISPLAY:
    case IPB_OUTPUT_RESULT:
        add_bundle(out, output);
        break;
    case IPB_OUTPUT_ERROR:
        add_labelled_block(out, "Error", output->traceback);
        break;
    }
}

static void
add_calls(GString *out, const IpbRecordingCell *cell)
{
    if (cell->calls->len == 0)
        return;
    g_string_append(out, "<h4>Tool calls</h4>\n<ul>\n");
    for (guint i = 0; i < cell->calls->len; i++) {
        const IpbRecordingNote *call = g_ptr_array_index(cell->calls, i);
        g_string_append(out, "<li><code>");
        add_escaped(out, call->text);
        g_string_append(out, "</code></li>\n");
    }
    g_string_append(out, "</ul>\n");
}

/* What was done with the files of a staged session. */
static void
add_files(GString *out, const IpbRecordingCell *cell)
{
    if (cell->files != NULL)
        add_labelled_block(out, "Changed files", cell->files);
    for (guint i = 0; i < cell->reviews->len; i++) {
        const IpbRecordingNote *review = g_ptr_array_index(cell->reviews, i);
        add_labelled_block(out, "After the cell", review->text);
    }
}

static void
add_cell(GString *out, const IpbRecording *recording, const IpbRecordingCell *cell)
{
    g_string_append_printf(out, "<section>\n<h3>Cell %" G_GINT64_FORMAT "</h3>\n", cell->number);
    add_block(out, "code", "Code", cell->code);
    add_calls(out, cell);
    const GPtrArray *outputs = ipb_outputs_get(ipb_recording_outputs(recording), cell->outputs);
    for (guint i = 0; i < outputs->len; i++)
        add_output(out, g_ptr_array_index(outputs, i));
    if (cell->status == NULL)
        g_string_append(out, "<p>The record ends before the cell.</p>\n");
    else if (!g_str_equal(cell->status, "ok"))
        g_string_append_printf(out, "<p>The cell ended with the status %s.</p>\n", cell->status);
    add_files(out, cell);
    g_string_append(out, "</section>\n");
}

static void
add_session(GString *out, const IpbRecordingSession *session, size_t index)
{
    g_string_append_printf(out, "<h2>Session %zu</h2>\n", index + 1);
    if (session->time == NULL)
        return;
    g_string_append(out, "<p>It began at ");
    add_escaped(out, session->time);
    g_string_append(out, ".</p>\n");
}

char *
ipb_html_make(const IpbRecording *recording, size_t *ret_size)
{
    GString *out = g_string_new(HEAD);
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
    g_string_append(out, TAIL);
    *ret_size = out->len;
    return g_string_free(out, FALSE);
}
