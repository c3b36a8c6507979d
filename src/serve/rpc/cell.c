/* SPDX-License-Identifier: Apache-2.0
 *
 * session.execute: a cell from its request to its answer. The answer has all that the cell put out; with events the client gets
 * it as it comes, too: each event, and the pieces whose concatenation is the text before its blanks go.
 */

#include "base/error.h"
#include "serve/rpc/private.h"

/* Characters of a result's text: a message stays below 128 MiB, however they are escaped. */
#define MAX_TEXT_CHARS (16 * 1024 * 1024)
/* Bytes of MIME bundles in a result; later ones are left out. */
#define MAX_DISPLAY_DATA (32u * 1024 * 1024)
#define MAX_VIOLATIONS 100

struct IpbRpcCell {
    IpbRpcSession *session;
    IpbRpcWork *work;
    char *request; /* its id as JSON text */
    IpbApprovalPolicy approval;
    bool has_approval; /* of its own */
    bool has_events;
    bool strips; /* the answer's text */
    IpbCellText *text;
    GString *display_data; /* bundles as JSON, with commas between */
    bool is_display_data_cut;
    char *ename, *evalue, *traceback; /* of its error, or NULL */
    GPtrArray *violations;
};

void
ipb_rpc_cell_free(IpbRpcCell *cell)
{
    ipb_cell_text_free(cell->text);
    g_string_free(cell->display_data, TRUE);
    g_ptr_array_unref(cell->violations);
    g_free(cell->request);
    g_free(cell->ename);
    g_free(cell->evalue);
    g_free(cell->traceback);
    g_free(cell);
}

bool
ipb_rpc_cell_approval(const IpbRpcCell *cell, IpbApprovalPolicy *ret_approval)
{
    if (cell->has_approval)
        *ret_approval = cell->approval;
    return cell->has_approval;
}

const char *
ipb_rpc_cell_request(const IpbRpcCell *cell)
{
    return cell->request;
}

/* --- events ------------------------------------------------------------------------------------ */

static void
write_object(IpbJsonWriter *writer, const char *name, const IpbJson *object)
{
    ipb_json_key(writer, name);
    if (object != NULL)
        ipb_json_write_value(writer, object);
    else
        ipb_json_write_raw(writer, "{}", 2);
}

static void
send_bundle(const IpbRpcCell *cell, const char *type, const IpbEvent *event)
{
    IpbJsonWriter *writer = ipb_rpc_server_begin_event(cell->request, type);
    write_object(writer, "data", event->data);
    write_object(writer, "metadata", event->metadata);
    ipb_json_member_string(writer, "display_id", event->display_id);
    ipb_json_member_string(writer, "image", event->image_path);
    ipb_rpc_server_send_event(cell->session->server, writer);
}

static void
send_error(const IpbRpcCell *cell, const IpbEvent *event)
{
    IpbJsonWriter *writer = ipb_rpc_server_begin_event(cell->request, "error");
    ipb_json_member_string(writer, "name", event->ename);
    ipb_json_member_string(writer, "value", event->evalue);
    ipb_json_member_string(writer, "traceback", event->text);
    ipb_rpc_server_send_event(cell->session->server, writer);
}

static void
send_text(const IpbRpcCell *cell, const char *type, const char *stream, const char *text)
{
    IpbJsonWriter *writer = ipb_rpc_server_begin_event(cell->request, type);
    if (stream != NULL)
        ipb_json_member_string(writer, "stream", stream);
    ipb_json_member_string(writer, "text", text);
    ipb_rpc_server_send_event(cell->session->server, writer);
}

static void
send_clear(const IpbRpcCell *cell, const IpbEvent *event)
{
    IpbJsonWriter *writer = ipb_rpc_server_begin_event(cell->request, "clear_output");
    ipb_json_member_bool(writer, "wait", event->wait);
    ipb_rpc_server_send_event(cell->session->server, writer);
}

/* The event itself, where it is more than its text. */
static void
send_more_than_text(const IpbRpcCell *cell, const IpbEvent *event)
{
    const char *type = ipb_event_name(event->type);
    switch (event->type) {
    case IPB_EVENT_DISPLAY:
    case IPB_EVENT_RESULT:
    case IPB_EVENT_UPDATE:
        send_bundle(cell, type, event);
        break;
    case IPB_EVENT_CLEAR_OUTPUT:
        send_clear(cell, event);
        break;
    case IPB_EVENT_ERROR:
        send_error(cell, event);
        break;
    case IPB_EVENT_TOOL_PROGRESS:
    case IPB_EVENT_NOTICE:
        send_text(cell, type, NULL, event->text);
        break;
    case IPB_EVENT_STARTED:
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_STDERR:
    case IPB_EVENT_LATE_OUTPUT:
    case IPB_EVENT_DONE:
    case IPB_EVENT_READY:
    case IPB_EVENT_START_FAILED:
        break;
    }
}

static void
tell_event(const IpbRpcCell *cell, const IpbEvent *event)
{
    const char *added = ipb_cell_text_added(cell->text);
    /* The text of a value is a display, too. */
    const char *stream =
        ipb_event_name(event->type == IPB_EVENT_RESULT ? IPB_EVENT_DISPLAY : event->type);
    send_more_than_text(cell, event);
    if (added != NULL)
        send_text(cell, "text", stream, added);
}

/* --- the answer -------------------------------------------------------------------------------- */

static void
collect_bundle(IpbRpcCell *cell, const IpbEvent *event)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_object(writer, "data", event->data);
    write_object(writer, "metadata", event->metadata);
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *bundle = ipb_json_writer_finish(writer, &size);
    if (cell->display_data->len + size > MAX_DISPLAY_DATA) {
        cell->is_display_data_cut = true;
        return;
    }
    if (cell->display_data->len > 0)
        g_string_append_c(cell->display_data, ',');
    g_string_append_len(cell->display_data, bundle, (gssize) size);
}

static void
collect_error(IpbRpcCell *cell, const IpbEvent *event)
{
    g_free(cell->ename);
    g_free(cell->evalue);
    g_free(cell->traceback);
    cell->ename = g_strdup(event->ename);
    cell->evalue = g_strdup(event->evalue);
    cell->traceback = g_strdup(event->text);
}

static void
collect(IpbRpcCell *cell, const IpbEvent *event)
{
    ipb_cell_text_add(cell->text, event);
    if (event->type == IPB_EVENT_DISPLAY || event->type == IPB_EVENT_RESULT)
        collect_bundle(cell, event);
    else if (event->type == IPB_EVENT_ERROR)
        collect_error(cell, event);
    else if (event->is_violation && cell->violations->len < MAX_VIOLATIONS)
        g_ptr_array_add(cell->violations, g_strdup(event->text));
}

static const char *
status_name(const IpbRpcCell *cell, IpbCellStatus status)
{
    bool is_interrupted = status == IPB_CELL_CANCELLED && !cell->work->is_cancelled;
    return ipb_cell_status_name(is_interrupted ? IPB_CELL_INTERRUPTED : status);
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
write_error(IpbJsonWriter *writer, const IpbRpcCell *cell)
{
    ipb_json_key(writer, "error");
    if (cell->ename == NULL) {
        ipb_json_write_null(writer);
        return;
    }
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", cell->ename);
    ipb_json_member_string(writer, "value", cell->evalue);
    ipb_json_member_string(writer, "traceback", cell->traceback);
    ipb_json_member_string(writer, "text", ipb_cell_text_error(cell->text));
    ipb_json_end_object(writer);
}

/* NULL: there was no output. */
static char *
copy_text(const IpbRpcCell *cell)
{
    if (!ipb_cell_text_has_output(cell->text))
        return NULL;
    return cell->strips ? ipb_cell_text_get(cell->text) : ipb_cell_text_get_raw(cell->text);
}

static IpbJsonWriter *
write_result(const IpbRpcCell *cell, const IpbEvent *done)
{
    g_autofree char *text = copy_text(cell);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "status", status_name(cell, done->status));
    ipb_json_member_string(writer, "text", text);
    ipb_json_member_bool(writer, "truncated",
                         ipb_cell_text_is_truncated(cell->text) || cell->is_display_data_cut);
    write_strings(writer, "images", ipb_cell_text_images(cell->text));
    ipb_json_key(writer, "display_data");
    ipb_json_begin_array(writer);
    if (cell->display_data->len > 0)
        ipb_json_write_raw(writer, cell->display_data->str, cell->display_data->len);
    ipb_json_end_array(writer);
    write_error(writer, cell);
    write_strings(writer, "violations", cell->violations);
    write_strings(writer, "notices", ipb_cell_text_notices(cell->text));
    ipb_json_member_string(writer, "message", done->text);
    ipb_json_member_int(writer, "execution_count", done->execution_count);
    ipb_json_end_object(writer);
    return writer;
}

static void
finish(IpbRpcCell *cell, const IpbEvent *done)
{
    IpbRpcSession *session = cell->session;
    IpbRpcWork *work = cell->work;
    IpbJsonWriter *writer = write_result(cell, done);
    g_queue_remove(&session->cells, cell);
    ipb_rpc_cell_free(cell);
    if (!session->is_closing)
        ipb_rpc_session_apply_approval(session);
    ipb_rpc_work_reply(work, writer);
}

static void
on_event(const IpbEvent *event, void *data)
{
    IpbRpcCell *cell = data;
    collect(cell, event);
    if (cell->has_events)
        tell_event(cell, event);
    if (event->type == IPB_EVENT_DONE)
        finish(cell, event);
}

/* --- the request ------------------------------------------------------------------------------- */

static void
cancel_cell(IpbRpcWork *work)
{
    ipb_session_cancel(work->session->core, work->number);
}

/* False: the session's. */
static bool
read_approval(IpbRpcParams *params, IpbApprovalPolicy *ret_approval)
{
    static const char *const POLICIES[] = {"allow", "ask", "deny", NULL};
    static const IpbApprovalPolicy VALUES[] = {IPB_APPROVAL_ALLOW, IPB_APPROVAL_ASK,
                                               IPB_APPROVAL_DENY};
    int word = ipb_rpc_params_word(params, "approval", POLICIES, -1);
    *ret_approval = word >= 0 ? VALUES[word] : IPB_APPROVAL_DENY;
    return word >= 0;
}

static void
start(IpbRpcCell *cell, IpbRpcRequest *request, const char *code, unsigned timeout_ms)
{
    IpbRpcSession *session = cell->session;
    g_autoptr(GError) error = NULL;
    uint64_t number = ipb_session_execute(session->core, code, timeout_ms, on_event, cell, &error);
    if (number == 0) {
        ipb_rpc_cell_free(cell);
        ipb_rpc_server_fail(request, error);
        return;
    }
    cell->work = ipb_rpc_work_new(session->server, session, request);
    cell->work->cancel = cancel_cell;
    cell->work->number = number;
    g_queue_push_tail(&session->cells, cell);
    ipb_rpc_session_apply_approval(session);
}

void
ipb_rpc_session_execute(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSession *session = ipb_rpc_session_find(server, params);
    const char *code = ipb_rpc_params_need_string(params, "code");
    int64_t timeout_ms = ipb_rpc_params_ms(params, "timeout", 0);
    int64_t max_chars =
        ipb_rpc_params_int(params, "max_text_chars", MAX_TEXT_CHARS, 0, MAX_TEXT_CHARS);
    bool has_events = ipb_rpc_params_bool(params, "events", false);
    bool strips = ipb_rpc_params_bool(params, "strip", true);
    IpbApprovalPolicy approval;
    bool has_approval = read_approval(params, &approval);
    if (!ipb_rpc_server_check(request, params))
        return;
    IpbRpcCell *cell = g_new0(IpbRpcCell, 1);
    cell->session = session;
    cell->request = g_strdup(ipb_rpc_request_id(request));
    cell->approval = approval;
    cell->has_approval = has_approval;
    cell->has_events = has_events;
    cell->strips = strips;
    cell->text = ipb_cell_text_new_joined((size_t) max_chars);
    cell->display_data = g_string_new(NULL);
    cell->violations = g_ptr_array_new_with_free_func(g_free);
    start(cell, request, code, (unsigned) timeout_ms);
}
