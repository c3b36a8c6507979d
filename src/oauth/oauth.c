/* SPDX-License-Identifier: Apache-2.0
 *
 * The authorization of one server; see the header.
 */
#include "oauth/oauth.h"

#include <string.h>

#include "base/error.h"

struct IpbOAuth {
    IpbLoop *loop;
    char *server_url, *server_name;
    GQueue calls; /* IpbOAuthCall that have no answer yet */
};

struct IpbOAuthCall {
    IpbOAuth *oauth;
    IpbOAuthFunc func;
    void *data;
    IpbTimer *timer;
    GError *error;
};

static void
free_call(IpbOAuthCall *call)
{
    ipb_timer_free(call->timer);
    g_clear_error(&call->error);
    g_free(call);
}

static void
on_answer(void *data)
{
    IpbOAuthCall *call = data;
    g_queue_remove(&call->oauth->calls, call);
    call->func(NULL, call->error, call->data);
    free_call(call);
}

static IpbOAuthCall *
add_call(IpbOAuth *oauth, IpbOAuthFunc func, void *data)
{
    IpbOAuthCall *call = g_new0(IpbOAuthCall, 1);
    call->oauth = oauth;
    call->func = func;
    call->data = data;
    call->timer = ipb_timer_new(oauth->loop, 0, on_answer, call);
    g_queue_push_tail(&oauth->calls, call);
    return call;
}

IpbOAuth *
ipb_oauth_new(IpbLoop *loop, const IpbOAuthOptions *options, GError **error)
{
    IpbOAuth *oauth = g_new0(IpbOAuth, 1);
    oauth->loop = ipb_loop_ref(loop);
    oauth->server_url = g_strdup(options->server_url);
    oauth->server_name = g_strdup(options->server_name);
    g_queue_init(&oauth->calls);
    return oauth;
}

void
ipb_oauth_free(IpbOAuth *oauth)
{
    if (oauth == NULL)
        return;
    for (IpbOAuthCall *call; (call = g_queue_pop_head(&oauth->calls)) != NULL;)
        free_call(call);
    g_free(oauth->server_url);
    g_free(oauth->server_name);
    ipb_loop_unref(oauth->loop);
    g_free(oauth);
}

IpbOAuthCall *
ipb_oauth_get(IpbOAuth *oauth, IpbOAuthFunc func, void *data)
{
    return add_call(oauth, func, data);
}

IpbOAuthCall *
ipb_oauth_challenge(IpbOAuth *oauth, const IpbOAuthChallenge *challenge, IpbOAuthFunc func,
                    void *data)
{
    IpbOAuthCall *call = add_call(oauth, func, data);
    g_set_error(&call->error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                "the MCP server answered with status %u: log in with `ipybox login %s`",
                challenge->status,
                oauth->server_name != NULL ? oauth->server_name : oauth->server_url);
    return call;
}

void
ipb_oauth_call_cancel(IpbOAuthCall *call)
{
    g_queue_remove(&call->oauth->calls, call);
    free_call(call);
}
