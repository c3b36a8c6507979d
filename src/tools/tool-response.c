/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers to POST /run; see the header.
 */
#include "tools/tool-response.h"

#include "base/error.h"
#include "json/writer.h"

#define TYPE_REJECTED "rejected"
#define TYPE_TIMEOUT "timeout"

static void
write_error(IpbJsonWriter *writer, const char *message, const char *type)
{
    ipb_json_member_string(writer, "error", message);
    if (type != NULL)
        ipb_json_member_string(writer, "error_type", type);
    /* The clients of ipybox 0.9 read the outcome of an approval from this member. */
    if (g_strcmp0(type, TYPE_REJECTED) == 0 || g_strcmp0(type, TYPE_TIMEOUT) == 0)
        ipb_json_member_string(writer, "type", type);
}

static char *
describe(const char *message, const char *type)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_error(writer, message, type);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

void
ipb_tool_response_send_result(IpbHttpRequest *request, GBytes *result, IpbToolResultForm form)
{
    const char *prefix = form == IPB_TOOL_RESULT_WHOLE ? "{\"tool_result\":" : "{\"result\":";
    IpbHttpAnswer answer = {.status = 200, .prefix = prefix, .body = result, .suffix = "}"};
    if (!ipb_http_request_answer(request, &answer))
        ipb_http_request_answer_text(
            request, 200,
            describe("the tool was run, but its result is lost: too many large results wait to be "
                     "read at the same time",
                     "limit"));
}

/* NULL: the error has no type. */
static const char *
error_type(const GError *error)
{
    if (error->domain != IPYBOX_ERROR)
        return NULL;
    switch ((IpyboxError) error->code) {
    case IPYBOX_ERROR_REFUSED:
        return TYPE_REJECTED;
    case IPYBOX_ERROR_TIMEOUT:
        return TYPE_TIMEOUT;
    case IPYBOX_ERROR_CANCELLED:
        return "cancelled";
    case IPYBOX_ERROR_NOT_FOUND:
        return "not_found";
    case IPYBOX_ERROR_SERVER:
        return "server";
    case IPYBOX_ERROR_LIMIT:
        return "limit";
    case IPYBOX_ERROR_INVALID:
    case IPYBOX_ERROR_PROTOCOL:
    case IPYBOX_ERROR_KERNEL_DIED:
    case IPYBOX_ERROR_BUSY:
    case IPYBOX_ERROR_UNAVAILABLE:
    case IPYBOX_ERROR_SYSTEM:
    case IPYBOX_ERROR_CODE:
    default:
        return NULL;
    }
}

void
ipb_tool_response_send_failure(IpbHttpRequest *request, const GError *error)
{
    ipb_http_request_answer_text(request, 200, describe(error->message, error_type(error)));
}

void
ipb_tool_response_send_decision(IpbHttpRequest *request, const GError *error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_bool(writer, "approved", error == NULL);
    if (error != NULL)
        write_error(writer, error->message, error_type(error));
    else
        ipb_json_member_bool(writer, "result", true);
    ipb_json_end_object(writer);
    ipb_http_request_answer_text(request, 200, ipb_json_writer_finish(writer, NULL));
}

void
ipb_tool_response_refuse(IpbHttpRequest *request, const GError *error)
{
    ipb_http_request_refuse(request, 400, describe(error->message, NULL));
}
