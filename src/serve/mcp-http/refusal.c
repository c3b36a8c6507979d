/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals; see the header.
 */
#include "serve/mcp-http/refusal.h"

#include <string.h>

/* As the official SDKs send it. */
#define SESSION_NOT_FOUND (-32001)

const IpbMcpRefusal IPB_MCP_REFUSAL_SESSION_ENDED = {
    .status = 404,
    .code = SESSION_NOT_FOUND,
    .message = "the session has ended: begin a new one with initialize",
};

static GBytes *
describe(const IpbMcpRefusal *refusal)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    size_t size;
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "jsonrpc", "2.0");
    if (refusal->id_json != NULL) {
        ipb_json_key(writer, "id");
        ipb_json_write_raw(writer, refusal->id_json, strlen(refusal->id_json));
    }
    ipb_json_key(writer, "error");
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "code", refusal->code);
    ipb_json_member_string(writer, "message", refusal->message);
    if (refusal->data_json != NULL) {
        ipb_json_key(writer, "data");
        ipb_json_write_raw(writer, refusal->data_json, strlen(refusal->data_json));
    }
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    char *text = ipb_json_writer_finish(writer, &size);
    return g_bytes_new_take(text, size);
}

void
ipb_mcp_refuse(IpbHttpRequest *request, const IpbMcpRefusal *refusal)
{
    g_autoptr(GBytes) body = describe(refusal);
    const IpbHttpAnswer answer = {
        .status = refusal->status, .headers = refusal->headers, .body = body};
    if (!ipb_http_request_answer(request, &answer))
        ipb_http_request_answer_text(request, refusal->status, NULL);
}
