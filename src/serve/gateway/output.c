/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages for output; see the header.
 */
#include "serve/gateway/output.h"

#include <string.h>

/* It lets a client tell this from what the cell wrote. */
#define LATE_METADATA "{\"ipybox\":{\"late\":true}}"
#define LATE_HEADING "[ipybox] written while no cell ran, by code of an unknown cell:\n"

static IpbJsonWriter *
new_object(void)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    return writer;
}

void
ipb_gateway_output_send_stream(IpbGatewayPublisher *publisher, const IpbJson *parent,
                               const char *name, const char *text, const char *metadata)
{
    IpbJsonWriter *writer = new_object();
    ipb_json_member_string(writer, "name", name);
    ipb_json_member_string(writer, "text", text);
    ipb_gateway_publisher_broadcast_with(publisher, "stream", parent, metadata, writer);
}

static void
send_bundle(IpbGatewayPublisher *publisher, const IpbJson *parent, const char *msg_type,
            const IpbEvent *event, int64_t execution_count)
{
    IpbJsonWriter *writer = new_object();
    ipb_json_member_object(writer, "data", event->data);
    ipb_json_member_object(writer, "metadata", event->metadata);
    if (event->type == IPB_EVENT_RESULT)
        ipb_json_member_int(writer, "execution_count", execution_count);
    if (event->type != IPB_EVENT_RESULT || event->display_id != NULL) {
        ipb_json_key(writer, "transient");
        ipb_json_begin_object(writer);
        if (event->display_id != NULL)
            ipb_json_member_string(writer, "display_id", event->display_id);
        ipb_json_end_object(writer);
    }
    ipb_gateway_publisher_broadcast(publisher, msg_type, parent, writer);
}

static void
send_clear_output(IpbGatewayPublisher *publisher, const IpbJson *parent, bool wait)
{
    IpbJsonWriter *writer = new_object();
    ipb_json_member_bool(writer, "wait", wait);
    ipb_gateway_publisher_broadcast(publisher, "clear_output", parent, writer);
}

static void
send_late_text(IpbGatewayPublisher *publisher, const IpbJson *parent, const char *text)
{
    g_autofree char *marked = g_strconcat(LATE_HEADING, text, NULL);
    ipb_gateway_output_send_stream(publisher, parent, "stdout", marked, LATE_METADATA);
}

void
ipb_gateway_output_send(IpbGatewayPublisher *publisher, const IpbJson *parent,
                        const IpbEvent *event, int64_t execution_count)
{
    switch (event->type) {
    case IPB_EVENT_STDOUT:
        ipb_gateway_output_send_stream(publisher, parent, "stdout", event->text, NULL);
        break;
    case IPB_EVENT_STDERR:
        ipb_gateway_output_send_stream(publisher, parent, "stderr", event->text, NULL);
        break;
    case IPB_EVENT_LATE_OUTPUT:
        send_late_text(publisher, parent, event->text);
        break;
    case IPB_EVENT_DISPLAY:
        send_bundle(publisher, parent, "display_data", event, 0);
        break;
    case IPB_EVENT_UPDATE:
        send_bundle(publisher, parent, "update_display_data", event, 0);
        break;
    case IPB_EVENT_RESULT:
        send_bundle(publisher, parent, "execute_result", event, execution_count);
        break;
    case IPB_EVENT_CLEAR_OUTPUT:
        send_clear_output(publisher, parent, event->wait);
        break;
    case IPB_EVENT_COMM:
        ipb_gateway_publisher_send_comm(publisher, event->comm, parent);
        break;
    case IPB_EVENT_ERROR: /* not output */
    case IPB_EVENT_TOOL_PROGRESS:
    case IPB_EVENT_NOTICE:
    case IPB_EVENT_READY:
    case IPB_EVENT_START_FAILED:
    case IPB_EVENT_INPUT_REQUEST:
    case IPB_EVENT_INPUT_WITHDRAWN:
    case IPB_EVENT_DIED:
    case IPB_EVENT_STARTED:
    case IPB_EVENT_DONE:
        break;
    }
}

void
ipb_gateway_output_send_late(IpbGatewayPublisher *publisher, const IpbEvent *event)
{
    if (event->cell == 0 && event->type != IPB_EVENT_COMM)
        return;
    g_autoptr(IpbJsonDoc) parent =
        event->parent != NULL
            ? ipb_json_parse(event->parent, strlen(event->parent), &IPB_JSON_LIMITS_SMALL, NULL)
            : NULL;
    ipb_gateway_output_send(publisher, parent != NULL ? ipb_json_root(parent) : NULL, event, 0);
}
