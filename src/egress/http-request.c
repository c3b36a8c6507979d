/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that are passed on; see the header.
 */
#include "egress/http-request.h"

#include <string.h>

#define HTTP_PORT 80

static const char SCHEME[] = "http://";

/* What is between two hops, whatever Connection says of it. */
static const char *const HOP_BY_HOP[] = {
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Upgrade",
    "HTTP2-Settings",
};

/* What says whom the request is for and where it ends stays, even if Connection names it. */
static const char *const ESSENTIAL[] = {"Host", "Content-Length", "Transfer-Encoding"};

static bool
fail(const char **ret_reason, const char *reason)
{
    *ret_reason = reason;
    return false;
}

static bool
starts_with_scheme(IpbSpan target)
{
    return target.size >= strlen(SCHEME) &&
           g_ascii_strncasecmp(target.start, SCHEME, strlen(SCHEME)) == 0;
}

static bool
is_in_list(IpbSpan name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ipb_http_span_equal_nocase(name, list[i]))
            return true;
    return false;
}

/* Does the comma-separated list hold the token? */
static bool
has_token(IpbSpan list, IpbSpan token)
{
    const char *at = list.start, *end = list.start + list.size;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t) (end - at));
        const char *stop = comma != NULL ? comma : end;
        const char *last = stop;
        while (at < last && (*at == ' ' || *at == '\t'))
            at++;
        while (last > at && (last[-1] == ' ' || last[-1] == '\t'))
            last--;
        if ((size_t) (last - at) == token.size &&
            g_ascii_strncasecmp(at, token.start, token.size) == 0)
            return true;
        at = stop + 1;
    }
    return false;
}

static bool
is_web_socket(const IpbHttpHead *head)
{
    static const IpbSpan UPGRADE = {"upgrade", 7};
    IpbSpan connection, upgrade;
    return ipb_http_span_equal(head->method, "GET") && !head->is_http_1_0 &&
           head->content_length == 0 && !head->is_chunked &&
           ipb_http_head_get(head, "Connection", &connection) && has_token(connection, UPGRADE) &&
           ipb_http_head_get(head, "Upgrade", &upgrade) &&
           ipb_http_span_equal_nocase(upgrade, "websocket");
}

static bool
parse_authority(IpbSpan text, unsigned default_port, IpbDestination *ret_destination,
                const char **ret_reason)
{
    const char *why;
    if (!ipb_hostname_parse_authority(text.start, text.size, &ret_destination->host,
                                      &ret_destination->port, &why))
        return fail(ret_reason, "the host or the port is none");
    if (ret_destination->port == 0)
        ret_destination->port = default_port;
    return true;
}

/* "host[:port]" and the path after "http://". */
static bool
parse_absolute(IpbSpan target, IpbHttpRequest *request, const char **ret_reason)
{
    IpbSpan rest = {target.start + strlen(SCHEME), target.size - strlen(SCHEME)};
    size_t size = 0;
    while (size < rest.size && rest.start[size] != '/' && rest.start[size] != '?')
        size++;
    request->path = (IpbSpan){rest.start + size, rest.size - size};
    return parse_authority((IpbSpan){rest.start, size}, HTTP_PORT, &request->destination,
                           ret_reason);
}

static bool
parse_host(const IpbHttpHead *head, IpbHttpRequest *request, const char **ret_reason)
{
    request->host = request->destination;
    if (head->host.size == 0)
        return request->is_connect || fail(ret_reason, "there is no Host header");
    /* With CONNECT a Host without a port is common. */
    unsigned port = request->is_connect ? request->destination.port : HTTP_PORT;
    return parse_authority(head->host, port, &request->host, ret_reason);
}

bool
ipb_http_request_parse(const IpbHttpHead *head, IpbHttpRequest *ret_request,
                       const char **ret_reason)
{
    *ret_request = (IpbHttpRequest){.is_connect = ipb_http_span_equal(head->method, "CONNECT")};
    if (ret_request->is_connect) {
        if (head->is_chunked || head->content_length > 0)
            return fail(ret_reason, "CONNECT has no body");
        if (!parse_authority(head->target, 0, &ret_request->destination, ret_reason))
            return false;
        if (ret_request->destination.port == 0)
            return fail(ret_reason, "CONNECT needs \"host:port\"");
    } else {
        if (!starts_with_scheme(head->target))
            return fail(ret_reason, "this is a proxy: it takes CONNECT, and http:// URLs");
        if (memchr(head->target.start, '#', head->target.size) != NULL)
            return fail(ret_reason, "a URL in a request has no fragment");
        ret_request->is_upgrade = is_web_socket(head);
        if (!parse_absolute(head->target, ret_request, ret_reason))
            return false;
    }
    if (!parse_host(head, ret_request, ret_reason))
        return false;
    return ipb_destination_equal(&ret_request->destination, &ret_request->host) ||
           fail(ret_reason, "the Host header and the request line name different hosts");
}

bool
ipb_http_request_parse_origin(const IpbHttpHead *head, const IpbDestination *destination,
                              IpbHttpRequest *ret_request, const char **ret_reason)
{
    bool is_asterisk =
        ipb_http_span_equal(head->method, "OPTIONS") && ipb_http_span_equal(head->target, "*");
    *ret_request = (IpbHttpRequest){.destination = *destination, .path = head->target};
    if (ipb_http_span_equal(head->method, "CONNECT"))
        return fail(ret_reason, "CONNECT is for the proxy, not for a server");
    if (!is_asterisk && head->target.start[0] != '/')
        return fail(ret_reason, "the request target does not begin with \"/\"");
    ret_request->is_upgrade = is_web_socket(head);
    return parse_host(head, ret_request, ret_reason);
}

static void
append_host(GString *out, const IpbDestination *host)
{
    bool is_v6 = host->host.kind == IPB_HOST_IPV6;
    g_string_append_printf(out, is_v6 ? "[%s]" : "%s", host->host.text);
    if (host->port != HTTP_PORT)
        g_string_append_printf(out, ":%u", host->port);
}

GString *
ipb_http_request_rewrite(const IpbHttpHead *head, const IpbHttpRequest *request, bool is_for_proxy,
                         const char *authorization)
{
    GString *out = g_string_new_len(head->method.start, (gssize) head->method.size);
    IpbSpan connection = {"", 0};
    ipb_http_head_get(head, "Connection", &connection);
    g_string_append_c(out, ' ');
    if (is_for_proxy) {
        g_string_append(out, "http://");
        append_host(out, &request->destination);
    }
    if (request->path.size == 0 || request->path.start[0] == '?')
        g_string_append_c(out, '/');
    g_string_append_len(out, request->path.start, (gssize) request->path.size);
    g_string_append(out, head->is_http_1_0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
    g_string_append(out, "Host: ");
    append_host(out, &request->host);
    g_string_append(out, "\r\n");
    /* The answer to TRACE is what the proxy was sent. */
    if (authorization != NULL && !ipb_http_span_equal_nocase(head->method, "TRACE"))
        g_string_append_printf(out, "Proxy-Authorization: %s\r\n", authorization);
    for (size_t i = 0; i < head->n_headers; i++) {
        IpbSpan name = head->headers[i].name, value = head->headers[i].value;
        bool is_essential = is_in_list(name, ESSENTIAL, G_N_ELEMENTS(ESSENTIAL));
        if (ipb_http_span_equal_nocase(name, "Host") ||
            is_in_list(name, HOP_BY_HOP, G_N_ELEMENTS(HOP_BY_HOP)) ||
            (!is_essential && has_token(connection, name)))
            continue;
        g_string_append_len(out, name.start, (gssize) name.size);
        g_string_append(out, ": ");
        g_string_append_len(out, value.start, (gssize) value.size);
        g_string_append(out, "\r\n");
    }
    g_string_append(out, request->is_upgrade ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                                             : "Connection: close\r\n\r\n");
    return out;
}
