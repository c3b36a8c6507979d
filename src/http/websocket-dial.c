/* SPDX-License-Identifier: Apache-2.0
 *
 * Connecting a WebSocket's client; see the header.
 *
 * The thread may still be at work when the dial is freed. It is cancelled then, and its reference
 * keeps the structure until it has ended.
 */
#include "http/websocket-dial.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/thread.h"
#include "http/handshake.h"
#include "http/tcp-connect.h"

#define KEY_BYTES 16

/* Reference-counted: by the owner, and while the thread connects. */
struct IpbWebSocketDial {
    IpbLoop *loop;
    bool is_freed;
    IpbWebSocketDialFuncs funcs;
    void *data;
    GCancellable *cancellable;
    char key[IPB_HANDSHAKE_KEY_SIZE];
    char *request;
    /* Bytes of it that were written */
    size_t request_at;
    GStrv protocols;
    int fd;
    IpbWatch *watch;
    IpbBuffer answer;
    /* Bytes of it that were scanned */
    size_t scanned;
};

static void
clear_dial(void *data)
{
    IpbWebSocketDial *dial = data;
    ipb_watch_free(dial->watch);
    ipb_fd_close(&dial->fd);
    ipb_buffer_clear(&dial->answer);
    g_object_unref(dial->cancellable);
    g_strfreev(dial->protocols);
    g_free(dial->request);
    ipb_loop_unref(dial->loop);
}

static void
unref_dial(IpbWebSocketDial *dial)
{
    g_rc_box_release_full(dial, clear_dial);
}

void
ipb_websocket_dial_free(IpbWebSocketDial *dial)
{
    if (dial == NULL)
        return;
    dial->is_freed = true;
    g_clear_pointer(&dial->watch, ipb_watch_free);
    ipb_fd_close(&dial->fd);
    g_cancellable_cancel(dial->cancellable);
    unref_dial(dial);
}

/* --- the handshake ---------------------------------------------------------------------------- */

/* The function may free the dial, as those below. */
static void
fail(IpbWebSocketDial *dial, const char *reason)
{
    g_clear_pointer(&dial->watch, ipb_watch_free);
    dial->funcs.on_failed(reason, dial->data);
}

static void
fail_errno(IpbWebSocketDial *dial, int saved_errno, const char *what)
{
    g_autofree char *reason = g_strdup_printf("%s: %s", what, g_strerror(saved_errno));
    fail(dial, reason);
}

static void
finish(IpbWebSocketDial *dial, IpbHttpHead *head)
{
    const char *protocol;
    unsigned status = head->status;
    if (!ipb_handshake_check_answer(head, dial->key, (const char *const *) dial->protocols,
                                    &protocol)) {
        g_autofree char *reason =
            g_strdup_printf("the server answers %u: %s", status, head->reason);
        fail(dial, reason);
        return;
    }
    const char *bytes = (const char *) ipb_buffer_data(&dial->answer);
    IpbSpan unread = {bytes + head->size, ipb_buffer_size(&dial->answer) - head->size};
    g_clear_pointer(&dial->watch, ipb_watch_free);
    g_rc_box_acquire(dial); /* the function may free it, and its texts are used until it returns */
    dial->funcs.on_open(ipb_fd_steal(&dial->fd), protocol, unread, dial->data);
    unref_dial(dial);
}

static void
read_answer(IpbWebSocketDial *dial)
{
    IpbHttpHead head;
    size_t wanted = IPB_HTTP_MAX_HEAD - ipb_buffer_size(&dial->answer);
    uint8_t *room = ipb_buffer_reserve(&dial->answer, wanted);
    ssize_t n = recv(dial->fd, room, wanted, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        if (n < 0)
            fail_errno(dial, errno, "the handshake cannot be read");
        else
            fail(dial, "the server closed the connection in the handshake");
        return;
    }
    ipb_buffer_commit(&dial->answer, (size_t) n);
    switch (ipb_http_head_parse_answer((const char *) ipb_buffer_data(&dial->answer),
                                       ipb_buffer_size(&dial->answer), &dial->scanned, &head)) {
    case IPB_HTTP_HEAD_WHOLE:
        finish(dial, &head);
        return;
    case IPB_HTTP_HEAD_BAD:
        fail(dial, head.reason);
        return;
    case IPB_HTTP_HEAD_PARTIAL:
    default:
        return;
    }
}

static void
write_request(IpbWebSocketDial *dial)
{
    size_t left = strlen(dial->request) - dial->request_at;
    ssize_t n = send(dial->fd, dial->request + dial->request_at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        fail_errno(dial, errno, "the handshake cannot be sent");
        return;
    }
    dial->request_at += (size_t) n;
    if ((size_t) n == left)
        ipb_watch_set_events(dial->watch, EPOLLIN);
}

static void
on_ready(uint32_t events, void *data)
{
    IpbWebSocketDial *dial = data;
    if (dial->request[dial->request_at] != '\0')
        write_request(dial);
    else
        read_answer(dial);
}

/* --- connecting ------------------------------------------------------------------------------- */

static void
on_connected(GObject *source, GAsyncResult *result, void *data)
{
    IpbWebSocketDial *dial = data;
    g_autoptr(GError) error = NULL;
    ipb_autofd fd = ipb_tcp_connect_finish(result, &error);
    if (dial->is_freed) {
        unref_dial(dial);
        return;
    }
    unref_dial(dial); /* the owner's reference is left */
    if (fd < 0) {
        fail(dial, error->message);
        return;
    }
    dial->fd = ipb_fd_steal(&fd);
    dial->watch = ipb_watch_new(dial->loop, dial->fd, EPOLLOUT, on_ready, dial, &error);
    if (dial->watch == NULL)
        fail(dial, error->message);
}

/* A CR or LF would begin another header. */
static bool
is_clean(const char *text, bool takes_spaces)
{
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char) *at < ' ' || *at == 0x7f || (*at == ' ' && !takes_spaces) ||
            (!takes_spaces && (unsigned char) *at > 0x7f))
            return false;
    return true;
}

static bool
check_target(const IpbWebSocketTarget *target, GError **error)
{
    const char *wrong = NULL;
    if (target->host[0] == '\0' || !is_clean(target->host, false))
        wrong = "host must be a name or an address";
    else if (target->port == 0 || target->port > 65535)
        wrong = "port must be 1 to 65535";
    else if (target->path[0] != '/' || !is_clean(target->path, false))
        wrong = "path must begin with \"/\" and be visible ASCII";
    for (const char *const *item = target->protocols; item != NULL && *item != NULL; item++)
        if (**item == '\0' || !is_clean(*item, false) || strchr(*item, ',') != NULL)
            wrong = "a subprotocol must be visible ASCII without commas";
    for (const char *const *item = target->headers; item != NULL && *item != NULL; item += 2)
        if (item[0][0] == '\0' || !is_clean(item[0], false) || strchr(item[0], ':') != NULL ||
            !is_clean(item[1], true))
            wrong = "a header must have a name, and no line ends";
    if (wrong == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the WebSocket cannot be opened: %s",
                wrong);
    return false;
}

static char *
make_request(const IpbWebSocketTarget *target, const char *key)
{
    bool is_ipv6 = strchr(target->host, ':') != NULL;
    GString *text = g_string_new(NULL);
    g_string_append_printf(
        text,
        "GET %s HTTP/1.1\r\nHost: %s%s%s:%u\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
        target->path, is_ipv6 ? "[" : "", target->host, is_ipv6 ? "]" : "", target->port, key);
    if (target->protocols != NULL && target->protocols[0] != NULL) {
        g_autofree char *list = g_strjoinv(", ", (char **) target->protocols);
        g_string_append_printf(text, "Sec-WebSocket-Protocol: %s\r\n", list);
    }
    for (const char *const *item = target->headers; item != NULL && *item != NULL; item += 2)
        g_string_append_printf(text, "%s: %s\r\n", item[0], item[1]);
    g_string_append(text, "\r\n");
    return g_string_free(text, FALSE);
}

static bool
make_key(char ret_key[IPB_HANDSHAKE_KEY_SIZE], GError **error)
{
    uint8_t bytes[KEY_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return ipb_error_set_errno(error, errno, "cannot get random bytes");
    g_autofree char *text = g_base64_encode(bytes, sizeof bytes);
    g_strlcpy(ret_key, text, IPB_HANDSHAKE_KEY_SIZE);
    return true;
}

IpbWebSocketDial *
ipb_websocket_dial_new(IpbLoop *loop, const IpbWebSocketTarget *target,
                       const IpbWebSocketDialFuncs *funcs, void *data, GError **error)
{
    char key[IPB_HANDSHAKE_KEY_SIZE];
    if (!check_target(target, error) || !make_key(key, error) || !ipb_thread_check(error))
        return NULL;
    IpbWebSocketDial *dial = g_rc_box_new0(IpbWebSocketDial);
    dial->loop = ipb_loop_ref(loop);
    dial->funcs = *funcs;
    dial->data = data;
    dial->cancellable = g_cancellable_new();
    memcpy(dial->key, key, sizeof key);
    dial->request = make_request(target, key);
    dial->protocols = g_strdupv((char **) target->protocols);
    dial->fd = -1;
    ipb_buffer_init(&dial->answer, IPB_HTTP_MAX_HEAD);
    g_rc_box_acquire(dial);
    ipb_tcp_connect(target->host, target->port, ipb_loop_context(loop), dial->cancellable,
                    on_connected, dial);
    return dial;
}
