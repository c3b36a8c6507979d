/* SPDX-License-Identifier: Apache-2.0
 *
 * Structured answers of cells; see the header.
 */
#include "serve/mcp/structured-cell.h"

#include "kernel/bundle-text.h"
#include "session/clipped-text.h"

struct IpbStructuredCell {
    IpbClippedText *printed;
    IpbClippedText *result; /* NULL: the cell has none */
    size_t max_chars;
    char *ename, *evalue, *traceback; /* NULL: no error */
    int64_t execution_count;          /* 0: not known */
};

IpbStructuredCell *
ipb_structured_cell_new(size_t max_chars)
{
    IpbStructuredCell *cell = g_new0(IpbStructuredCell, 1);
    cell->max_chars = max_chars;
    cell->printed = ipb_clipped_text_new(max_chars);
    return cell;
}

void
ipb_structured_cell_free(IpbStructuredCell *cell)
{
    if (cell == NULL)
        return;
    ipb_clipped_text_free(cell->printed);
    g_clear_pointer(&cell->result, ipb_clipped_text_free);
    g_free(cell->ename);
    g_free(cell->evalue);
    g_free(cell->traceback);
    g_free(cell);
}

static void
set_result(IpbStructuredCell *cell, const IpbEvent *event)
{
    g_autofree char *shown = ipb_bundle_text(event->data);
    g_clear_pointer(&cell->result, ipb_clipped_text_free);
    if (shown == NULL)
        return;
    cell->result = ipb_clipped_text_new(cell->max_chars);
    ipb_clipped_text_append(cell->result, shown);
}

static void
set_error(IpbStructuredCell *cell, const IpbEvent *event)
{
    g_free(cell->ename);
    g_free(cell->evalue);
    g_free(cell->traceback);
    cell->ename = g_strdup(event->ename);
    cell->evalue = g_strdup(event->evalue);
    cell->traceback = g_strdup(event->text);
}

static void
add_display(IpbStructuredCell *cell, const IpbEvent *event)
{
    g_autofree char *shown = ipb_bundle_text(event->data);
    if (shown == NULL)
        return;
    ipb_clipped_text_append(cell->printed, shown);
    if (!g_str_has_suffix(shown, "\n"))
        ipb_clipped_text_append(cell->printed, "\n");
}

void
ipb_structured_cell_add(IpbStructuredCell *cell, const IpbEvent *event)
{
    switch (event->type) {
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_STDERR:
    case IPB_EVENT_LATE_OUTPUT:
        ipb_clipped_text_append(cell->printed, event->text);
        break;
    case IPB_EVENT_DISPLAY:
    case IPB_EVENT_UPDATE:
        add_display(cell, event);
        break;
    case IPB_EVENT_RESULT:
        set_result(cell, event);
        break;
    case IPB_EVENT_ERROR:
        set_error(cell, event);
        break;
    case IPB_EVENT_STARTED:
        cell->execution_count = event->execution_count;
        break;
    case IPB_EVENT_CLEAR_OUTPUT:
    case IPB_EVENT_COMM:
    case IPB_EVENT_TOOL_PROGRESS:
    case IPB_EVENT_NOTICE:
    case IPB_EVENT_READY:
    case IPB_EVENT_START_FAILED:
    case IPB_EVENT_INPUT_REQUEST:
    case IPB_EVENT_INPUT_WITHDRAWN:
    case IPB_EVENT_DIED:
    case IPB_EVENT_DONE:
        break;
    }
}

static void
write_error(const IpbStructuredCell *cell, IpbJsonWriter *writer, const IpbEvent *done)
{
    ipb_json_key(writer, "error");
    if (done->status == IPB_CELL_OK) {
        ipb_json_write_null(writer);
        return;
    }
    /* What happened to the cell, such as a timeout, counts more than the exception that it saw. */
    bool is_own = done->text == NULL && cell->ename != NULL;
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name",
                           is_own ? cell->ename : ipb_cell_status_name(done->status));
    ipb_json_member_string(writer, "message",
                           is_own               ? cell->evalue
                           : done->text != NULL ? done->text
                                                : "");
    ipb_json_member_string(writer, "traceback", is_own ? cell->traceback : "");
    ipb_json_end_object(writer);
}

static void
write_texts(IpbJsonWriter *writer, const char *name, const GPtrArray *texts)
{
    ipb_json_key(writer, name);
    ipb_json_begin_array(writer);
    for (guint i = 0; i < texts->len; i++)
        ipb_json_write_string(writer, g_ptr_array_index(texts, i));
    ipb_json_end_array(writer);
}

char *
ipb_structured_cell_finish(const IpbStructuredCell *cell, const IpbEvent *done,
                           const IpbCellText *text)
{
    g_autofree char *printed = ipb_clipped_text_get(cell->printed);
    g_autofree char *result = cell->result != NULL ? ipb_clipped_text_get(cell->result) : NULL;
    bool is_cut = ipb_clipped_text_is_cut(cell->printed) ||
                  (cell->result != NULL && ipb_clipped_text_is_cut(cell->result));
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "status", ipb_cell_status_name(done->status));
    ipb_json_member_string(writer, "stdout", printed);
    ipb_json_member_string(writer, "result", result);
    write_error(cell, writer, done);
    write_texts(writer, "images", ipb_cell_text_images(text));
    write_texts(writer, "notices", ipb_cell_text_notices(text));
    ipb_json_key(writer, "execution_count");
    if (cell->execution_count > 0)
        ipb_json_write_int(writer, cell->execution_count);
    else
        ipb_json_write_null(writer);
    ipb_json_member_bool(writer, "truncated", is_cut);
    if (done->changes != NULL) {
        ipb_json_key(writer, "changes");
        ipb_json_write_raw(writer, done->changes, strlen(done->changes));
    }
    if (done->changes_cut != NULL)
        ipb_json_member_string(writer, "changes_cut", done->changes_cut);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}
