/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP requests of a sandbox, forwarded or answered; see the header.
 */
#include "egress/http-forward.h"

#include <string.h>

#include "base/error.h"
#include "http/status.h"

#define HTTP_PORT 80
/* The reason in a status line. */
#define MAX_PHRASE 200

static const char SCHEME[] = "http://";

/* Headers that are for one hop only, even if Connection does not list them. */
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

/* Headers that say which host the request is for and where it ends. They stay, even if Connection
 * lists them. */
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
        if (ipb_span_equal_nocase(name, list[i]))
            return true;
    return false;
}

/* Does the comma-separated list contain the token? */
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
    return ipb_span_equal(head->method, "GET") && !head->is_http_1_0 && head->content_length == 0 &&
           !head->is_chunked && ipb_http_head_get(head, "Connection", &connection) &&
           has_token(connection, UPGRADE) && ipb_http_head_get(head, "Upgrade", &upgrade) &&
           ipb_span_equal_nocase(upgrade, "websocket");
}

static bool
parse_authority(IpbSpan text, unsigned default_port, IpbDestination *ret_destination,
                const char **ret_reason)
{
    const char *why;
    if (!ipb_hostname_parse_authority(text.start, text.size, &ret_destination->host,
                                      &ret_destination->port, &why))
        return fail(ret_reason, "the host or the port is not valid");
    if (ret_destination->port == 0)
        ret_destination->port = default_port;
    return true;
}

/* "host[:port]" and the path after "http://". */
static bool
parse_absolute(IpbSpan target, IpbHttpForward *request, const char **ret_reason)
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
parse_host(const IpbHttpHead *head, IpbHttpForward *request, const char **ret_reason)
{
    request->host = request->destination;
    if (head->host.size == 0)
        return request->is_connect || fail(ret_reason, "there is no Host header");
    /* Many clients send CONNECT with a Host without a port. */
    unsigned port = request->is_connect ? request->destination.port : HTTP_PORT;
    return parse_authority(head->host, port, &request->host, ret_reason);
}

bool
ipb_http_forward_parse_proxy(const IpbHttpHead *head, IpbHttpForward *ret_request,
                             const char **ret_reason)
{
    *ret_request = (IpbHttpForward){.is_connect = ipb_span_equal(head->method, "CONNECT")};
    if (ret_request->is_connect) {
        if (head->is_chunked || head->content_length > 0)
            return fail(ret_reason, "CONNECT must not have a body");
        if (!parse_authority(head->target, 0, &ret_request->destination, ret_reason))
            return false;
        if (ret_request->destination.port == 0)
            return fail(ret_reason, "CONNECT needs \"host:port\"");
    } else {
        if (!starts_with_scheme(head->target))
            return fail(ret_reason,
                        "this is a proxy: send CONNECT, or a request with an http:// URL");
        if (memchr(head->target.start, '#', head->target.size) != NULL)
            return fail(ret_reason, "the URL of a request must not have a fragment");
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
ipb_http_forward_parse_origin(const IpbHttpHead *head, const IpbDestination *destination,
                              IpbHttpForward *ret_request, const char **ret_reason)
{
    bool is_asterisk = ipb_span_equal(head->method, "OPTIONS") && ipb_span_equal(head->target, "*");
    *ret_request = (IpbHttpForward){.destination = *destination, .path = head->target};
    if (ipb_span_equal(head->method, "CONNECT"))
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
ipb_http_forward_rewrite(const IpbHttpHead *head, const IpbHttpForward *request, bool is_for_proxy,
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
    /* The answer to TRACE repeats what the proxy received. */
    if (authorization != NULL && !ipb_span_equal_nocase(head->method, "TRACE"))
        g_string_append_printf(out, "Proxy-Authorization: %s\r\n", authorization);
    for (size_t i = 0; i < head->n_headers; i++) {
        IpbSpan name = head->headers[i].name, value = head->headers[i].value;
        bool is_essential = is_in_list(name, ESSENTIAL, G_N_ELEMENTS(ESSENTIAL));
        if (ipb_span_equal_nocase(name, "Host") ||
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

void
ipb_http_forward_relay(IpbConnection *connection, const IpbHttpHead *head,
                       const IpbHttpForward *request)
{
    IpbBuffer *input = ipb_connection_input(connection);
    const IpbUpstreamProxy *proxy = ipb_connection_proxy(connection);
    g_autoptr(GString) rewritten = ipb_http_forward_rewrite(
        head, request, proxy != NULL, proxy != NULL ? proxy->authorization : NULL);
    IpbHttpBody body;
    ipb_http_body_init(&body, head);
    ipb_buffer_consume(input, head->size);
    /* A client that sends more before the upgrade is accepted does not want a WebSocket. */
    bool is_upgrade = request->is_upgrade && ipb_buffer_size(input) == 0;
    ipb_connection_relay(connection, is_upgrade ? IPB_RELAY_UPGRADE : IPB_RELAY_BODY, &body,
                         rewritten->str, rewritten->len);
}

/* Answers */

/* A reason for the status line: one line of ASCII. */
static char *
make_phrase(const char *text)
{
    char *phrase = g_strndup(text, MAX_PHRASE);
    for (char *c = phrase; *c != '\0'; c++)
        if (*c < ' ' || *c >= 0x7f)
            *c = '?';
    return phrase;
}

static char *
make_reply(unsigned status, const char *header, const char *detail, const char *body)
{
    g_autofree char *phrase = make_phrase(detail);
    return g_strdup_printf("HTTP/1.1 %u %s: %s\r\n"
                           "Content-Type: text/plain; charset=utf-8\r\n"
                           "Content-Length: %zu\r\n"
                           "%s"
                           "Connection: close\r\n"
                           "\r\n"
                           "%s",
                           status, ipb_http_status_phrase(status), phrase, strlen(body), header,
                           body);
}

static void
reply(IpbConnection *connection, unsigned status, const char *header, const char *detail,
      const char *body)
{
    g_autofree char *text = make_reply(status, header, detail, body);
    ipb_connection_finish(connection, text, strlen(text));
}

void
ipb_http_forward_reply_bad_request(IpbConnection *connection, unsigned status, const char *reason)
{
    g_autofree char *body = g_strdup_printf("%s\n", reason);
    reply(connection, status, "", reason, body);
}

void
ipb_http_forward_reply_failure(IpbConnection *connection, const IpbDestination *destination,
                               const GError *error)
{
    g_autofree char *target = ipb_destination_to_text(destination);
    g_autofree char *detail = g_strdup_printf("%s: %s", target, error->message);
    g_autofree char *body = NULL;
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED)) {
        body = g_strdup_printf("Connection blocked by network allowlist\n%s\n", detail);
        reply(connection, 403, "X-Proxy-Error: blocked-by-sandbox-runtime\r\n", detail, body);
        return;
    }
    body = g_strdup_printf("%s\n", detail);
    bool is_timeout = g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT);
    reply(connection, is_timeout ? 504 : 502, "", detail, body);
}

char *
ipb_http_forward_busy_reply(const char *reason)
{
    g_autofree char *body = g_strdup_printf("%s\n", reason);
    return make_reply(503, "", reason, body);
}
