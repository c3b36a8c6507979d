/* SPDX-License-Identifier: Apache-2.0
 *
 * The port for tool calls in a sandbox; see the header.
 */
#include "tools/tool-door.h"

#include <string.h>

struct IpbToolDoor {
    IpbHttpServer *server;
    IpbHttpGate *gate; /* the server's */
    IpbToolChannel *first;
    GPtrArray *channels; /* IpbToolChannel, borrowed */
    bool is_shared;      /* each call needs a token */
};

/* The time does not depend on how much of the token is right. */
static bool
is_token(IpbSpan token, const char *wanted)
{
    size_t size = strlen(wanted);
    unsigned char difference = 0;
    if (token.size != size || size == 0)
        return false;
    for (size_t i = 0; i < size; i++)
        difference |= (unsigned char) (token.start[i] ^ wanted[i]);
    return difference == 0;
}

static IpbToolChannel *
find_channel(const IpbToolDoor *door, IpbSpan token)
{
    for (guint i = 0; i < door->channels->len; i++) {
        IpbToolChannel *channel = g_ptr_array_index(door->channels, i);
        if (is_token(token, ipb_tool_channel_token(channel)))
            return channel;
    }
    return NULL;
}

static unsigned
find_role(IpbSpan token, void *data)
{
    return find_channel(data, token) != NULL ? IPB_HTTP_ROLE_KERNEL : 0;
}

static void
on_run(IpbHttpRequest *request, void *data)
{
    const IpbToolDoor *door = data;
    IpbSpan token;
    IpbToolChannel *channel = door->first;
    if (door->is_shared)
        channel = ipb_http_gate_get_token(ipb_http_request_head(request), &token)
                      ? find_channel(door, token)
                      : NULL;
    if (channel != NULL)
        ipb_tool_channel_run(channel, request);
    else
        ipb_http_request_refuse_error(request, 503, "the session was closed", NULL);
}

static const IpbHttpRoute ROUTES[] = {
    {"POST", "/run", IPB_HTTP_BODY_JSON, IPB_HTTP_ROLE_ANY, on_run},
};

static void
on_channel_freed(IpbToolChannel *channel, void *data)
{
    ipb_tool_door_remove(data, channel);
}

static void
add_channel(IpbToolDoor *door, IpbToolChannel *channel)
{
    g_ptr_array_add(door->channels, channel);
    ipb_tool_channel_enter_door(channel, door, on_channel_freed);
}

IpbToolDoor *
ipb_tool_door_new(IpbLoop *loop, IpbToolChannel *channel, int fd, unsigned port, GError **error)
{
    IpbToolDoor *door = g_new0(IpbToolDoor, 1);
    door->gate = ipb_http_gate_new();
    ipb_http_gate_set_everybody(door->gate, IPB_HTTP_ROLE_KERNEL);
    door->channels = g_ptr_array_new();
    door->first = channel;
    door->server =
        ipb_tool_channel_make_server(loop, ROUTES, G_N_ELEMENTS(ROUTES), door, door->gate);
    add_channel(door, channel);
    if (!ipb_http_server_take_listener(door->server, fd, port, error))
        g_clear_pointer(&door, ipb_tool_door_free);
    return door;
}

void
ipb_tool_door_share(IpbToolDoor *door, IpbToolChannel *channel)
{
    add_channel(door, channel);
    if (door->is_shared)
        return;
    door->is_shared = true;
    ipb_http_gate_set_everybody(door->gate, 0);
    ipb_http_gate_set_tokens(door->gate, find_role, door);
    ipb_http_gate_set_hint(door->gate,
                           "the session's token is missing or wrong: since the session was forked, "
                           "calls need the one that the kernel has in IPYBOX_TOOL_TOKEN");
}

void
ipb_tool_door_remove(IpbToolDoor *door, IpbToolChannel *channel)
{
    if (!g_ptr_array_remove(door->channels, channel))
        return;
    if (door->first == channel)
        door->first = NULL;
    ipb_tool_channel_leave_door(channel);
}

void
ipb_tool_door_free(IpbToolDoor *door)
{
    if (door == NULL)
        return;
    ipb_http_server_free(door->server);
    while (door->channels->len > 0)
        ipb_tool_door_remove(door, g_ptr_array_index(door->channels, 0));
    g_ptr_array_unref(door->channels);
    g_free(door);
}
