/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of libipybox become outputs; see the header.
 */
#include "cli/run-outputs.h"

#include <string.h>

struct IpbRunOutputs {
    IpbOutputs *outputs;
    GArray *counts; /* int64_t: execution counts of the cells */
    GError *error;  /* the first one of adding outputs */
};

IpbRunOutputs *
ipb_run_outputs_new(void)
{
    IpbRunOutputs *run = g_new0(IpbRunOutputs, 1);
    run->outputs = ipb_outputs_new();
    run->counts = g_array_new(FALSE, TRUE, sizeof(int64_t));
    return run;
}

void
ipb_run_outputs_free(IpbRunOutputs *run)
{
    if (run == NULL)
        return;
    ipb_outputs_free(run->outputs);
    g_array_unref(run->counts);
    g_clear_error(&run->error);
    g_free(run);
}

void
ipb_run_outputs_begin_cell(IpbRunOutputs *run)
{
    int64_t unknown = 0;
    g_array_append_val(run->counts, unknown);
    ipb_outputs_add_cell(run->outputs);
}

/* The index of the cell that an event is of: the one that runs, or of a late event the one with its
 * number. */
static size_t
find_cell(const IpbRunOutputs *run, const IpyboxEvent *event)
{
    int64_t count = ipybox_event_get_execution_count(event);
    for (guint i = 0; count > 0 && i < run->counts->len; i++)
        if (g_array_index(run->counts, int64_t, i) == count)
            return i;
    return run->counts->len - 1;
}

static bool
is_of_unknown(const IpyboxEvent *event)
{
    return ipybox_event_get_is_late(event) && ipybox_event_get_execution_count(event) == 0;
}

static void
add_bundle(IpbRunOutputs *run, size_t cell, const IpyboxEvent *event, IpyboxEventType type)
{
    const char *data = ipybox_event_get_bundle(event);
    const char *metadata = ipybox_event_get_metadata(event);
    const char *display_id = ipybox_event_get_display_id(event);
    g_autoptr(IpbJsonDoc) data_document =
        data != NULL ? ipb_json_parse(data, strlen(data), &IPB_JSON_LIMITS_MESSAGE, NULL) : NULL;
    g_autoptr(IpbJsonDoc) metadata_document =
        metadata != NULL
            ? ipb_json_parse(metadata, strlen(metadata), &IPB_JSON_LIMITS_MESSAGE, NULL)
            : NULL;
    const IpbJson *root = data_document != NULL ? ipb_json_root(data_document) : NULL;
    const IpbJson *meta = metadata_document != NULL ? ipb_json_root(metadata_document) : NULL;
    if (type == IPYBOX_EVENT_UPDATE)
        ipb_outputs_update(run->outputs, root, meta, display_id, &run->error);
    else
        ipb_outputs_add_bundle(run->outputs, cell,
                               type == IPYBOX_EVENT_RESULT ? IPB_OUTPUT_RESULT : IPB_OUTPUT_DISPLAY,
                               root, meta, display_id, /* execution_count: set with the others */ 0,
                               &run->error);
}

void
ipb_run_outputs_add_line(IpbRunOutputs *run, const char *text)
{
    g_autofree char *line = g_strconcat(text, g_str_has_suffix(text, "\n") ? "" : "\n", NULL);
    ipb_outputs_add_text(run->outputs, run->counts->len - 1, true, line);
}

void
ipb_run_outputs_add(IpbRunOutputs *run, const IpyboxEvent *event)
{
    IpyboxEventType type = ipybox_event_get_type(event);
    if (run->error != NULL || run->counts->len == 0)
        return;
    size_t cell = find_cell(run, event);
    bool is_unknown = is_of_unknown(event);
    switch (type) {
    case IPYBOX_EVENT_STDOUT:
    case IPYBOX_EVENT_STDERR:
        ipb_outputs_set_unknown(run->outputs, cell, is_unknown);
        ipb_outputs_add_text(run->outputs, cell, type == IPYBOX_EVENT_STDERR,
                             ipybox_event_get_text(event));
        break;
    case IPYBOX_EVENT_NOTICE:
        ipb_run_outputs_add_line(run, ipybox_event_get_text(event));
        break;
    case IPYBOX_EVENT_DISPLAY:
    case IPYBOX_EVENT_UPDATE:
    case IPYBOX_EVENT_RESULT:
        if (type != IPYBOX_EVENT_UPDATE)
            ipb_outputs_set_unknown(run->outputs, cell, is_unknown);
        add_bundle(run, cell, event, type);
        break;
    case IPYBOX_EVENT_CLEAR_OUTPUT:
        if (!is_unknown) /* else it would clear what others have shown */
            ipb_outputs_clear(run->outputs, cell, ipybox_event_get_wait(event));
        break;
    case IPYBOX_EVENT_ERROR:
        ipb_outputs_add_error(run->outputs, cell, ipybox_event_get_error_name(event),
                              ipybox_event_get_error_value(event), ipybox_event_get_text(event));
        break;
    case IPYBOX_EVENT_LATE_OUTPUT: /* the late events have it */
    case IPYBOX_EVENT_TOOL_PROGRESS:
    case IPYBOX_EVENT_READY:
    case IPYBOX_EVENT_START_FAILED:
    case IPYBOX_EVENT_INPUT_REQUEST:
    case IPYBOX_EVENT_INPUT_WITHDRAWN:
        break;
    }
    if (run->error == NULL)
        ipb_outputs_check_size(run->outputs, &run->error);
}

void
ipb_run_outputs_end_cell(IpbRunOutputs *run, int64_t execution_count)
{
    guint cell = run->counts->len - 1;
    g_array_index(run->counts, int64_t, cell) = execution_count;
    ipb_outputs_set_execution_count(run->outputs, cell, execution_count);
}

int64_t
ipb_run_outputs_count(const IpbRunOutputs *run, size_t cell)
{
    return g_array_index(run->counts, int64_t, cell);
}

const IpbOutputs *
ipb_run_outputs_get(const IpbRunOutputs *run)
{
    return run->outputs;
}

const GError *
ipb_run_outputs_error(const IpbRunOutputs *run)
{
    return run->error;
}
