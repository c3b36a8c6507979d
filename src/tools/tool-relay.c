/* SPDX-License-Identifier: Apache-2.0
 *
 * Forwards a kernel's calls to a tool server; see the header.
 */
#include "tools/tool-relay.h"

#include <string.h>

#include "base/error.h"
#include "http/client.h"
#include "tools/tool-response.h"

/* The tool server limits its results. This is a limit for a server that is not one. */
#define MAX_ANSWER (256u * 1024 * 1024)
#define CONNECT_TIMEOUT_MS 10000

struct IpbToolRelay {
    IpbLoop *loop;
    IpbHttpClient *client; /* NULL: no call was made yet */
    char *url;
    char *authorization; /* the header, or NULL */
    GPtrArray *calls;    /* Call */
};

typedef struct {
    IpbToolRelay *relay;
    IpbHttpRequest *request; /* NULL: it was answered, or its sender is gone */
    IpbHttpCall *call;
    GByteArray *answer;
} Call;

static void
free_call(Call *call)
{
    ipb_http_call_free(call->call);
    g_byte_array_unref(call->answer);
    g_free(call);
}

static void
on_gone(void *data)
{
    Call *call = data;
    call->request = NULL;
    g_ptr_array_remove_fast(call->relay->calls, call);
}

static void
on_body(IpbHttpCall *call, const char *bytes, size_t size, void *data)
{
    g_byte_array_append(((Call *) data)->answer, (const guint8 *) bytes, (guint) size);
}

static void
answer(Call *call)
{
    IpbHttpRequest *request = g_steal_pointer(&call->request);
    g_autoptr(GBytes) body = g_byte_array_free_to_bytes(call->answer);
    call->answer = g_byte_array_new();
    unsigned status = ipb_http_call_status(call->call);
    IpbHttpAnswer whole = {.status = status, .body = body};
    if (ipb_http_request_answer(request, &whole))
        return;
    g_autoptr(GError) error =
        g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "too many results wait to be read");
    ipb_tool_response_send_failure(request, error);
}

static void
on_end(IpbHttpCall *http_call, const GError *error, void *data)
{
    Call *call = data;
    if (error == NULL) {
        answer(call);
    } else {
        g_autoptr(GError) told = g_error_copy(error);
        g_prefix_error(&told, "the tool server cannot be reached: ");
        ipb_tool_response_send_failure(g_steal_pointer(&call->request), told);
    }
    g_ptr_array_remove_fast(call->relay->calls, call);
}

/* The client is made when it is needed: most sessions call no tools, and libcurl takes time to
 * load. */
static bool
open_client(IpbToolRelay *relay, GError **error)
{
    const char *no_proxies[] = {NULL};
    IpbHttpClientOptions options = {.env = no_proxies};
    if (relay->client == NULL)
        relay->client = ipb_http_client_new(relay->loop, &options, error);
    return relay->client != NULL;
}

void
ipb_tool_relay_run(IpbToolRelay *relay, IpbHttpRequest *request)
{
    const char *headers[] = {"Content-Type: application/json", "Ipybox-Role: kernel",
                             relay->authorization, NULL};
    IpbSpan body = ipb_http_request_body(request);
    g_autoptr(GError) error = NULL;
    if (!open_client(relay, &error)) {
        ipb_tool_response_send_failure(request, error);
        return;
    }
    Call *call = g_new0(Call, 1);
    call->relay = relay;
    call->request = request;
    call->answer = g_byte_array_new();
    g_ptr_array_add(relay->calls, call);
    ipb_http_request_set_gone(request, on_gone, call);
    call->call =
        ipb_http_client_send(relay->client, &(IpbHttpCallOptions){
                                                .method = "POST",
                                                .url = relay->url,
                                                .headers = headers,
                                                .body = body.start,
                                                .body_size = body.size,
                                                .limits = {.body_size = MAX_ANSWER},
                                                .deadlines = {.connect_ms = CONNECT_TIMEOUT_MS},
                                                .on_body = on_body,
                                                .on_end = on_end,
                                                .data = call,
                                            });
}

IpbToolRelay *
ipb_tool_relay_new(IpbLoop *loop, const char *host, unsigned port, const char *token)
{
    IpbToolRelay *relay = g_new0(IpbToolRelay, 1);
    relay->loop = ipb_loop_ref(loop);
    bool is_ipv6 = strchr(host, ':') != NULL && host[0] != '[';
    relay->url = g_strdup_printf(is_ipv6 ? "http://[%s]:%u/run" : "http://%s:%u/run", host, port);
    if (token != NULL && token[0] != '\0')
        relay->authorization = g_strdup_printf("Authorization: Bearer %s", token);
    relay->calls = g_ptr_array_new_with_free_func((GDestroyNotify) free_call);
    return relay;
}

/* Requests that still wait are answered by the HTTP server, which was freed before. */
void
ipb_tool_relay_free(IpbToolRelay *relay)
{
    if (relay == NULL)
        return;
    g_ptr_array_unref(relay->calls);
    ipb_http_client_free(relay->client);
    ipb_loop_unref(relay->loop);
    g_free(relay->url);
    g_free(relay->authorization);
    g_free(relay);
}
