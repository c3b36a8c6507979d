/* SPDX-License-Identifier: Apache-2.0
 *
 * The approval engine; see the header. Each request is an object in one table from _request until
 * its function has been called. Its life: undecided (only if somebody is asked) → decided → told.
 * The decision is made once; a timer of zero carries it to the loop, so that no function is called
 * from within _request or _respond.
 *
 * @func may start, answer and cancel other requests; it may not free the approvals.
 */
#include "tools/approval.h"

#include "base/error.h"

/* Requests that wait at the same time; a kernel that asks for more is refused. */
#define MAX_REQUESTS 1000

typedef struct {
    IpbApprovals *approvals;
    uint64_t id;
    bool is_asked;   /* and undecided */
    GError *error;   /* the decision: NULL is yes */
    IpbTimer *timer; /* undecided: the timeout; decided: on the way to the loop */
    char *server_name;
    char *tool_name;
    IpbApprovalFunc func;
    void *data;
} Request;

struct IpbApprovals {
    IpbLoop *loop;
    IpbApprovalOptions options;
    uint64_t last_id;
    unsigned n_waiting;
    GHashTable *requests; /* &request->id → Request, owned */
};

static void
free_request(void *data)
{
    Request *request = data;
    ipb_timer_free(request->timer);
    g_clear_error(&request->error);
    g_free(request->server_name);
    g_free(request->tool_name);
    g_free(request);
}

IpbApprovals *
ipb_approvals_new(IpbLoop *loop, const IpbApprovalOptions *options)
{
    IpbApprovals *approvals = g_new0(IpbApprovals, 1);
    approvals->loop = ipb_loop_ref(loop);
    approvals->options = *options;
    approvals->requests = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, free_request);
    return approvals;
}

static void
on_decided(void *data)
{
    Request *request = data;
    GHashTable *requests = request->approvals->requests;
    g_hash_table_steal(requests, &request->id);
    request->func(request->error, request->data);
    free_request(request);
}

static void
count_waiting(IpbApprovals *approvals, int change)
{
    bool was_waiting = approvals->n_waiting > 0;
    approvals->n_waiting += (unsigned) change;
    bool is_waiting = approvals->n_waiting > 0;
    if (is_waiting != was_waiting && approvals->options.on_wait != NULL)
        approvals->options.on_wait(is_waiting, approvals->options.data);
}

/* @error: NULL, or why not (taken over). */
static void
decide(Request *request, GError *error)
{
    request->error = error;
    ipb_timer_free(request->timer);
    request->timer = ipb_timer_new(request->approvals->loop, 0, on_decided, request);
    if (request->is_asked) {
        request->is_asked = false;
        count_waiting(request->approvals, -1);
    }
}

static GError *
make_error(const Request *request, IpyboxError code, const char *what)
{
    return g_error_new(IPYBOX_ERROR, code, "the call of %s.%s %s", request->server_name,
                       request->tool_name, what);
}

static GError *
make_cancelled(const Request *request)
{
    return make_error(request, IPYBOX_ERROR_CANCELLED,
                      "was cancelled while it waited for approval");
}

static void
on_timeout(void *data)
{
    Request *request = data;
    g_autofree char *what = g_strdup_printf("was not approved within %g s",
                                            (double) request->approvals->options.timeout_ms / 1000);
    decide(request, make_error(request, IPYBOX_ERROR_TIMEOUT, what));
}

static void
ask(Request *request, const char *arguments_json, size_t arguments_size)
{
    IpbApprovals *approvals = request->approvals;
    int64_t timeout_ms = approvals->options.timeout_ms;
    request->is_asked = true;
    if (timeout_ms >= 0)
        request->timer = ipb_timer_new(approvals->loop, (unsigned) MIN(timeout_ms, G_MAXINT),
                                       on_timeout, request);
    count_waiting(approvals, 1);
    IpbApprovalRequest shown = {
        .id = request->id,
        .server_name = request->server_name,
        .tool_name = request->tool_name,
        .arguments_json = arguments_json,
        .arguments_size = arguments_size,
    };
    approvals->options.ask(&shown, approvals->options.data); /* may answer at once */
}

static void
apply_policy(Request *request, const char *arguments_json, size_t arguments_size)
{
    IpbApprovals *approvals = request->approvals;
    if (g_hash_table_size(approvals->requests) > MAX_REQUESTS) {
        g_autofree char *what =
            g_strdup_printf("was refused: %d others wait already", MAX_REQUESTS);
        decide(request, make_error(request, IPYBOX_ERROR_LIMIT, what));
        return;
    }
    switch (approvals->options.policy) {
    case IPB_APPROVAL_ALLOW:
        decide(request, NULL);
        return;
    case IPB_APPROVAL_ASK:
        if (approvals->options.ask != NULL)
            ask(request, arguments_json, arguments_size);
        else
            decide(request,
                   make_error(request, IPYBOX_ERROR_REFUSED,
                              "was refused: it needs an approval and there is nobody to ask"));
        return;
    case IPB_APPROVAL_DENY:
    default:
        decide(request, make_error(request, IPYBOX_ERROR_REFUSED,
                                   "was refused: this session allows no tool calls"));
    }
}

uint64_t
ipb_approvals_request(IpbApprovals *approvals, const char *server_name, const char *tool_name,
                      const char *arguments_json, size_t arguments_size, IpbApprovalFunc func,
                      void *data)
{
    Request *request = g_new0(Request, 1);
    uint64_t id = ++approvals->last_id;
    *request = (Request){
        .approvals = approvals,
        .id = id,
        .server_name = g_strdup(server_name),
        .tool_name = g_strdup(tool_name),
        .func = func,
        .data = data,
    };
    g_hash_table_insert(approvals->requests, &request->id, request);
    apply_policy(request, arguments_json, arguments_size);
    return id;
}

/* NULL unless it waits for an answer. */
static Request *
find_asked(IpbApprovals *approvals, uint64_t id)
{
    Request *request = g_hash_table_lookup(approvals->requests, &id);
    return request != NULL && request->is_asked ? request : NULL;
}

bool
ipb_approvals_respond(IpbApprovals *approvals, uint64_t id, bool accept)
{
    Request *request = find_asked(approvals, id);
    if (request == NULL)
        return false;
    decide(request, accept ? NULL : make_error(request, IPYBOX_ERROR_REFUSED, "was rejected"));
    return true;
}

void
ipb_approvals_cancel(IpbApprovals *approvals, uint64_t id)
{
    Request *request = g_hash_table_lookup(approvals->requests, &id);
    if (request == NULL)
        return;
    /* One that is decided but not told is cancelled as well: its caller is gone. */
    g_clear_error(&request->error);
    decide(request, make_cancelled(request));
}

void
ipb_approvals_cancel_all(IpbApprovals *approvals)
{
    g_autoptr(GPtrArray) asked = g_ptr_array_new();
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, approvals->requests);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        if (((Request *) value)->is_asked)
            g_ptr_array_add(asked, value);
    /* on_wait may come from within, but nothing is freed before the loop runs again. */
    for (guint i = 0; i < asked->len; i++) {
        Request *request = g_ptr_array_index(asked, i);
        if (request->is_asked)
            decide(request, make_cancelled(request));
    }
}

void
ipb_approvals_set_policy(IpbApprovals *approvals, IpbApprovalPolicy policy)
{
    approvals->options.policy = policy;
}

void
ipb_approvals_free(IpbApprovals *approvals)
{
    if (approvals == NULL)
        return;
    approvals->options.on_wait = NULL;
    approvals->options.ask = NULL;
    approvals->options.policy = IPB_APPROVAL_DENY;
    /* Requests that a function starts now are refused, and told so in the next round. */
    while (g_hash_table_size(approvals->requests) > 0) {
        GHashTableIter iter;
        void *value;
        g_hash_table_iter_init(&iter, approvals->requests);
        g_hash_table_iter_next(&iter, NULL, &value);
        Request *request = value;
        if (request->error == NULL)
            request->error = make_cancelled(request);
        on_decided(request);
    }
    g_hash_table_unref(approvals->requests);
    ipb_loop_unref(approvals->loop);
    g_free(approvals);
}
