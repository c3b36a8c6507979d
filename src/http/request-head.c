/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict head parser; see the header. It first finds the end of the head, incrementally, then
 * parses its lines.
 */
#include "http/request-head.h"

#include <string.h>

/* Digits of a Content-Length, so that it cannot overflow. A longer one is an attack. */
#define MAX_LENGTH_DIGITS 15

static IpbHttpHeadState
refuse(IpbHttpHead *head, unsigned status, const char *reason)
{
    head->status = status;
    head->reason = reason;
    return IPB_HTTP_HEAD_BAD;
}

/* tchar of RFC 9110 */
static bool
is_token_char(unsigned char c)
{
    return g_ascii_isalnum((char) c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool
is_token(IpbSpan span)
{
    for (size_t i = 0; i < span.size; i++)
        if (!is_token_char((unsigned char) span.start[i]))
            return false;
    return span.size > 0;
}

bool
ipb_http_head_get(const IpbHttpHead *head, const char *name, IpbSpan *ret_value)
{
    for (size_t i = 0; i < head->n_headers; i++) {
        if (ipb_span_equal_nocase(head->headers[i].name, name)) {
            *ret_value = head->headers[i].value;
            return true;
        }
    }
    return false;
}

/* Looks for the empty line, from *@scanned on. A line feed without a carriage return is refused
 * here already; otherwise a peer that sends such lines would wait for an answer until the
 * deadline. */
static IpbHttpHeadState
find_end(const char *bytes, size_t size, size_t *scanned, IpbHttpHead *head)
{
    size_t limit = MIN(size, IPB_HTTP_MAX_HEAD);
    while (*scanned < limit) {
        const char *newline = memchr(bytes + *scanned, '\n', limit - *scanned);
        if (newline == NULL) {
            *scanned = limit;
            break;
        }
        size_t at = (size_t) (newline - bytes);
        if (at == 0 || bytes[at - 1] != '\r')
            return refuse(head, 400, "a line of the head does not end in CRLF");
        if (at == 1)
            return refuse(head, 400, "the request line is empty");
        *scanned = at + 1;
        if (bytes[at - 2] == '\n') {
            head->size = at + 1;
            return IPB_HTTP_HEAD_WHOLE;
        }
    }
    if (size >= IPB_HTTP_MAX_HEAD)
        return refuse(head, 431, "the head is larger than 16 KiB");
    return IPB_HTTP_HEAD_PARTIAL;
}

/* Removes the next line of *@rest, and returns it without its CRLF. The head is known to consist of
 * lines. */
static IpbSpan
take_line(IpbSpan *rest)
{
    const char *newline = memchr(rest->start, '\n', rest->size);
    IpbSpan line = {rest->start, (size_t) (newline - rest->start) - 1};
    rest->start = newline + 1;
    rest->size -= line.size + 2;
    return line;
}

/* Splits at the first @separator; false if there is none. */
static bool
split(IpbSpan span, char separator, IpbSpan *ret_before, IpbSpan *ret_after)
{
    const char *at = memchr(span.start, separator, span.size);
    if (at == NULL)
        return false;
    *ret_before = (IpbSpan){span.start, (size_t) (at - span.start)};
    *ret_after = (IpbSpan){at + 1, span.size - ret_before->size - 1};
    return true;
}

static IpbHttpHeadState
parse_request_line(IpbSpan line, IpbHttpHead *head)
{
    IpbSpan rest, version;
    if (!split(line, ' ', &head->method, &rest) || !split(rest, ' ', &head->target, &version))
        return refuse(head, 400, "the request line is not \"METHOD target HTTP/1.1\"");
    if (!is_token(head->method))
        return refuse(head, 400, "the method is not a valid HTTP token");
    for (size_t i = 0; i < head->target.size; i++)
        if (head->target.start[i] <= ' ' || head->target.start[i] >= 0x7f)
            return refuse(head, 400,
                          "the request target contains characters that are not visible ASCII");
    if (head->target.size == 0)
        return refuse(head, 400, "the request target is empty");
    head->is_http_1_0 = ipb_span_equal(version, "HTTP/1.0");
    if (head->is_http_1_0 || ipb_span_equal(version, "HTTP/1.1"))
        return IPB_HTTP_HEAD_WHOLE;
    if (version.size == 8 && memcmp(version.start, "HTTP/", 5) == 0)
        return refuse(head, 505, "only HTTP/1.1 is spoken here");
    return refuse(head, 400, "the request line is not \"METHOD target HTTP/1.1\"");
}

static IpbSpan
trim(IpbSpan span)
{
    while (span.size > 0 && (span.start[0] == ' ' || span.start[0] == '\t')) {
        span.start++;
        span.size--;
    }
    while (span.size > 0 && (span.start[span.size - 1] == ' ' || span.start[span.size - 1] == '\t'))
        span.size--;
    return span;
}

static bool
has_control_char(IpbSpan span)
{
    for (size_t i = 0; i < span.size; i++) {
        unsigned char c = (unsigned char) span.start[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return true;
    }
    return false;
}

static bool
has_header(const IpbHttpHead *head, IpbSpan name)
{
    for (size_t i = 0; i < head->n_headers; i++) {
        IpbSpan other = head->headers[i].name;
        if (other.size == name.size && g_ascii_strncasecmp(other.start, name.start, name.size) == 0)
            return true;
    }
    return false;
}

static IpbHttpHeadState
parse_header(IpbSpan line, bool takes_repeats, IpbHttpHead *head)
{
    IpbHttpHeader header;
    if (!split(line, ':', &header.name, &header.value) || !is_token(header.name))
        return refuse(head, 400, "a header line is not \"Name: value\"");
    header.value = trim(header.value);
    if (has_control_char(header.value))
        return refuse(head, 400, "a header value contains a control character");
    if (!takes_repeats && has_header(head, header.name))
        return refuse(head, 400, "a header comes twice");
    if (head->n_headers == IPB_HTTP_MAX_HEADERS)
        return refuse(head, 431, "there are more than 64 headers");
    head->headers[head->n_headers++] = header;
    return IPB_HTTP_HEAD_WHOLE;
}

static bool
parse_length(IpbSpan text, uint64_t *ret_length)
{
    uint64_t length = 0;
    if (text.size == 0 || text.size > MAX_LENGTH_DIGITS)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (!g_ascii_isdigit(text.start[i]))
            return false;
        length = length * 10 + (uint64_t) (text.start[i] - '0');
    }
    *ret_length = length;
    return true;
}

static IpbHttpHeadState
check_length(IpbHttpHead *head)
{
    IpbSpan value;
    head->has_content_length = ipb_http_head_get(head, "Content-Length", &value);
    if (head->has_content_length && !parse_length(value, &head->content_length))
        return refuse(head, 400, "Content-Length is not a number of bytes");
    return IPB_HTTP_HEAD_WHOLE;
}

static IpbHttpHeadState
check_encoding(IpbHttpHead *head)
{
    IpbSpan value;
    head->is_chunked = ipb_http_head_get(head, "Transfer-Encoding", &value);
    if (head->is_chunked && head->has_content_length)
        return refuse(head, 400, "it has both a Transfer-Encoding and a Content-Length");
    if (head->is_chunked && (head->is_http_1_0 || !ipb_span_equal_nocase(value, "chunked")))
        return refuse(head, 400, "Transfer-Encoding must be chunked, with HTTP/1.1");
    return IPB_HTTP_HEAD_WHOLE;
}

/* Checks the headers that decide where the message ends and for whom it is. */
static IpbHttpHeadState
check_framing(IpbHttpHead *head)
{
    if (!ipb_http_head_get(head, "Host", &head->host) || head->host.size == 0)
        return refuse(head, 400, "there is no Host header");
    if (check_length(head) != IPB_HTTP_HEAD_WHOLE)
        return IPB_HTTP_HEAD_BAD;
    return check_encoding(head);
}

static IpbHttpHeadState
check_proxied_framing(IpbHttpHead *head)
{
    if (ipb_http_head_get(head, "Host", &head->host) && head->host.size == 0)
        return refuse(head, 400, "the Host header is empty");
    if (check_length(head) != IPB_HTTP_HEAD_WHOLE)
        return IPB_HTTP_HEAD_BAD;
    return check_encoding(head);
}

/* "HTTP/1.1 101 Switching Protocols"; the text after the number may be missing. */
static IpbHttpHeadState
parse_status_line(IpbSpan line, IpbHttpHead *head)
{
    static const char VERSION[] = "HTTP/1.1 ";
    const size_t size = sizeof VERSION - 1;
    head->method = head->target = (IpbSpan){NULL, 0};
    head->is_http_1_0 = false;
    if (line.size < size + 3 || memcmp(line.start, VERSION, size) != 0 ||
        (line.size > size + 3 && line.start[size + 3] != ' '))
        return refuse(head, 400, "the status line is not \"HTTP/1.1 NUMBER text\"");
    head->status = 0;
    for (size_t i = size; i < size + 3; i++) {
        if (!g_ascii_isdigit(line.start[i]))
            return refuse(head, 400, "the status is not a number");
        head->status = head->status * 10 + (unsigned) (line.start[i] - '0');
    }
    return IPB_HTTP_HEAD_WHOLE;
}

static IpbHttpHeadState
parse_lines(const char *bytes, size_t size, size_t *scanned, bool is_answer, IpbHttpHead *head)
{
    head->host = (IpbSpan){NULL, 0};
    head->n_headers = 0;
    head->content_length = 0;
    head->is_chunked = false;
    IpbHttpHeadState state = find_end(bytes, size, scanned, head);
    if (state != IPB_HTTP_HEAD_WHOLE)
        return state;
    IpbSpan rest = {bytes, head->size - 2};
    IpbSpan line = take_line(&rest);
    state = is_answer ? parse_status_line(line, head) : parse_request_line(line, head);
    while (state == IPB_HTTP_HEAD_WHOLE && rest.size > 0)
        state = parse_header(take_line(&rest), is_answer, head);
    return state;
}

IpbHttpHeadState
ipb_http_head_parse(const char *bytes, size_t size, size_t *scanned, IpbHttpHead *ret_head)
{
    IpbHttpHeadState state = parse_lines(bytes, size, scanned, false, ret_head);
    return state == IPB_HTTP_HEAD_WHOLE ? check_framing(ret_head) : state;
}

IpbHttpHeadState
ipb_http_head_parse_proxied(const char *bytes, size_t size, size_t *scanned, IpbHttpHead *ret_head)
{
    IpbHttpHeadState state = parse_lines(bytes, size, scanned, false, ret_head);
    return state == IPB_HTTP_HEAD_WHOLE ? check_proxied_framing(ret_head) : state;
}

IpbHttpHeadState
ipb_http_head_parse_answer(const char *bytes, size_t size, size_t *scanned, IpbHttpHead *ret_head)
{
    return parse_lines(bytes, size, scanned, true, ret_head);
}
