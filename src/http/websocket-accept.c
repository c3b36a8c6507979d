/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's side of a WebSocket's handshake; see websocket.h.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "http/handshake.h"
#include "http/websocket-private.h"

static void
answer_refusal(IpbHttpRequest *request, const IpbHttpHead *head)
{
    ipb_http_request_refuse_error(
        request, head->status, head->reason,
        head->status == 426 ? "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" : NULL);
}

/* Small, and the first thing that is sent: the socket's buffer takes it. */
static bool
send_answer(int fd, const char *accept, const char *protocol)
{
    g_autofree char *text = g_strdup_printf(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: %s\r\n%s%s%s\r\n",
        accept, protocol != NULL ? "Sec-WebSocket-Protocol: " : "",
        protocol != NULL ? protocol : "", protocol != NULL ? "\r\n" : "");
    return send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t) strlen(text);
}

IpbWebSocket *
ipb_websocket_accept(IpbLoop *loop, IpbHttpRequest *request, const char *const *protocols,
                     const IpbWebSocketOptions *options, const IpbWebSocketFuncs *funcs, void *data)
{
    char accept[IPB_HANDSHAKE_ACCEPT_SIZE];
    const char *protocol;
    g_autoptr(GBytes) unread = NULL;
    g_autoptr(IpbHttpPlace) place = NULL;
    IpbHttpHead head = *ipb_http_request_head(request);
    if (!ipb_handshake_check_request(&head, protocols, &protocol, accept)) {
        answer_refusal(request, &head);
        return NULL;
    }
    ipb_autofd fd = ipb_http_request_steal(request, &unread, &place);
    if (!send_answer(fd, accept, protocol))
        return NULL;
    g_autoptr(IpbWebSocket) socket = ipb_websocket_new(loop, options, funcs, data);
    ipb_websocket_set_place(socket, g_steal_pointer(&place));
    gsize size;
    const char *bytes = g_bytes_get_data(unread, &size);
    if (!ipb_websocket_start(socket, ipb_fd_steal(&fd), true, bytes, size, protocol, NULL))
        return NULL;
    return g_steal_pointer(&socket);
}
