/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxies of this machine's network; see the header. The variables are read as the clients of
 * Python and uv read them.
 */
#include "egress/upstream.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "egress/address-class.h"
#include "sandbox/address.h"

#define DEFAULT_PORT 80
#define ANSWER_TIMEOUT_MS (30 * 1000)
/* The head of the answer to CONNECT. */
#define MAX_HEAD 16384

struct IpbUpstream {
    IpbUpstreamProxy *http, *https; /* NULL: none */
    char **exceptions;              /* no_proxy */
    bool ignores_exceptions;        /* the installer's own setting is for all hosts */
};

static void
free_proxy(IpbUpstreamProxy *proxy)
{
    if (proxy == NULL)
        return;
    g_free(proxy->problem);
    g_free(proxy->authorization);
    g_free(proxy);
}

static char *
make_authorization(const char *user_info, size_t size)
{
    /* "user:password"; each may be percent-encoded */
    g_autofree char *text = g_strndup(user_info, size);
    g_autofree char *plain = g_uri_unescape_string(text, NULL);
    const char *used = plain != NULL ? plain : text;
    g_autofree char *both =
        strchr(text, ':') != NULL ? g_strdup(used) : g_strconcat(used, ":", NULL);
    g_autofree char *encoded = g_base64_encode((const unsigned char *) both, strlen(both));
    return g_strconcat("Basic ", encoded, NULL);
}

static IpbUpstreamProxy *
parse_proxy(const char *variable, const char *value)
{
    IpbUpstreamProxy *proxy = g_new0(IpbUpstreamProxy, 1);
    proxy->variable = variable;
    const char *scheme_end = strstr(value, "://");
    const char *authority = scheme_end != NULL ? scheme_end + 3 : value;
    if (scheme_end != NULL && g_ascii_strncasecmp(value, "http://", 7) != 0) {
        proxy->problem = g_strdup(
            "it does not begin with http://, and an installation in a sandbox can use such "
            "proxies only");
        return proxy;
    }
    size_t size = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', size);
    if (at != NULL) {
        proxy->authorization = make_authorization(authority, (size_t) (at - authority));
        size -= (size_t) (at + 1 - authority);
        authority = at + 1;
    }
    if (!ipb_hostname_parse_authority(authority, size, &proxy->address.host, &proxy->address.port,
                                      NULL))
        proxy->problem =
            g_strdup("its value is not http://HOST:PORT or http://USER:PASSWORD@HOST:PORT");
    else if (proxy->address.port == 0)
        proxy->address.port = DEFAULT_PORT;
    return proxy;
}

/* The proxy of the first variable that is set and not empty. */
static IpbUpstreamProxy *
find_variable(const char *const *env, const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *value = g_environ_getenv((char **) env, *names);
        if (value != NULL && *value != '\0')
            return parse_proxy(*names, value);
    }
    return NULL;
}

static char **
find_exceptions(const char *const *env)
{
    const char *value = g_environ_getenv((char **) env, "no_proxy");
    if (value == NULL)
        value = g_environ_getenv((char **) env, "NO_PROXY");
    return g_strsplit_set(value != NULL ? value : "", ", ", -1);
}

IpbUpstream *
ipb_upstream_new(const char *const *env, const char *own, const char *own_name)
{
    static const char *const HTTP[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", NULL};
    static const char *const HTTPS[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                        NULL};
    IpbUpstream *upstream = g_new0(IpbUpstream, 1);
    upstream->exceptions = find_exceptions(env);
    upstream->ignores_exceptions = own != NULL;
    upstream->http = own != NULL ? parse_proxy(own_name, own) : find_variable(env, HTTP);
    upstream->https = own != NULL ? parse_proxy(own_name, own) : find_variable(env, HTTPS);
    return upstream;
}

void
ipb_upstream_free(IpbUpstream *upstream)
{
    if (upstream == NULL)
        return;
    free_proxy(upstream->http);
    free_proxy(upstream->https);
    g_strfreev(upstream->exceptions);
    g_free(upstream);
}

static bool
is_name_below(const char *name, const char *suffix)
{
    size_t length = strlen(name), suffix_length = strlen(suffix);
    return length >= suffix_length &&
           g_ascii_strcasecmp(name + length - suffix_length, suffix) == 0 &&
           (length == suffix_length || name[length - suffix_length - 1] == '.');
}

/* An exception is "*", "example.com" or ".example.com" (both include all names below), or
 * "10.0.0.0/8". A name or an address may be followed by ":port". */
static bool
is_excepted(const char *exception, const IpbDestination *destination)
{
    IpbAddressRange range;
    IpbHost host;
    unsigned port = 0;
    if (g_str_equal(exception, "*"))
        return true;
    if (destination->host.kind != IPB_HOST_NAME && ipb_address_range_parse(exception, &range))
        return ipb_address_range_contains(&range, &destination->host);
    exception += g_str_has_prefix(exception, "*.") ? 2 : *exception == '.' ? 1 : 0;
    if (!ipb_hostname_parse_authority(exception, strlen(exception), &host, &port, NULL) ||
        (port != 0 && port != destination->port))
        return false;
    if (host.kind == IPB_HOST_NAME && destination->host.kind == IPB_HOST_NAME)
        return is_name_below(destination->host.text, host.text);
    return g_str_equal(host.text, destination->host.text);
}

/* Loopback, and other addresses that no name may lead to. These destinations are never left to a
 * proxy: only our own dialling checks what is there (egress/domain-rules.h, egress/dial.h). */
static bool
is_here(const IpbHost *host)
{
    const char *name;
    if (host->kind != IPB_HOST_NAME)
        return ipb_address_class_of(host, &name) >= IPB_ADDRESS_CLASS_LOOPBACK;
    return is_name_below(host->text, "localhost");
}

const IpbUpstreamProxy *
ipb_upstream_find(const IpbUpstream *upstream, const IpbDestination *destination, bool is_http)
{
    const IpbUpstreamProxy *proxy = is_http ? upstream->http : upstream->https;
    if (proxy == NULL || is_here(&destination->host))
        return NULL;
    if (upstream->ignores_exceptions)
        return proxy;
    for (char **exception = upstream->exceptions; *exception != NULL; exception++)
        if (**exception != '\0' && is_excepted(*exception, destination))
            return NULL;
    return proxy;
}

/* Tunnels */

struct IpbUpstreamTunnel {
    int fd;
    bool is_authorized; /* the request has a user and a password */
    IpbWatch *watch;
    IpbTimer *deadline;
    GString *head;
    IpbUpstreamTunnelFunc func;
    void *data;
};

static void
fail_tunnel(IpbUpstreamTunnel *tunnel, IpyboxError code, const char *text)
{
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, (int) code, text);
    g_clear_pointer(&tunnel->watch, ipb_watch_free);
    g_clear_pointer(&tunnel->deadline, ipb_timer_free);
    tunnel->func(-1, error, tunnel->data);
}

static void
on_deadline(void *data)
{
    fail_tunnel(data, IPYBOX_ERROR_TIMEOUT, "it does not answer");
}

static bool
parse_status(const GString *head, unsigned *ret_status)
{
    const char *text = head->str;
    if (head->len < strlen("HTTP/1.1 200") || !g_str_has_prefix(text, "HTTP/1.") || text[8] != ' ')
        return false;
    for (size_t i = 9; i < 12; i++)
        if (!g_ascii_isdigit(text[i]))
            return false;
    *ret_status = (unsigned) g_ascii_strtoull(text + 9, NULL, 10);
    return true;
}

static void
take_head(IpbUpstreamTunnel *tunnel)
{
    unsigned status;
    if (!parse_status(tunnel->head, &status)) {
        fail_tunnel(tunnel, IPYBOX_ERROR_UNAVAILABLE, "it does not answer as an HTTP proxy");
    } else if (status == 407) {
        fail_tunnel(
            tunnel, IPYBOX_ERROR_UNAVAILABLE,
            tunnel->is_authorized
                ? "it does not accept the user and the password (status 407)"
                : "it requires a user and a password (status 407): http://USER:PASSWORD@HOST:PORT");
    } else if (status / 100 != 2) {
        g_autofree char *text = g_strdup_printf("it refuses the connection (status %u)", status);
        fail_tunnel(tunnel, IPYBOX_ERROR_UNAVAILABLE, text);
    } else {
        g_clear_pointer(&tunnel->watch, ipb_watch_free);
        g_clear_pointer(&tunnel->deadline, ipb_timer_free);
        tunnel->func(ipb_fd_steal(&tunnel->fd), NULL, tunnel->data);
    }
}

/* The answer is peeked at first, so that nothing after its head is taken out of the socket. */
static void
on_answer(uint32_t events, void *data)
{
    static const char END[] = "\r\n\r\n";
    IpbUpstreamTunnel *tunnel = data;
    char bytes[4096];
    ssize_t n = recv(tunnel->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        fail_tunnel(tunnel, IPYBOX_ERROR_UNAVAILABLE, "it closed the connection");
        return;
    }
    size_t before = tunnel->head->len;
    g_string_append_len(tunnel->head, bytes, n);
    const char *end = memmem(tunnel->head->str, tunnel->head->len, END, strlen(END));
    size_t size =
        end != NULL ? (size_t) (end - tunnel->head->str) + strlen(END) : tunnel->head->len;
    g_string_truncate(tunnel->head, size);
    /* The peeked bytes are in the socket: this call takes exactly them. */
    if (recv(tunnel->fd, bytes, size - before, MSG_DONTWAIT) != (ssize_t) (size - before))
        fail_tunnel(tunnel, IPYBOX_ERROR_UNAVAILABLE, "it closed the connection");
    else if (end != NULL)
        take_head(tunnel);
    else if (size > MAX_HEAD)
        fail_tunnel(tunnel, IPYBOX_ERROR_UNAVAILABLE, "the head of its answer is too large");
}

static bool
send_request(IpbUpstreamTunnel *tunnel, const IpbUpstreamProxy *proxy,
             const IpbDestination *destination, GError **error)
{
    g_autofree char *target = ipb_destination_to_text(destination);
    g_autoptr(GString) request = g_string_new(NULL);
    g_string_append_printf(request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", target, target);
    if (proxy->authorization != NULL)
        g_string_append_printf(request, "Proxy-Authorization: %s\r\n", proxy->authorization);
    g_string_append(request, "\r\n");
    /* A socket that was just connected has room for the request. */
    if (send(tunnel->fd, request->str, request->len, MSG_NOSIGNAL | MSG_DONTWAIT) ==
        (ssize_t) request->len)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "it closed the connection");
    return false;
}

IpbUpstreamTunnel *
ipb_upstream_tunnel_new(IpbLoop *loop, int fd, const IpbUpstreamProxy *proxy,
                        const IpbDestination *destination, IpbUpstreamTunnelFunc func, void *data,
                        GError **error)
{
    IpbUpstreamTunnel *tunnel = g_new0(IpbUpstreamTunnel, 1);
    tunnel->fd = fd;
    tunnel->is_authorized = proxy->authorization != NULL;
    tunnel->head = g_string_new(NULL);
    tunnel->func = func;
    tunnel->data = data;
    if (send_request(tunnel, proxy, destination, error))
        tunnel->watch = ipb_watch_new(loop, fd, EPOLLIN, on_answer, tunnel, error);
    if (tunnel->watch == NULL) {
        ipb_upstream_tunnel_free(tunnel);
        return NULL;
    }
    tunnel->deadline = ipb_timer_new(loop, ANSWER_TIMEOUT_MS, on_deadline, tunnel);
    return tunnel;
}

void
ipb_upstream_tunnel_free(IpbUpstreamTunnel *tunnel)
{
    if (tunnel == NULL)
        return;
    ipb_watch_free(tunnel->watch);
    ipb_timer_free(tunnel->deadline);
    ipb_fd_close(&tunnel->fd);
    g_string_free(tunnel->head, TRUE);
    g_free(tunnel);
}
