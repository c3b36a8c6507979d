/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests in the order in which they were made; see the header. No number is used twice.
 */
#include "kernel/requests.h"

#include <inttypes.h>

#include "base/error.h"

/* Waiting and sent requests. */
#define MAX_REQUESTS 256

typedef struct {
    uint64_t id;
    char *method, *params; /* NULL: it was sent */
    IpbKernelReplyFunc func;
    void *data;
} Request;

struct IpbRequests {
    GQueue queue; /* Request */
    uint64_t last_id;
};

static void
free_request(Request *request)
{
    g_free(request->method);
    g_free(request->params);
    g_free(request);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Request, free_request)

IpbRequests *
ipb_requests_new(void)
{
    return g_new0(IpbRequests, 1);
}

void
ipb_requests_free(IpbRequests *requests)
{
    if (requests == NULL)
        return;
    g_queue_clear_full(&requests->queue, (GDestroyNotify) free_request);
    g_free(requests);
}

static GList *
find(IpbRequests *requests, uint64_t id)
{
    for (GList *link = requests->queue.head; link != NULL; link = link->next)
        if (((Request *) link->data)->id == id)
            return link;
    return NULL;
}

static void
end(Request *owned, const IpbJson *result, const GError *error)
{
    g_autoptr(Request) request = owned;
    request->func(result, error, request->data);
}

bool
ipb_requests_add(IpbRequests *requests, const char *method, const char *params,
                 IpbKernelReplyFunc func, void *data, GError **error)
{
    if (requests->queue.length >= MAX_REQUESTS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%d requests already wait for the kernel's answers", MAX_REQUESTS);
        return false;
    }
    Request *request = g_new(Request, 1);
    *request = (Request){++requests->last_id, g_strdup(method), g_strdup(params), func, data};
    g_queue_push_tail(&requests->queue, request);
    return true;
}

bool
ipb_requests_is_empty(const IpbRequests *requests)
{
    return requests->queue.length == 0;
}

static Request *
first_waiting(const IpbRequests *requests)
{
    for (GList *link = requests->queue.head; link != NULL; link = link->next)
        if (((Request *) link->data)->method != NULL)
            return link->data;
    return NULL;
}

static void
mark_sent(Request *request)
{
    g_clear_pointer(&request->method, g_free);
    g_clear_pointer(&request->params, g_free);
}

void
ipb_requests_send(IpbRequests *requests, IpbRequestSendFunc send, void *data)
{
    Request *request;
    while ((request = first_waiting(requests)) != NULL) {
        g_autoptr(GError) error = NULL;
        bool is_sent = send(request->id, request->method, request->params, &error, data);
        mark_sent(request);
        if (!is_sent && g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT)) {
            g_queue_remove(&requests->queue, request);
            end(request, NULL, error);
        }
    }
}

void
ipb_requests_bind(IpbRequests *requests)
{
    Request *request;
    while ((request = first_waiting(requests)) != NULL)
        mark_sent(request);
}

bool
ipb_requests_answer(IpbRequests *requests, uint64_t id, const IpbJson *result,
                    const char *error_text, GError **error)
{
    GList *link = find(requests, id);
    if (link == NULL || ((Request *) link->data)->method != NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "a reply to request %" PRIu64 ", which was not made", id);
        return false;
    }
    Request *request = link->data;
    g_queue_delete_link(&requests->queue, link);
    g_autoptr(GError) failure =
        error_text != NULL ? g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, error_text)
                           : NULL;
    end(request, failure != NULL ? NULL : result, failure);
    return true;
}

void
ipb_requests_fail(IpbRequests *requests, bool with_waiting, const char *why)
{
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, why);
    GQueue ended = G_QUEUE_INIT;
    for (GList *link = requests->queue.head, *next; link != NULL; link = next) {
        next = link->next;
        if (with_waiting || ((Request *) link->data)->method == NULL) {
            g_queue_unlink(&requests->queue, link);
            g_queue_push_tail_link(&ended, link);
        }
    }
    Request *request;
    while ((request = g_queue_pop_head(&ended)) != NULL)
        end(request, NULL, error);
}
