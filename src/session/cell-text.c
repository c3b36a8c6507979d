/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell's text; see the header. Everything that was written stays, as in ipybox 0.9 and in a log:
 * clear_output removes nothing, and updates of displays add text.
 */
#include "session/cell-text.h"

#include <string.h>

#include "kernel/bundle-text.h"
#include "session/clipped-text.h"

/* Maximum number of paths that are kept. Further images are on disk nevertheless. */
#define MAX_IMAGES 10000
#define MAX_NOTICES 100
#define LATE_MARK "[ipybox] written after its cell had ended:"
#define OWN_MARK "[ipybox] written by this cell:"

struct IpbCellText {
    IpbClippedText *text;
    bool has_output;
    bool is_joined;
    bool marks_late;
    bool is_late;      /* the last marks are those of late output */
    GString *added;    /* of a joined text: by the last event */
    bool is_line_open; /* the text does not end with a line break */
    char *error;
    GPtrArray *images;
    GPtrArray *notices;
};

IpbCellText *
ipb_cell_text_new(size_t max_chars)
{
    IpbCellText *text = g_new0(IpbCellText, 1);
    text->text = ipb_clipped_text_new(max_chars);
    text->added = g_string_new(NULL);
    text->images = g_ptr_array_new_with_free_func(g_free);
    text->notices = g_ptr_array_new_with_free_func(g_free);
    return text;
}

IpbCellText *
ipb_cell_text_new_joined(size_t max_chars)
{
    IpbCellText *text = ipb_cell_text_new(max_chars);
    text->is_joined = true;
    return text;
}

void
ipb_cell_text_mark_late(IpbCellText *text)
{
    text->marks_late = true;
}

void
ipb_cell_text_free(IpbCellText *text)
{
    if (text == NULL)
        return;
    ipb_clipped_text_free(text->text);
    g_string_free(text->added, TRUE);
    g_ptr_array_unref(text->images);
    g_ptr_array_unref(text->notices);
    g_free(text->error);
    g_free(text);
}

static void
append(IpbCellText *text, const char *piece)
{
    if (*piece == '\0')
        return;
    text->has_output = true;
    if (text->is_joined)
        g_string_append(text->added, piece);
    text->is_line_open = piece[strlen(piece) - 1] != '\n';
    ipb_clipped_text_append(text->text, piece);
}

/* Adds text on lines of its own, whatever is before it. */
static void
append_lines(IpbCellText *text, const char *lines)
{
    if (text->is_line_open)
        append(text, "\n");
    append(text, lines);
    if (!g_str_has_suffix(lines, "\n"))
        append(text, "\n");
}

/* Whose output follows. */
static void
mark(IpbCellText *text, bool is_late)
{
    if (!text->marks_late || text->is_late == is_late)
        return;
    text->is_late = is_late;
    append_lines(text, is_late ? LATE_MARK : OWN_MARK);
}

static void
append_bundle(IpbCellText *text, const IpbEvent *event)
{
    if (text->is_joined && event->type == IPB_EVENT_UPDATE)
        return;
    if (event->image_path != NULL && text->images->len < MAX_IMAGES)
        g_ptr_array_add(text->images, g_strdup(event->image_path));
    g_autofree char *shown = ipb_bundle_text(event->data);
    if (shown == NULL)
        return;
    mark(text, event->is_late);
    if (text->is_joined)
        append(text, shown);
    else
        append_lines(text, shown);
}

static void
add_notice(IpbCellText *text, const IpbEvent *event)
{
    if (text->notices->len < MAX_NOTICES)
        g_ptr_array_add(text->notices, g_strdup(event->text));
    else if (text->notices->len == MAX_NOTICES)
        g_ptr_array_add(text->notices, g_strdup("[ipybox] further notices are left out"));
    if (event->is_in_text)
        append_lines(text, event->text);
}

void
ipb_cell_text_add(IpbCellText *text, const IpbEvent *event)
{
    g_string_truncate(text->added, 0);
    switch (event->type) {
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_STDERR:
        if (event->text[0] != '\0')
            mark(text, false);
        append(text, event->text);
        break;
    case IPB_EVENT_LATE_OUTPUT:
        if (event->text[0] == '\0')
            break;
        mark(text, true);
        append_lines(text, event->text);
        break;
    case IPB_EVENT_NOTICE:
        add_notice(text, event);
        break;
    case IPB_EVENT_DISPLAY:
    case IPB_EVENT_UPDATE:
    case IPB_EVENT_RESULT:
        append_bundle(text, event);
        break;
    case IPB_EVENT_ERROR:
        g_free(text->error);
        text->error = g_strdup_printf("%s: %s%s%s", event->ename, event->evalue,
                                      event->text[0] != '\0' ? "\n" : "", event->text);
        break;
    case IPB_EVENT_STARTED:
    case IPB_EVENT_CLEAR_OUTPUT:
    case IPB_EVENT_TOOL_PROGRESS:
    case IPB_EVENT_DONE:
    case IPB_EVENT_READY:
    case IPB_EVENT_START_FAILED:
    case IPB_EVENT_INPUT_REQUEST:
    case IPB_EVENT_INPUT_WITHDRAWN:
    case IPB_EVENT_DIED:
    case IPB_EVENT_COMM:
        break;
    }
}

const char *
ipb_cell_text_added(const IpbCellText *text)
{
    return text->added->len > 0 ? text->added->str : NULL;
}

bool
ipb_cell_text_has_output(const IpbCellText *text)
{
    return text->has_output;
}

char *
ipb_cell_text_get(const IpbCellText *text)
{
    g_autofree char *raw = ipb_clipped_text_get(text->text);
    const char *start = raw, *end = start + strlen(raw);
    while (end > start && g_ascii_isspace(end[-1]))
        end--;
    while (text->is_joined && start < end && g_ascii_isspace(*start))
        start++;
    /* Leading blank lines are removed. The indentation of the first line is kept: it belongs to a
     * table. */
    for (const char *p = start; p < end && g_ascii_isspace(*p); p++)
        if (*p == '\n')
            start = p + 1;
    return g_strndup(start, (size_t) (end - start));
}

char *
ipb_cell_text_get_raw(const IpbCellText *text)
{
    return ipb_clipped_text_get(text->text);
}

bool
ipb_cell_text_is_truncated(const IpbCellText *text)
{
    return ipb_clipped_text_is_cut(text->text);
}

const char *
ipb_cell_text_error(const IpbCellText *text)
{
    return text->error;
}

const GPtrArray *
ipb_cell_text_images(const IpbCellText *text)
{
    return text->images;
}

const GPtrArray *
ipb_cell_text_notices(const IpbCellText *text)
{
    return text->notices;
}
