/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of a session to the client; see the header.
 */
#include "serve/rpc/client-requests.h"

struct IpbRpcClientRequests {
    IpbRpcClient *client;
    const IpbRpcClientRequestKind *kind;
    void *data;
    GPtrArray *open; /* Request, the oldest first; borrowed */
    bool holds;
};

typedef struct {
    IpbRpcClientRequests *requests; /* NULL: its answer is ignored */
    uint64_t id;
    char *params; /* of a request that is held; NULL: it was sent */
    int64_t call; /* of the peer, if it was sent */
} Request;

IpbRpcClientRequests *
ipb_rpc_client_requests_new(IpbRpcClient *client, const IpbRpcClientRequestKind *kind, void *data)
{
    IpbRpcClientRequests *requests = g_new0(IpbRpcClientRequests, 1);
    requests->client = client;
    requests->kind = kind;
    requests->data = data;
    requests->open = g_ptr_array_new();
    return requests;
}

static void
free_request(Request *request)
{
    g_free(request->params);
    g_free(request);
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    Request *request = data;
    IpbRpcClientRequests *requests = request->requests;
    if (requests != NULL) {
        g_ptr_array_remove(requests->open, request);
        requests->kind->on_answer(request->id, answer, requests->data);
    }
    free_request(request);
}

static void
send_now(Request *request)
{
    IpbRpcClientRequests *requests = request->requests;
    g_autofree char *params = g_steal_pointer(&request->params);
    request->call =
        ipb_rpc_peer_call(ipb_rpc_client_peer(requests->client), requests->kind->method, params,
                          /* timeout_ms= */ 0, on_answer, request);
}

void
ipb_rpc_client_requests_send(IpbRpcClientRequests *requests, uint64_t id, char *params)
{
    Request *request = g_new0(Request, 1);
    *request = (Request){.requests = requests, .id = id, .params = params};
    g_ptr_array_add(requests->open, request);
    if (!requests->holds)
        send_now(request);
}

void
ipb_rpc_client_requests_hold(IpbRpcClientRequests *requests, bool holds)
{
    requests->holds = holds;
    /* Sending may make the client congested again: then the rest is held. */
    for (guint i = 0; i < requests->open->len && !requests->holds; i++) {
        Request *request = g_ptr_array_index(requests->open, i);
        if (request->params != NULL)
            send_now(request);
    }
}

/* It is not in the list any more. */
static void
cancel(Request *request)
{
    IpbRpcClientRequests *requests = request->requests;
    request->requests = NULL;
    if (request->params != NULL) {
        free_request(request);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "id", request->call);
    ipb_json_end_object(writer);
    ipb_rpc_client_notify(requests->client, requests->kind->cancelled, writer);
    /* Frees the request, from the loop. */
    ipb_rpc_peer_cancel_call(ipb_rpc_client_peer(requests->client), request->call);
}

void
ipb_rpc_client_requests_cancel(IpbRpcClientRequests *requests, uint64_t id)
{
    for (guint i = 0; i < requests->open->len; i++) {
        Request *request = g_ptr_array_index(requests->open, i);
        if (request->id != id)
            continue;
        g_ptr_array_remove_index(requests->open, i);
        cancel(request);
        return;
    }
}

void
ipb_rpc_client_requests_free(IpbRpcClientRequests *requests)
{
    if (requests == NULL)
        return;
    while (requests->open->len > 0)
        cancel(g_ptr_array_steal_index(requests->open, 0));
    g_ptr_array_unref(requests->open);
    g_free(requests);
}
