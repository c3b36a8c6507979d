/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of cells; see the header.
 */
#include "serve/rpc/cell-answer.h"

#include "kernel/bundle-text.h"
#include "session/cell-text.h"

/* Bytes of MIME bundles in an answer; later ones are left out. */
#define MAX_DISPLAY_DATA (32u * 1024 * 1024)
#define MAX_VIOLATIONS 100

struct IpbRpcCellAnswer {
    bool strips;
    IpbCellText *text;
    GString *display_data; /* bundles as JSON, with commas between */
    bool is_display_data_cut;
    char *ename, *evalue, *traceback; /* of its error, or NULL */
    GPtrArray *violations;
};

IpbRpcCellAnswer *
ipb_rpc_cell_answer_new(size_t max_chars, bool strips)
{
    IpbRpcCellAnswer *answer = g_new0(IpbRpcCellAnswer, 1);
    answer->strips = strips;
    answer->text = ipb_cell_text_new_joined(max_chars);
    answer->display_data = g_string_new(NULL);
    answer->violations = g_ptr_array_new_with_free_func(g_free);
    return answer;
}

void
ipb_rpc_cell_answer_free(IpbRpcCellAnswer *answer)
{
    ipb_cell_text_free(answer->text);
    g_string_free(answer->display_data, TRUE);
    g_ptr_array_unref(answer->violations);
    g_free(answer->ename);
    g_free(answer->evalue);
    g_free(answer->traceback);
    g_free(answer);
}

/* --- collecting ------------------------------------------------------------------------------ */

static void
collect_bundle(IpbRpcCellAnswer *answer, const IpbEvent *event)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_object(writer, "data", event->data);
    ipb_json_member_object(writer, "metadata", event->metadata);
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *bundle = ipb_json_writer_finish(writer, &size);
    if (answer->display_data->len + size > MAX_DISPLAY_DATA) {
        answer->is_display_data_cut = true;
        return;
    }
    if (answer->display_data->len > 0)
        g_string_append_c(answer->display_data, ',');
    g_string_append_len(answer->display_data, bundle, (gssize) size);
}

static void
collect_error(IpbRpcCellAnswer *answer, const IpbEvent *event)
{
    g_free(answer->ename);
    g_free(answer->evalue);
    g_free(answer->traceback);
    answer->ename = g_strdup(event->ename);
    answer->evalue = g_strdup(event->evalue);
    answer->traceback = g_strdup(event->text);
}

void
ipb_rpc_cell_answer_add(IpbRpcCellAnswer *answer, const IpbEvent *event)
{
    ipb_cell_text_add(answer->text, event);
    if (event->type == IPB_EVENT_DISPLAY || event->type == IPB_EVENT_RESULT)
        collect_bundle(answer, event);
    else if (event->type == IPB_EVENT_ERROR)
        collect_error(answer, event);
    else if (event->is_violation && answer->violations->len < MAX_VIOLATIONS)
        g_ptr_array_add(answer->violations, g_strdup(event->text));
}

/* --- events ---------------------------------------------------------------------------------- */

bool
ipb_rpc_is_about_input(IpbEventType type)
{
    return type == IPB_EVENT_INPUT_REQUEST || type == IPB_EVENT_INPUT_WITHDRAWN;
}

/* Other events are notified only by the text that they add. */
static bool
has_own_notification(IpbEventType type)
{
    return (type >= IPB_EVENT_DISPLAY && type <= IPB_EVENT_NOTICE) || ipb_rpc_is_about_input(type);
}

static void
write_members(IpbJsonWriter *writer, const IpbEvent *event)
{
    if (event->type == IPB_EVENT_CLEAR_OUTPUT) {
        ipb_json_member_bool(writer, "wait", event->wait);
    } else if (event->type == IPB_EVENT_ERROR) {
        ipb_json_member_string(writer, "name", event->ename);
        ipb_json_member_string(writer, "value", event->evalue);
        ipb_json_member_string(writer, "traceback", event->text);
    } else if (event->type == IPB_EVENT_TOOL_PROGRESS || event->type == IPB_EVENT_NOTICE) {
        ipb_json_member_string(writer, "text", event->text);
    } else if (ipb_rpc_is_about_input(event->type)) {
        ipb_json_member_int(writer, "input", (int64_t) event->input);
        if (event->type == IPB_EVENT_INPUT_REQUEST) {
            ipb_json_member_string(writer, "prompt", event->text);
            ipb_json_member_bool(writer, "password", event->is_password);
        }
    } else {
        ipb_json_member_object(writer, "data", event->data);
        ipb_json_member_object(writer, "metadata", event->metadata);
        ipb_json_member_string(writer, "display_id", event->display_id);
        ipb_json_member_string(writer, "image", event->image_path);
    }
}

/* The "stream" of the text that an event adds. */
static const char *
stream_name(IpbEventType type)
{
    return ipb_event_name(type == IPB_EVENT_RESULT ? IPB_EVENT_DISPLAY : type);
}

void
ipb_rpc_cell_answer_send(const IpbRpcCellAnswer *answer, const IpbEvent *event,
                         IpbRpcClient *client, const char *request_id)
{
    const char *added = ipb_cell_text_added(answer->text);
    if (has_own_notification(event->type)) {
        IpbJsonWriter *writer = ipb_rpc_client_begin_event(request_id, ipb_event_name(event->type));
        write_members(writer, event);
        ipb_rpc_client_send_event(client, writer);
    }
    if (added != NULL) {
        IpbJsonWriter *writer = ipb_rpc_client_begin_event(request_id, "text");
        ipb_json_member_string(writer, "stream", stream_name(event->type));
        ipb_json_member_string(writer, "text", added);
        ipb_rpc_client_send_event(client, writer);
    }
}

/* --- late events ----------------------------------------------------------------------------- */

/* Unlike in a cell's events, the text of a display is one of its members: the client does not
 * collect the text of late events. */
static void
write_late_event(IpbJsonWriter *writer, const IpbEvent *event)
{
    if (event->type == IPB_EVENT_STDOUT || event->type == IPB_EVENT_STDERR) {
        ipb_json_member_string(writer, "type", "text");
        ipb_json_member_string(writer, "stream", stream_name(event->type));
        ipb_json_member_string(writer, "text", event->text);
        return;
    }
    ipb_json_member_string(writer, "type", ipb_event_name(event->type));
    write_members(writer, event);
    if (event->data != NULL) {
        g_autofree char *text = ipb_bundle_text(event->data);
        ipb_json_member_string(writer, "text", text);
    }
}

void
ipb_rpc_send_late_event(IpbRpcClient *client, const char *session, const IpbEvent *event)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", session);
    ipb_json_key(writer, "execution_count");
    if (event->execution_count > 0)
        ipb_json_write_int(writer, event->execution_count);
    else
        ipb_json_write_null(writer);
    ipb_json_key(writer, "event");
    ipb_json_begin_object(writer);
    write_late_event(writer, event);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    ipb_rpc_client_notify(client, "session.late_output", writer);
}

/* --- the answer ------------------------------------------------------------------------------ */

/* An interrupt that the client did not ask for by cancelling this request is "interrupted". */
static IpbCellStatus
answer_status(IpbCellStatus status, bool is_cancelled)
{
    bool is_interrupted = status == IPB_CELL_CANCELLED && !is_cancelled;
    return is_interrupted ? IPB_CELL_INTERRUPTED : status;
}

static void
write_strings(IpbJsonWriter *writer, const char *name, const GPtrArray *strings)
{
    ipb_json_key(writer, name);
    ipb_json_begin_array(writer);
    for (guint i = 0; i < strings->len; i++)
        ipb_json_write_string(writer, g_ptr_array_index(strings, i));
    ipb_json_end_array(writer);
}

static void
write_error(IpbJsonWriter *writer, const IpbRpcCellAnswer *answer)
{
    ipb_json_key(writer, "error");
    if (answer->ename == NULL) {
        ipb_json_write_null(writer);
        return;
    }
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", answer->ename);
    ipb_json_member_string(writer, "value", answer->evalue);
    ipb_json_member_string(writer, "traceback", answer->traceback);
    ipb_json_member_string(writer, "text", ipb_cell_text_error(answer->text));
    ipb_json_end_object(writer);
}

/* NULL: there was no output. */
static char *
copy_text(const IpbRpcCellAnswer *answer)
{
    if (!ipb_cell_text_has_output(answer->text))
        return NULL;
    return answer->strips ? ipb_cell_text_get(answer->text) : ipb_cell_text_get_raw(answer->text);
}

IpbJsonWriter *
ipb_rpc_cell_answer_write(const IpbRpcCellAnswer *answer, const IpbEvent *done, bool is_cancelled)
{
    g_autofree char *text = copy_text(answer);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "status",
                           ipb_cell_status_name(answer_status(done->status, is_cancelled)));
    ipb_json_member_string(writer, "text", text);
    ipb_json_member_bool(writer, "truncated",
                         ipb_cell_text_is_truncated(answer->text) || answer->is_display_data_cut);
    write_strings(writer, "images", ipb_cell_text_images(answer->text));
    ipb_json_key(writer, "display_data");
    ipb_json_begin_array(writer);
    if (answer->display_data->len > 0)
        ipb_json_write_raw(writer, answer->display_data->str, answer->display_data->len);
    ipb_json_end_array(writer);
    write_error(writer, answer);
    write_strings(writer, "violations", answer->violations);
    write_strings(writer, "notices", ipb_cell_text_notices(answer->text));
    ipb_json_member_string(writer, "message", done->text);
    ipb_json_member_int(writer, "execution_count", done->execution_count);
    ipb_json_member_bool(writer, "undone", done->is_undone);
    if (done->changes != NULL) {
        ipb_json_key(writer, "changes");
        ipb_json_write_raw(writer, done->changes, strlen(done->changes));
        ipb_json_member_string(writer, "changes_cut", done->changes_cut);
    }
    ipb_json_end_object(writer);
    return writer;
}
