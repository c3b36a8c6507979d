/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell of a kernel of the gateway: execute_request, the events of its session as messages on iopub, execute_reply. At most one
 * runs, that of the current request.
 */

#include "base/error.h"
#include "serve/gateway/kernel-private.h"

/* By this a client can tell notices from what the cell wrote. */
#define NOTICE_METADATA "{\"ipybox\":{\"notice\":true}}"

static IpbJsonWriter *
new_object(void)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    return writer;
}

static const IpbJson *
parent_of(const IpbGatewayKernel *kernel)
{
    return kernel->current->message.header;
}

/* --- events ------------------------------------------------------------------------------------ */

static void
send_stream(IpbGatewayKernel *kernel, const char *name, const char *text, const char *metadata)
{
    IpbJsonWriter *writer = new_object();
    ipb_json_member_string(writer, "name", name);
    ipb_json_member_string(writer, "text", text);
    ipb_gateway_kernel_broadcast_with(kernel, "stream", parent_of(kernel), metadata, writer);
}

/* If no client is connected, or the cell is silent, nobody would see the notice. It then comes with
 * a later cell. */
static void
send_notice(IpbGatewayKernel *kernel, const IpbEvent *event)
{
    if (!event->is_in_text && (kernel->cell.is_silent || kernel->clients->len == 0)) {
        g_autoptr(GPtrArray) notices = g_ptr_array_new();
        g_ptr_array_add(notices, (char *) event->text);
        ipb_session_keep_notices(kernel->session, notices);
        return;
    }
    g_autofree char *line = g_strconcat(event->text, "\n", NULL);
    send_stream(kernel, "stderr", line, event->is_in_text ? NULL : NOTICE_METADATA);
}

static void
write_object(IpbJsonWriter *writer, const char *name, const IpbJson *object)
{
    ipb_json_key(writer, name);
    if (ipb_json_is(object, IPB_JSON_OBJECT)) {
        ipb_json_write_value(writer, object);
        return;
    }
    ipb_json_begin_object(writer);
    ipb_json_end_object(writer);
}

static void
send_bundle(IpbGatewayKernel *kernel, const char *msg_type, const IpbEvent *event)
{
    IpbJsonWriter *writer = new_object();
    write_object(writer, "data", event->data);
    write_object(writer, "metadata", event->metadata);
    if (event->type == IPB_EVENT_RESULT) {
        ipb_json_member_int(writer, "execution_count", kernel->execution_count);
    } else {
        ipb_json_key(writer, "transient");
        ipb_json_begin_object(writer);
        if (event->display_id != NULL)
            ipb_json_member_string(writer, "display_id", event->display_id);
        ipb_json_end_object(writer);
    }
    ipb_gateway_kernel_broadcast(kernel, msg_type, parent_of(kernel), writer);
}

static void
write_error(IpbJsonWriter *writer, const IpbGatewayCell *cell)
{
    ipb_json_member_string(writer, "ename", cell->ename);
    ipb_json_member_string(writer, "evalue", cell->evalue);
    ipb_json_key(writer, "traceback");
    ipb_json_begin_array(writer);
    ipb_json_write_string(writer, cell->traceback);
    ipb_json_end_array(writer);
}

/* The first error of a cell counts. */
static void
send_error(IpbGatewayKernel *kernel, const char *ename, const char *evalue, const char *traceback)
{
    IpbGatewayCell *cell = &kernel->cell;
    if (cell->has_error)
        return;
    cell->has_error = true;
    cell->ename = g_strdup(ename != NULL ? ename : "Error");
    cell->evalue = g_strdup(evalue != NULL ? evalue : "");
    cell->traceback = g_strdup(traceback != NULL ? traceback : "");
    IpbJsonWriter *writer = new_object();
    write_error(writer, cell);
    ipb_gateway_kernel_broadcast(kernel, "error", parent_of(kernel), writer);
}

static void
send_clear_output(IpbGatewayKernel *kernel, bool wait)
{
    IpbJsonWriter *writer = new_object();
    ipb_json_member_bool(writer, "wait", wait);
    ipb_gateway_kernel_broadcast(kernel, "clear_output", parent_of(kernel), writer);
}

/* --- the end ----------------------------------------------------------------------------------- */

/* @expressions: what the client's user_expressions came to, or NULL. */
static void
answer_execution(IpbGatewayKernel *kernel, const IpbJson *expressions)
{
    const IpbGatewayCell *cell = &kernel->cell;
    IpbJsonWriter *writer = new_object();
    ipb_json_member_string(writer, "status", cell->has_error ? "error" : "ok");
    ipb_json_member_int(writer, "execution_count", kernel->execution_count);
    if (cell->has_error) {
        write_error(writer, cell);
    } else {
        ipb_json_key(writer, "payload");
        ipb_json_begin_array(writer);
        ipb_json_end_array(writer);
    }
    write_object(writer, "user_expressions", expressions);
    ipb_gateway_kernel_answer(kernel, kernel->current, "execute_reply", writer);
}

static void
end_cell(IpbGatewayKernel *kernel, const IpbJson *expressions)
{
    /* What waits behind a failed cell was written for its success. */
    bool aborts = kernel->cell.has_error &&
                  ipb_json_get_bool(kernel->current->message.content, "stop_on_error", true);
    answer_execution(kernel, expressions);
    ipb_gateway_cell_clear(kernel);
    ipb_gateway_requests_finish(kernel, aborts);
}

static void
on_done(IpbGatewayKernel *kernel, const IpbEvent *event)
{
    if (event->execution_count > 0)
        kernel->execution_count = event->execution_count;
    switch (event->status) {
    case IPB_CELL_OK:
        break;
    case IPB_CELL_ERROR: /* the event before has said it */
        send_error(kernel, "Error", event->text, event->text);
        break;
    case IPB_CELL_CANCELLED:
    case IPB_CELL_INTERRUPTED:
    case IPB_CELL_TIMEOUT:
        send_error(kernel, "KeyboardInterrupt", event->text, event->text);
        break;
    case IPB_CELL_LOST:
        send_error(kernel, "DeadKernelError", event->text, event->text);
        /* To front ends this means that it died, also while they wait for the restart that they asked for. */
        if (!kernel->cell.ends_by_restart)
            ipb_gateway_kernel_tell_status(kernel, "restarting", parent_of(kernel));
        kernel->execution_count = 0;
        break;
    }
    end_cell(kernel, event->user_expressions);
}

/* It has begun, and its number is known. */
static void
on_started(IpbGatewayKernel *kernel, int64_t execution_count)
{
    kernel->execution_count = execution_count;
    if (kernel->cell.is_silent)
        return;
    const IpbJson *code = ipb_json_get(kernel->current->message.content, "code");
    IpbJsonWriter *writer = new_object();
    ipb_json_member_value(writer, "code", code);
    ipb_json_member_int(writer, "execution_count", execution_count);
    ipb_gateway_kernel_broadcast(kernel, "execute_input", parent_of(kernel), writer);
}

static void
on_event(const IpbEvent *event, void *data)
{
    IpbGatewayKernel *kernel = data;
    switch (event->type) {
    case IPB_EVENT_STARTED:
        on_started(kernel, event->execution_count);
        break;
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_LATE_OUTPUT:
        send_stream(kernel, "stdout", event->text, NULL);
        break;
    case IPB_EVENT_STDERR:
        send_stream(kernel, "stderr", event->text, NULL);
        break;
    case IPB_EVENT_NOTICE:
        send_notice(kernel, event);
        break;
    case IPB_EVENT_DISPLAY:
        send_bundle(kernel, "display_data", event);
        break;
    case IPB_EVENT_UPDATE:
        send_bundle(kernel, "update_display_data", event);
        break;
    case IPB_EVENT_RESULT:
        send_bundle(kernel, "execute_result", event);
        break;
    case IPB_EVENT_CLEAR_OUTPUT:
        send_clear_output(kernel, event->wait);
        break;
    case IPB_EVENT_ERROR:
        send_error(kernel, event->ename, event->evalue, event->text);
        break;
    case IPB_EVENT_TOOL_PROGRESS:
    case IPB_EVENT_READY:
    case IPB_EVENT_START_FAILED:
        break;
    case IPB_EVENT_DONE:
        on_done(kernel, event);
        break;
    }
}

/* --- the start --------------------------------------------------------------------------------- */

/* Text of the object, or NULL if there is nothing in it. Caller frees. */
static char *
copy_expressions(const IpbJson *content)
{
    const IpbJson *expressions = ipb_json_get(content, "user_expressions");
    if (expressions == NULL ||
        (ipb_json_is(expressions, IPB_JSON_OBJECT) && ipb_json_length(expressions) == 0))
        return NULL;
    IpbSpan raw = ipb_json_raw(expressions);
    return g_strndup(raw.start, raw.size);
}

static bool
run(IpbGatewayKernel *kernel, const char *code, GError **error)
{
    const IpbJson *content = kernel->current->message.content;
    g_autofree char *expressions = copy_expressions(content);
    IpbCellOptions options = {
        .is_silent = kernel->cell.is_silent,
        .is_unstored = !ipb_json_get_bool(content, "store_history", true),
        .user_expressions = expressions,
    };
    return ipb_session_execute_with(kernel->session, code, &options, on_event, kernel, error) != 0;
}

void
ipb_gateway_cell_start(IpbGatewayKernel *kernel)
{
    const IpbJson *content = kernel->current->message.content;
    const char *code = ipb_json_get_string(content, "code");
    g_autoptr(GError) error = NULL;
    kernel->cell = (IpbGatewayCell){.is_silent = ipb_json_get_bool(content, "silent", false)};
    if (code == NULL)
        g_set_error_literal(&error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "content.code must be a string (without NUL)");
    if (error != NULL || !run(kernel, code, &error)) {
        send_error(kernel, "ValueError", error->message, error->message);
        end_cell(kernel, NULL);
    }
}

void
ipb_gateway_cell_clear(IpbGatewayKernel *kernel)
{
    g_free(kernel->cell.ename);
    g_free(kernel->cell.evalue);
    g_free(kernel->cell.traceback);
    kernel->cell = (IpbGatewayCell){0};
}
