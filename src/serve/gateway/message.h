/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of Jupyter kernels on a WebSocket (docs/internals/gateway.md): what a client sends becomes an
 * IpbGatewayMessage, what it gets is made of an IpbGatewayOutgoing. Two framings carry the same: the default one (JSON as text, or
 * with binary buffers behind it) and v1.kernel.websocket.jupyter.org. No protocol in here, only forms.
 */
#pragma once

#include "json/json.h"

typedef enum {
    IPB_GATEWAY_FRAMING_JSON,
    IPB_GATEWAY_FRAMING_V1,
    IPB_GATEWAY_N_FRAMINGS,
} IpbGatewayFraming;

#define IPB_GATEWAY_SUBPROTOCOL_V1 "v1.kernel.websocket.jupyter.org"

/* The largest message of a client; code may have 32 MiB, and escapes make it longer. */
#define IPB_GATEWAY_MAX_MESSAGE (64u * 1024 * 1024)

/* What came. Everything is borrowed from @documents. */
typedef struct {
    IpbJsonDoc *documents[2]; /* both set with v1: of the header, and of the content */
    const IpbJson *header;    /* an object */
    const IpbJson *content;   /* likewise */
    const char *channel;      /* "shell", "control" or "stdin" */
    const char *msg_id;
    const char *msg_type;
} IpbGatewayMessage;

/* Errors: PROTOCOL, LIMIT. Buffers are accepted and dropped: nothing here takes any. */
bool ipb_gateway_message_parse(IpbGatewayFraming framing, bool is_binary, const void *bytes,
                               size_t size, IpbGatewayMessage *ret_message, GError **error);
void ipb_gateway_message_clear(IpbGatewayMessage *message);

/* What goes out: made once, framed once for each framing that somebody wants. */
typedef struct IpbGatewayOutgoing IpbGatewayOutgoing;

/* @session: who speaks, in the header; @number: tells its messages apart. @parent: the header of the request that this belongs
 * to, or NULL. @metadata: JSON of an object, a constant; NULL: {}. @content: JSON of an object, taken. */
typedef struct {
    const char *channel;
    const char *msg_type;
    const char *session;
    uint64_t number;
    const IpbJson *parent;
    const char *metadata;
    char *content;
    size_t content_size;
} IpbGatewayParts;

IpbGatewayOutgoing *ipb_gateway_outgoing_new(const IpbGatewayParts *parts);
/* Borrowed; a JSON frame is text, a v1 frame is binary. */
GBytes *ipb_gateway_outgoing_frame(IpbGatewayOutgoing *outgoing, IpbGatewayFraming framing);
void ipb_gateway_outgoing_free(IpbGatewayOutgoing *outgoing);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbGatewayMessage, ipb_gateway_message_clear)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGatewayOutgoing, ipb_gateway_outgoing_free)
