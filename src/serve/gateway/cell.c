/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of a kernel; see the header.
 */
#include "serve/gateway/cell.h"

#include <string.h>

#include "base/error.h"
#include "serve/gateway/output.h"

/* It lets a client tell notices from what the cell wrote. */
#define NOTICE_METADATA "{\"ipybox\":{\"notice\":true}}"

struct IpbGatewayCell {
    IpbGatewayCellOptions options;
    IpbGatewayPublisher *publisher;
    bool is_silent;
    bool is_comm;
    IpbCommKind comm_kind;
    bool ends_by_restart;
    IpbGatewayQuestions *questions;
    char *ename; /* of its first error; NULL: it has none */
    char *evalue;
    char *traceback; /* JSON: an array of strings */
};

static IpbJsonWriter *
new_object(void)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    return writer;
}

static const IpbJson *
parent_of(const IpbGatewayCell *cell)
{
    return cell->options.request->message.header;
}

static const IpbJson *
content_of(const IpbGatewayCell *cell)
{
    return cell->options.request->message.content;
}

IpbGatewayCell *
ipb_gateway_cell_new(const IpbGatewayCellOptions *options)
{
    IpbGatewayCell *cell = g_new0(IpbGatewayCell, 1);
    cell->options = *options;
    cell->publisher = options->publisher;
    cell->questions = ipb_gateway_questions_new(options->session, options->publisher,
                                                options->request, options->has_stale_question);
    const char *msg_type = options->request->message.msg_type;
    cell->is_comm = g_str_has_prefix(msg_type, "comm_") &&
                    ipb_comm_kind_parse(msg_type + strlen("comm_"), &cell->comm_kind);
    cell->is_silent = !cell->is_comm && ipb_json_get_bool(content_of(cell), "silent", false);
    return cell;
}

void
ipb_gateway_cell_free(IpbGatewayCell *cell)
{
    if (cell == NULL)
        return;
    ipb_gateway_questions_free(cell->questions);
    g_free(cell->ename);
    g_free(cell->evalue);
    g_free(cell->traceback);
    g_free(cell);
}

void
ipb_gateway_cell_expect_restart(IpbGatewayCell *cell)
{
    cell->ends_by_restart = true;
}

/* --- events ---------------------------------------------------------------------------------- */

/* If no client is connected, or the cell is silent, no user would see the notice. It then comes
 * with a later cell. */
static void
send_notice(IpbGatewayCell *cell, const IpbEvent *event)
{
    if (!event->is_in_text &&
        (cell->is_silent || !ipb_gateway_publisher_has_clients(cell->publisher))) {
        g_autoptr(GPtrArray) notices = g_ptr_array_new();
        g_ptr_array_add(notices, (char *) event->text);
        ipb_session_keep_notices(cell->options.session, notices);
        return;
    }
    g_autofree char *line = g_strconcat(event->text, "\n", NULL);
    ipb_gateway_output_send_stream(cell->publisher, parent_of(cell), "stderr", line,
                                   event->is_in_text ? NULL : NOTICE_METADATA);
}

static void
write_error(IpbJsonWriter *writer, const IpbGatewayCell *cell)
{
    ipb_json_member_string(writer, "ename", cell->ename);
    ipb_json_member_string(writer, "evalue", cell->evalue);
    ipb_json_key(writer, "traceback");
    ipb_json_write_raw(writer, cell->traceback, strlen(cell->traceback));
}

static char *
write_traceback(const char *text, const IpbJson *parts)
{
    size_t size;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    if (parts == NULL)
        ipb_json_write_string(writer, text);
    IPB_JSON_FOREACH (part, parts)
        ipb_json_write_value(writer, part);
    ipb_json_end_array(writer);
    return ipb_json_writer_finish(writer, &size);
}

/* The first error of a cell counts. Returns whether this is it. */
static bool
keep_error(IpbGatewayCell *cell, const char *ename, const char *evalue, const char *traceback,
           const IpbJson *parts)
{
    if (cell->ename != NULL)
        return false;
    cell->ename = g_strdup(ename != NULL ? ename : "Error");
    cell->evalue = g_strdup(evalue != NULL ? evalue : "");
    cell->traceback = write_traceback(traceback != NULL ? traceback : "", parts);
    return true;
}

static void
send_error(IpbGatewayCell *cell, const char *ename, const char *evalue, const char *traceback,
           const IpbJson *parts)
{
    if (!keep_error(cell, ename, evalue, traceback, parts))
        return;
    IpbJsonWriter *writer = new_object();
    write_error(writer, cell);
    ipb_gateway_publisher_broadcast(cell->publisher, "error", parent_of(cell), writer);
}

/* --- questions ------------------------------------------------------------------------------- */

IpbGatewayQuestions *
ipb_gateway_cell_questions(IpbGatewayCell *cell)
{
    return cell->questions;
}

/* --- the end --------------------------------------------------------------------------------- */

/* @event: the session's DONE, with what the client's user_expressions came to and what the client
 * is asked to do; NULL: the cell did not run. */
static void
answer_execution(IpbGatewayCell *cell, const IpbEvent *event)
{
    IpbJsonWriter *writer = new_object();
    ipb_json_member_string(writer, "status", cell->ename != NULL ? "error" : "ok");
    ipb_json_member_int(writer, "execution_count", *cell->options.execution_count);
    if (cell->ename != NULL)
        write_error(writer, cell);
    ipb_json_key(writer, "payload");
    if (event != NULL && event->payload != NULL) {
        ipb_json_write_value(writer, event->payload);
    } else {
        ipb_json_begin_array(writer);
        ipb_json_end_array(writer);
    }
    ipb_json_member_object(writer, "user_expressions",
                           event != NULL ? event->user_expressions : NULL);
    ipb_gateway_publisher_reply(cell->publisher, cell->options.request, "execute_reply", writer);
}

static void
end_cell(IpbGatewayCell *cell, const IpbEvent *event)
{
    /* Cells that wait behind a failed one were written for its success. */
    bool aborts = !cell->is_comm && cell->ename != NULL &&
                  ipb_json_get_bool(content_of(cell), "stop_on_error", true);
    bool is_dead = event != NULL && event->status == IPB_CELL_LOST;
    if (!cell->is_comm && !(is_dead && cell->options.ends_with_kernel))
        answer_execution(cell, event);
    cell->options.on_done(aborts, cell->options.data); /* frees it */
}

static void
on_done(IpbGatewayCell *cell, const IpbEvent *event)
{
    if (event->execution_count > 0)
        *cell->options.execution_count = event->execution_count;
    switch (event->status) {
    case IPB_CELL_OK:
        break;
    case IPB_CELL_ERROR: /* usually the ERROR event was sent before */
        send_error(cell, "Error", event->text, event->text, NULL);
        break;
    case IPB_CELL_CANCELLED:
    case IPB_CELL_INTERRUPTED:
    case IPB_CELL_TIMEOUT:
        send_error(cell, "KeyboardInterrupt", event->text, event->text, NULL);
        break;
    case IPB_CELL_LOST:
        send_error(cell, "DeadKernelError", event->text, event->text, NULL);
        /* Front ends take this for a death, even while they wait for a restart of their own. */
        if (!cell->ends_by_restart && !cell->options.ends_with_kernel)
            ipb_gateway_publisher_send_status(cell->publisher, "restarting", parent_of(cell));
        *cell->options.execution_count = 0;
        break;
    }
    end_cell(cell, event);
}

static void
on_started(IpbGatewayCell *cell, int64_t execution_count)
{
    *cell->options.execution_count = execution_count;
    if (cell->is_silent || cell->is_comm)
        return;
    const IpbJson *code = ipb_json_get(content_of(cell), "code");
    IpbJsonWriter *writer = new_object();
    ipb_json_member_value(writer, "code", code);
    ipb_json_member_int(writer, "execution_count", execution_count);
    ipb_gateway_publisher_broadcast(cell->publisher, "execute_input", parent_of(cell), writer);
}

static void
on_event(const IpbEvent *event, void *data)
{
    IpbGatewayCell *cell = data;
    switch (event->type) {
    case IPB_EVENT_STARTED:
        on_started(cell, event->execution_count);
        break;
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_STDERR:
    case IPB_EVENT_LATE_OUTPUT:
    case IPB_EVENT_DISPLAY:
    case IPB_EVENT_UPDATE:
    case IPB_EVENT_RESULT:
    case IPB_EVENT_CLEAR_OUTPUT:
    case IPB_EVENT_COMM:
        ipb_gateway_output_send(cell->publisher, parent_of(cell), event,
                                *cell->options.execution_count);
        break;
    case IPB_EVENT_NOTICE:
        send_notice(cell, event);
        break;
    case IPB_EVENT_ERROR:
        if (event->is_shown) /* the reply reports it */
            keep_error(cell, event->ename, event->evalue, event->text, NULL);
        else
            send_error(cell, event->ename, event->evalue, event->text, event->parts);
        break;
    case IPB_EVENT_TOOL_PROGRESS:
    case IPB_EVENT_READY:
    case IPB_EVENT_START_FAILED:
    case IPB_EVENT_DIED:
        break;
    case IPB_EVENT_INPUT_REQUEST:
        ipb_gateway_questions_ask_input(cell->questions, event);
        break;
    case IPB_EVENT_INPUT_WITHDRAWN: /* Jupyter has no message for it */
        ipb_gateway_questions_withdraw_input(cell->questions, event->input);
        break;
    case IPB_EVENT_DONE:
        on_done(cell, event);
        break;
    }
}

/* --- the start ------------------------------------------------------------------------------- */

/* The JSON text of user_expressions; NULL: there are none. The caller frees it. */
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
run(IpbGatewayCell *cell, const char *code, GError **error)
{
    const IpbJson *content = content_of(cell);
    g_autofree char *expressions = copy_expressions(content);
    IpbSpan header = ipb_json_raw(parent_of(cell)); /* 16 KiB at most: message.c */
    g_autofree char *parent = g_strndup(header.start, header.size);
    IpbCellOptions options = {
        .is_silent = cell->is_silent,
        .stores_history = ipb_json_get_bool(content, "store_history", true),
        .user_expressions = expressions,
        .allows_input = ipb_json_get_bool(content, "allow_stdin", false),
        .parent = parent,
    };
    return ipb_session_execute_with(cell->options.session, code, &options, on_event, cell, error) !=
           0;
}

/* NULL with @error. */
static GBytes *
write_comm(const IpbGatewayCell *cell, GError **error)
{
    const IpbGatewayMessage *message = &cell->options.request->message;
    IpbComm comm = {
        .kind = cell->comm_kind,
        .comm_id = ipb_json_get_string(message->content, "comm_id"),
        .target_name = ipb_json_get_string(message->content, "target_name"),
        .data = ipb_json_get(message->content, "data"),
        .metadata = message->metadata,
        .buffers = message->buffers,
        .n_buffers = message->n_buffers,
    };
    return ipb_comm_write(&comm, error);
}

static bool
run_comm(IpbGatewayCell *cell, GError **error)
{
    g_autoptr(GBytes) comm = write_comm(cell, error);
    if (comm == NULL)
        return false;
    IpbSpan header = ipb_json_raw(parent_of(cell));
    g_autofree char *parent = g_strndup(header.start, header.size);
    IpbCellOptions options = {.comm = comm, .parent = parent};
    return ipb_session_execute_with(cell->options.session, "", &options, on_event, cell, error) !=
           0;
}

static void
start_comm(IpbGatewayCell *cell)
{
    g_autoptr(GError) error = NULL;
    if (run_comm(cell, &error))
        return;
    send_error(cell, "ValueError", error->message, error->message, NULL);
    end_cell(cell, NULL);
}

void
ipb_gateway_cell_start(IpbGatewayCell *cell)
{
    if (cell->is_comm) {
        start_comm(cell);
        return;
    }
    const IpbJson *content = content_of(cell);
    const char *code = ipb_json_get_string(content, "code");
    g_autoptr(GError) error = NULL;
    if (code == NULL)
        g_set_error_literal(&error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "content.code must be a string (without NUL)");
    if (error != NULL || !run(cell, code, &error)) {
        send_error(cell, "ValueError", error->message, error->message, NULL);
        end_cell(cell, NULL);
    }
}
