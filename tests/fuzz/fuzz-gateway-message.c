/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of Jupyter clients. The first byte chooses the framing. An accepted message has its
 * parts, and a reply to it can be framed and carries its header.
 */
#include <stdint.h>
#include <string.h>

#include "serve/gateway/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    IpbGatewayFraming framing = data[0] & 1 ? IPB_GATEWAY_FRAMING_V1 : IPB_GATEWAY_FRAMING_JSON;
    bool is_binary = (data[0] & 2) != 0;
    g_auto(IpbGatewayMessage) message = {0};
    g_autoptr(GError) error = NULL;
    if (!ipb_gateway_message_parse(framing, is_binary, data + 1, size - 1, &message, &error)) {
        g_assert(error != NULL && message.documents[0] == NULL);
        return 0;
    }
    g_assert(message.msg_id != NULL && message.msg_type != NULL && message.channel != NULL);
    g_autoptr(IpbGatewayOutgoing) answer =
        ipb_gateway_outgoing_new(&(IpbGatewayParts){.channel = message.channel,
                                                    .msg_type = message.msg_type,
                                                    .session = "fuzz",
                                                    .number = 1,
                                                    .parent = message.header,
                                                    .content = g_strdup("{}"),
                                                    .content_size = 2,
                                                    .buffers = message.buffers,
                                                    .n_buffers = message.n_buffers});
    for (int out = 0; out < IPB_GATEWAY_N_FRAMINGS; out++) {
        gsize n;
        const void *bytes = g_bytes_get_data(ipb_gateway_outgoing_frame(answer, out), &n);
        g_auto(IpbGatewayMessage) again = {0};
        g_assert(ipb_gateway_message_parse(out, !ipb_gateway_outgoing_is_text(answer, out), bytes,
                                           n, &again, NULL));
        g_assert(again.n_buffers == message.n_buffers);
        for (size_t i = 0; i < again.n_buffers; i++)
            g_assert_cmpmem(again.buffers[i].start, again.buffers[i].size, message.buffers[i].start,
                            message.buffers[i].size);
        g_assert_cmpstr(again.msg_type, ==, message.msg_type);
        g_assert_cmpstr(again.channel, ==, message.channel);
    }
    return 0;
}
