/* SPDX-License-Identifier: Apache-2.0
 *
 * CONNECT to a proxy; see the header. The answer is looked at before it is read, so that nothing after its head is taken.
 */
#include "egress/tunnel.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"

#define ANSWER_TIMEOUT_MS (30 * 1000)
#define MAX_HEAD 16384

struct IpbTunnel {
    int fd;
    bool is_authorized; /* a user and a password were sent */
    IpbWatch *watch;
    IpbTimer *deadline;
    GString *head;
    IpbTunnelFunc func;
    void *data;
};

static void
fail(IpbTunnel *tunnel, IpyboxError code, const char *text)
{
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, (int) code, text);
    g_clear_pointer(&tunnel->watch, ipb_watch_free);
    g_clear_pointer(&tunnel->deadline, ipb_timer_free);
    tunnel->func(-1, error, tunnel->data);
}

static void
on_deadline(void *data)
{
    fail(data, IPYBOX_ERROR_TIMEOUT, "it does not answer");
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
take_head(IpbTunnel *tunnel)
{
    unsigned status;
    if (!parse_status(tunnel->head, &status)) {
        fail(tunnel, IPYBOX_ERROR_UNAVAILABLE, "it does not answer as an HTTP proxy");
    } else if (status == 407) {
        fail(
            tunnel, IPYBOX_ERROR_UNAVAILABLE,
            tunnel->is_authorized
                ? "it does not accept the user and the password (status 407)"
                : "it requires a user and a password (status 407): http://USER:PASSWORD@HOST:PORT");
    } else if (status / 100 != 2) {
        g_autofree char *text = g_strdup_printf("it refuses the connection (status %u)", status);
        fail(tunnel, IPYBOX_ERROR_UNAVAILABLE, text);
    } else {
        g_clear_pointer(&tunnel->watch, ipb_watch_free);
        g_clear_pointer(&tunnel->deadline, ipb_timer_free);
        tunnel->func(ipb_fd_steal(&tunnel->fd), NULL, tunnel->data);
    }
}

static void
on_answer(uint32_t events, void *data)
{
    static const char END[] = "\r\n\r\n";
    IpbTunnel *tunnel = data;
    char bytes[4096];
    ssize_t n = recv(tunnel->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        fail(tunnel, IPYBOX_ERROR_UNAVAILABLE, "it closed the connection");
        return;
    }
    size_t before = tunnel->head->len;
    g_string_append_len(tunnel->head, bytes, n);
    const char *end = memmem(tunnel->head->str, tunnel->head->len, END, strlen(END));
    size_t size =
        end != NULL ? (size_t) (end - tunnel->head->str) + strlen(END) : tunnel->head->len;
    g_string_truncate(tunnel->head, size);
    /* What was seen is there. */
    if (recv(tunnel->fd, bytes, size - before, MSG_DONTWAIT) != (ssize_t) (size - before))
        fail(tunnel, IPYBOX_ERROR_UNAVAILABLE, "it closed the connection");
    else if (end != NULL)
        take_head(tunnel);
    else if (size > MAX_HEAD)
        fail(tunnel, IPYBOX_ERROR_UNAVAILABLE, "the head of its answer is too large");
}

static bool
send_request(IpbTunnel *tunnel, const IpbProxy *proxy, const IpbDestination *destination,
             GError **error)
{
    g_autofree char *target = ipb_destination_to_text(destination);
    g_autoptr(GString) request = g_string_new(NULL);
    g_string_append_printf(request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", target, target);
    if (proxy->authorization != NULL)
        g_string_append_printf(request, "Proxy-Authorization: %s\r\n", proxy->authorization);
    g_string_append(request, "\r\n");
    /* A socket that was just connected has room for it. */
    if (send(tunnel->fd, request->str, request->len, MSG_NOSIGNAL | MSG_DONTWAIT) ==
        (ssize_t) request->len)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "it closed the connection");
    return false;
}

IpbTunnel *
ipb_tunnel_new(IpbLoop *loop, int fd, const IpbProxy *proxy, const IpbDestination *destination,
               IpbTunnelFunc func, void *data, GError **error)
{
    IpbTunnel *tunnel = g_new0(IpbTunnel, 1);
    tunnel->fd = fd;
    tunnel->is_authorized = proxy->authorization != NULL;
    tunnel->head = g_string_new(NULL);
    tunnel->func = func;
    tunnel->data = data;
    if (send_request(tunnel, proxy, destination, error))
        tunnel->watch = ipb_watch_new(loop, fd, EPOLLIN, on_answer, tunnel, error);
    if (tunnel->watch == NULL) {
        ipb_tunnel_free(tunnel);
        return NULL;
    }
    tunnel->deadline = ipb_timer_new(loop, ANSWER_TIMEOUT_MS, on_deadline, tunnel);
    return tunnel;
}

void
ipb_tunnel_free(IpbTunnel *tunnel)
{
    if (tunnel == NULL)
        return;
    ipb_watch_free(tunnel->watch);
    ipb_timer_free(tunnel->deadline);
    ipb_fd_close(&tunnel->fd);
    g_string_free(tunnel->head, TRUE);
    g_free(tunnel);
}
