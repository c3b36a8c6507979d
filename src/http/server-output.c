/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers on their way; see server-private.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "http/server-private.h"
#include "http/status.h"

static size_t
length(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

static char *
make_head(const IpbHttpAnswer *answer, size_t size, const char *allow, const char *origin)
{
    GString *head = g_string_new(NULL);
    g_string_append_printf(head, "HTTP/1.1 %u %s\r\n", answer->status,
                           ipb_http_status_phrase(answer->status));
    if (answer->status != 204)
        g_string_append_printf(
            head, "Content-Type: %s\r\nContent-Length: %zu\r\n",
            answer->content_type != NULL ? answer->content_type : "application/json", size);
    if (answer->status == 401)
        g_string_append(head, "WWW-Authenticate: Bearer\r\n");
    if (allow != NULL)
        g_string_append_printf(head, "Allow: %s\r\n", allow);
    if (origin != NULL)
        g_string_append_printf(head,
                               "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
                               "Access-Control-Expose-Headers: Location\r\n",
                               origin);
    if (answer->headers != NULL)
        g_string_append(head, answer->headers);
    if (answer->is_last)
        g_string_append(head, "Connection: close\r\n");
    g_string_append(head, "\r\n");
    return g_string_free(head, FALSE);
}

void
ipb_http_output_set(IpbHttpOutput *output, const IpbHttpAnswer *answer, const char *allow,
                    const char *origin)
{
    gsize body_size = 0;
    const char *body = answer->body != NULL ? g_bytes_get_data(answer->body, &body_size) : NULL;
    size_t size = length(answer->prefix) + body_size + length(answer->suffix);
    output->head = make_head(answer, size, allow, origin);
    output->body = answer->body != NULL ? g_bytes_ref(answer->body) : NULL;
    output->parts[0] = (IpbSpan){output->head, strlen(output->head)};
    output->parts[1] = (IpbSpan){answer->prefix, length(answer->prefix)};
    output->parts[2] = (IpbSpan){body, body_size};
    output->parts[3] = (IpbSpan){answer->suffix, length(answer->suffix)};
    output->size = output->parts[0].size + size;
    output->at = 0;
}

/* The parts that are left, for sendmsg. */
static size_t
fill_vector(const IpbHttpOutput *output, struct iovec *vector)
{
    size_t skip = output->at;
    size_t n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(output->parts); i++) {
        IpbSpan part = output->parts[i];
        size_t skipped = MIN(skip, part.size);
        skip -= skipped;
        if (part.size > skipped)
            vector[n++] = (struct iovec){(char *) part.start + skipped, part.size - skipped};
    }
    return n;
}

bool
ipb_http_output_write(IpbHttpOutput *output, int fd)
{
    struct iovec vector[G_N_ELEMENTS(output->parts)];
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = fill_vector(output, vector)};
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    output->at += (size_t) n;
    return true;
}

void
ipb_http_output_clear(IpbHttpOutput *output)
{
    g_clear_pointer(&output->head, g_free);
    g_clear_pointer(&output->body, g_bytes_unref);
    output->size = 0;
    output->at = 0;
}
