/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a kernel; see the header.
 */
#include "serve/gateway/publisher.h"

struct IpbGatewayPublisher {
    const char *kernel_id;
    const IpbGatewayPublisherFuncs *funcs;
    void *data;
    uint64_t n_messages;
};

IpbGatewayPublisher *
ipb_gateway_publisher_new(const char *kernel_id, const IpbGatewayPublisherFuncs *funcs, void *data)
{
    IpbGatewayPublisher *publisher = g_new0(IpbGatewayPublisher, 1);
    publisher->kernel_id = kernel_id;
    publisher->funcs = funcs;
    publisher->data = data;
    return publisher;
}

void
ipb_gateway_publisher_free(IpbGatewayPublisher *publisher)
{
    g_free(publisher);
}

bool
ipb_gateway_publisher_has_clients(const IpbGatewayPublisher *publisher)
{
    return publisher->funcs->has_clients(publisher->data);
}

static void
send(IpbGatewayPublisher *publisher, IpbGatewayClient *client, IpbGatewayParts *parts,
     IpbJsonWriter *writer)
{
    ipb_json_end_object(writer);
    parts->session = publisher->kernel_id;
    parts->number = ++publisher->n_messages;
    parts->content = ipb_json_writer_finish(writer, &parts->content_size);
    g_autoptr(IpbGatewayOutgoing) outgoing = ipb_gateway_outgoing_new(parts);
    publisher->funcs->send(outgoing, client, publisher->data);
}

void
ipb_gateway_publisher_broadcast_with(IpbGatewayPublisher *publisher, const char *msg_type,
                                     const IpbJson *parent, const char *metadata,
                                     IpbJsonWriter *writer)
{
    IpbGatewayParts parts = {
        .channel = "iopub",
        .msg_type = msg_type,
        .parent = parent,
        .metadata = metadata,
    };
    send(publisher, NULL, &parts, writer);
}

void
ipb_gateway_publisher_broadcast(IpbGatewayPublisher *publisher, const char *msg_type,
                                const IpbJson *parent, IpbJsonWriter *writer)
{
    ipb_gateway_publisher_broadcast_with(publisher, msg_type, parent, NULL, writer);
}

void
ipb_gateway_publisher_send_comm(IpbGatewayPublisher *publisher, const IpbComm *comm,
                                const IpbJson *parent)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "comm_id", comm->comm_id);
    ipb_json_member_value(writer, "data", comm->data);
    if (comm->kind == IPB_COMM_OPEN) {
        ipb_json_member_string(writer, "target_name", comm->target_name);
        ipb_json_member_string(writer, "target_module", comm->target_module);
    }
    g_autofree char *metadata = NULL;
    if (comm->metadata != NULL) {
        IpbJsonWriter *object = ipb_json_writer_new();
        ipb_json_write_value(object, comm->metadata);
        metadata = ipb_json_writer_finish(object, NULL);
    }
    IpbGatewayParts parts = {
        .channel = "iopub",
        .msg_type = ipb_comm_message_type(comm->kind),
        .parent = parent,
        .metadata = metadata,
        .buffers = comm->buffers,
        .n_buffers = comm->n_buffers,
    };
    send(publisher, NULL, &parts, writer);
}

void
ipb_gateway_publisher_send_status(IpbGatewayPublisher *publisher, const char *state,
                                  const IpbJson *parent)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "execution_state", state);
    ipb_gateway_publisher_broadcast(publisher, "status", parent, writer);
}

void
ipb_gateway_publisher_ask(IpbGatewayPublisher *publisher, const IpbGatewayRequest *request,
                          const char *msg_type, IpbJsonWriter *writer)
{
    IpbGatewayParts parts = {
        .channel = "stdin",
        .msg_type = msg_type,
        .parent = request->message.header,
    };
    send(publisher, request->client, &parts, writer);
}

void
ipb_gateway_publisher_reply(IpbGatewayPublisher *publisher, const IpbGatewayRequest *request,
                            const char *msg_type, IpbJsonWriter *writer)
{
    if (request->client == NULL) {
        ipb_json_writer_free(writer);
        return;
    }
    IpbGatewayParts parts = {
        .channel = request->message.channel,
        .msg_type = msg_type,
        .parent = request->message.header,
    };
    send(publisher, request->client, &parts, writer);
}
