/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of Jupyter kernels on a WebSocket (docs/internals/gateway.md). A message from a client
 * becomes an IpbGatewayMessage; a message to clients is an IpbGatewayOutgoing. There are two
 * framings: the default (JSON as text, or followed by binary buffers) and
 * v1.kernel.websocket.jupyter.org. This file knows their format, and not what messages mean.
 */
#pragma once

#include "json/json.h"

typedef enum {
    IPB_GATEWAY_FRAMING_JSON,
    IPB_GATEWAY_FRAMING_V1,
    IPB_GATEWAY_N_FRAMINGS,
} IpbGatewayFraming;

#define IPB_GATEWAY_SUBPROTOCOL_V1 "v1.kernel.websocket.jupyter.org"

/* The largest message of a client. Code may have 32 MiB, and escapes make it longer. */
#define IPB_GATEWAY_MAX_MESSAGE (64u * 1024 * 1024)

/* A message from a client. Everything is borrowed from @documents. */
typedef struct {
    /* v1: of the header, of the content and of the metadata; else only the first */
    IpbJsonDoc *documents[3];
    const IpbJson *header;   /* an object */
    const IpbJson *content;  /* an object */
    const IpbJson *metadata; /* an object or NULL */
    const char *channel;     /* "shell", "control" or "stdin" */
    const char *msg_id;
    const char *msg_type;
    /* Of messages of comms; those of others are ignored. They are in @buffer_bytes, a copy. */
    IpbSpan *buffers;
    size_t n_buffers;
    char *buffer_bytes;
} IpbGatewayMessage;

/* Errors: PROTOCOL, LIMIT. */
bool ipb_gateway_message_parse(IpbGatewayFraming framing, bool is_binary, const void *bytes,
                               size_t size, IpbGatewayMessage *ret_message, GError **error);
/* The same of a message in parts, over ZeroMQ. @channel: static. @parts: IPB_GATEWAY_N_PARTS, then
 * the buffers. */
#define IPB_GATEWAY_N_PARTS 4
bool ipb_gateway_message_parse_parts(const char *channel, const IpbSpan *parts, size_t n_parts,
                                     IpbGatewayMessage *ret_message, GError **error);
void ipb_gateway_message_clear(IpbGatewayMessage *message);

/* A message to clients. It is framed once for each framing that clients use. */
typedef struct IpbGatewayOutgoing IpbGatewayOutgoing;

/* @session and @number make the message's id. @parent: the header of the request that this belongs
 * to, or NULL. @metadata: JSON of an object, copied; NULL is {}. @content: JSON of an object,
 * taken. @buffers: borrowed for the life of the message. */
typedef struct {
    const char *channel;
    const char *msg_type;
    const char *session;
    uint64_t number;
    const IpbJson *parent;
    const char *metadata;
    char *content;
    size_t content_size;
    const IpbSpan *buffers;
    size_t n_buffers;
} IpbGatewayParts;

IpbGatewayOutgoing *ipb_gateway_outgoing_new(const IpbGatewayParts *parts);
/* Borrowed; a JSON frame is text, unless it has buffers; a v1 frame is binary. */
GBytes *ipb_gateway_outgoing_frame(IpbGatewayOutgoing *outgoing, IpbGatewayFraming framing);
bool ipb_gateway_outgoing_is_text(const IpbGatewayOutgoing *outgoing, IpbGatewayFraming framing);
/* "shell", "control", "stdin", "iopub"; "execute_reply" */
const char *ipb_gateway_outgoing_channel(const IpbGatewayOutgoing *outgoing);
const char *ipb_gateway_outgoing_type(const IpbGatewayOutgoing *outgoing);
/* JSON: header, parent_header, metadata, content; borrowed. */
void ipb_gateway_outgoing_parts(const IpbGatewayOutgoing *outgoing,
                                IpbSpan ret_parts[static IPB_GATEWAY_N_PARTS]);
/* Borrowed; NULL: none. */
const IpbSpan *ipb_gateway_outgoing_buffers(const IpbGatewayOutgoing *outgoing, size_t *ret_n);
void ipb_gateway_outgoing_free(IpbGatewayOutgoing *outgoing);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbGatewayMessage, ipb_gateway_message_clear)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGatewayOutgoing, ipb_gateway_outgoing_free)
