/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers while they are written; see the header.
 */
#include "http/output.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "http/status.h"

/* Of TLS, that are written before other connections get their turn. */
#define MAX_RECORDS 16

static size_t
length(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

static void
append_header(GString *head, const char *name, const char *value)
{
    if (value != NULL)
        g_string_append_printf(head, "%s: %s\r\n", name, value);
}

static void
append_cors(GString *head, const IpbHttpCors *cors, const char *origin)
{
    const char *allowed = origin != NULL ? origin : cors->origin;
    append_header(head, "Access-Control-Allow-Origin", allowed);
    append_header(head, "Vary", allowed != NULL ? "Origin" : NULL);
    append_header(head, "Access-Control-Expose-Headers",
                  cors->exposed == NULL && origin != NULL ? "Location" : cors->exposed);
    append_header(head, "Access-Control-Allow-Credentials", cors->credentials);
    append_header(head, "Access-Control-Allow-Methods", cors->methods);
    append_header(head, "Access-Control-Allow-Headers", cors->headers);
    append_header(head, "Access-Control-Max-Age", cors->max_age);
}

/* @framing: the header that says where the body ends; "" if the connection's end does. */
static char *
make_head(const IpbHttpAnswer *answer, const char *framing, const IpbHttpOutputExtras *extras)
{
    GString *head = g_string_new(NULL);
    g_string_append_printf(head, "HTTP/1.1 %u %s\r\n", answer->status,
                           ipb_http_status_phrase(answer->status));
    if (answer->status != 204 && answer->status != 304)
        g_string_append_printf(
            head, "Content-Type: %s\r\n%s",
            answer->content_type != NULL ? answer->content_type : "application/json", framing);
    if (answer->status == 401)
        g_string_append(head, "WWW-Authenticate: Bearer\r\n");
    append_header(head, "Allow", extras->allow);
    append_cors(head, &extras->cors, extras->origin);
    if (answer->headers != NULL)
        g_string_append(head, answer->headers);
    if (answer->is_last)
        g_string_append(head, "Connection: close\r\n");
    g_string_append(head, "\r\n");
    return g_string_free(head, FALSE);
}

char *
ipb_http_output_stream_head(const IpbHttpAnswer *answer, const IpbHttpOutputExtras *extras,
                            bool is_chunked)
{
    g_autofree char *size =
        answer->has_stream_size
            ? g_strdup_printf("Content-Length: %" G_GUINT64_FORMAT "\r\n", answer->stream_size)
            : NULL;
    return make_head(answer,
                     size != NULL ? size
                     : is_chunked ? "Transfer-Encoding: chunked\r\n"
                                  : "",
                     extras);
}

void
ipb_http_output_set(IpbHttpOutput *output, const IpbHttpAnswer *answer,
                    const IpbHttpOutputExtras *extras)
{
    gsize body_size = 0;
    const char *body = answer->body != NULL ? g_bytes_get_data(answer->body, &body_size) : NULL;
    size_t size = length(answer->prefix) + body_size + length(answer->suffix);
    g_autofree char *framing = g_strdup_printf("Content-Length: %zu\r\n", size);
    output->head = make_head(answer, framing, extras);
    output->parts[0] = (IpbSpan){output->head, strlen(output->head)};
    output->size = output->parts[0].size;
    output->at = 0;
    if (extras->is_head_only)
        return;
    output->body = answer->body != NULL ? g_bytes_ref(answer->body) : NULL;
    output->parts[1] = (IpbSpan){answer->prefix, length(answer->prefix)};
    output->parts[2] = (IpbSpan){body, body_size};
    output->parts[3] = (IpbSpan){answer->suffix, length(answer->suffix)};
    output->size += size;
}

/* The parts that are not written yet, for sendmsg. */
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

/* One record: small parts do not get records of their own. The same bytes are tried again after a
 * failure, as TLS requires. */
static ssize_t
write_record(const IpbHttpOutput *output, IpbTls *tls)
{
    struct iovec vector[G_N_ELEMENTS(output->parts)];
    char record[IPB_TLS_MAX_RECORD];
    size_t n_parts = fill_vector(output, vector);
    size_t size = 0;
    for (size_t i = 0; i < n_parts; i++) {
        size_t n = MIN(vector[i].iov_len, sizeof record - size);
        memcpy(record + size, vector[i].iov_base, n);
        size += n;
    }
    return ipb_tls_write(tls, record, size);
}

static ssize_t
write_plain(const IpbHttpOutput *output, int fd)
{
    struct iovec vector[G_N_ELEMENTS(output->parts)];
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = fill_vector(output, vector)};
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool
ipb_http_output_write(IpbHttpOutput *output, int fd, IpbTls *tls)
{
    for (int i = 0; i < MAX_RECORDS && output->at < output->size; i++) {
        ssize_t n = tls != NULL ? write_record(output, tls) : write_plain(output, fd);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        output->at += (size_t) n;
        if (tls == NULL)
            break;
    }
    return true;
}

void
ipb_http_output_clear(IpbHttpOutput *output)
{
    g_clear_pointer(&output->head, g_free);
    g_clear_pointer(&output->body, g_bytes_unref);
    *output = (IpbHttpOutput){0};
}
