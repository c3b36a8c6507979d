/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of the tool channel; see the header.
 */
#include "tools/tool-response.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/error.h"
#include "json/writer.h"

static const char *
describe_status(unsigned status)
{
    switch (status) {
    case 200:
        return "OK";
    case 401:
        return "Unauthorized\r\nWWW-Authenticate: Bearer";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed\r\nAllow: POST";
    case 411:
        return "Length Required";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 417:
        return "Expectation Failed";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Bad Request";
    }
}

/* Takes @body; @prefix and @suffix are static. */
static void
set(IpbToolResponse *response, unsigned status, const char *prefix, GBytes *body,
    const char *suffix, bool is_last)
{
    gsize body_size;
    const char *body_start = g_bytes_get_data(body, &body_size);
    int head_size = g_snprintf(
        response->head, sizeof response->head,
        "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n%s",
        status, describe_status(status), strlen(prefix) + body_size + strlen(suffix),
        is_last ? "Connection: close\r\n" : "", prefix);
    g_assert(head_size < IPB_TOOL_RESPONSE_MAX_HEAD);
    response->body = body;
    response->parts[0] = (IpbSpan){response->head, (size_t) head_size};
    response->parts[1] = (IpbSpan){body_start, body_size};
    response->parts[2] = (IpbSpan){suffix, strlen(suffix)};
    response->size = (size_t) head_size + body_size + strlen(suffix);
    response->at = 0;
}

void
ipb_tool_response_set_result(IpbToolResponse *response, GBytes *result, bool is_last)
{
    set(response, 200, "{\"result\":", g_bytes_ref(result), "}", is_last);
}

void
ipb_tool_response_set_error(IpbToolResponse *response, unsigned status, const char *message,
                            const char *type, bool is_last)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    size_t size;
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "error", message);
    if (type != NULL)
        ipb_json_member_string(writer, "error_type", type);
    ipb_json_end_object(writer);
    char *text = ipb_json_writer_finish(writer, &size);
    set(response, status, "", g_bytes_new_take(text, size), "", is_last);
}

static const char *
error_type(const GError *error)
{
    if (error->domain != IPYBOX_ERROR)
        return NULL;
    switch ((IpyboxError) error->code) {
    case IPYBOX_ERROR_REFUSED:
        return "rejected";
    case IPYBOX_ERROR_TIMEOUT:
        return "timeout";
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
ipb_tool_response_set_failure(IpbToolResponse *response, const GError *error, bool is_last)
{
    ipb_tool_response_set_error(response, 200, error->message, error_type(error), is_last);
}

/* The parts that are left, for sendmsg. */
static size_t
fill_vector(const IpbToolResponse *response, struct iovec *vector)
{
    size_t skip = response->at;
    size_t n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(response->parts); i++) {
        IpbSpan part = response->parts[i];
        size_t skipped = MIN(skip, part.size);
        skip -= skipped;
        if (part.size > skipped)
            vector[n++] = (struct iovec){(char *) part.start + skipped, part.size - skipped};
    }
    return n;
}

bool
ipb_tool_response_write(IpbToolResponse *response, int fd)
{
    struct iovec vector[G_N_ELEMENTS(response->parts)];
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = fill_vector(response, vector)};
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    response->at += (size_t) n;
    return true;
}

void
ipb_tool_response_clear(IpbToolResponse *response)
{
    g_clear_pointer(&response->body, g_bytes_unref);
    response->size = 0;
    response->at = 0;
}
