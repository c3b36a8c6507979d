/* SPDX-License-Identifier: Apache-2.0
 *
 * The approval engine; see the header. Each request is in one table from _request until its
 * function was called. It is undecided (only while the user is asked), then decided, then reported.
 * The decision is made once. A timer of zero takes it to the loop, so that no function is called
 * from within _request or _respond.
 *
 * @func may start, answer and cancel other requests. It must not free the approvals.
 */
#include "tools/approvals.h"

#include "base/error.h"

/* Requests that wait at the same time. Further ones are refused. */
#define MAX_REQUESTS 1000

typedef struct {
    IpbApprovals *approvals;
    uint64_t id;
    bool is_asked; /* asked and undecided */
    IpbApprovalSubject subject;
    GError *error;   /* the decision; NULL: approved */
    IpbTimer *timer; /* for the timeout while undecided; then reports the decision */
    char *server_name;
    char *server_params; /* NULL: the server is registered */
    char *tool_name;
    char *arguments_json; /* only if decisions are logged or reported */
    size_t arguments_size;
    unsigned rule; /* the rule that decided, or said to ask; 0: none */
    const char *reason;
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
    g_free(request->server_params);
    g_free(request->tool_name);
    g_free(request->arguments_json);
    g_free(request);
}

IpbApprovals *
ipb_approvals_new(IpbLoop *loop, const IpbApprovalOptions *options)
{
    IpbApprovals *approvals = g_new0(IpbApprovals, 1);
    approvals->loop = ipb_loop_ref(loop);
    approvals->options = *options;
    if (options->rules != NULL)
        ipb_approval_rules_ref(options->rules);
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

static GError *
make_error(const Request *request, IpyboxError code, const char *what)
{
    return g_error_new(IPYBOX_ERROR, code, "the call of %s.%s %s", request->server_name,
                       request->tool_name, what);
}

/* The wording of ipybox 0.9, which programs search for (docs/migration.md). */
static GError *
make_no(const Request *request, IpyboxError code, const char *what)
{
    return g_error_new(IPYBOX_ERROR, code, "Approval request for %s.%s %s", request->server_name,
                       request->tool_name, what);
}

static void
log_decision(Request *request, IpbDecider by)
{
    const IpbApprovalOptions *options = &request->approvals->options;
    IpbDecision decision = {
        .request = request->id,
        .server_name = request->server_name,
        .server_params = request->server_params,
        .tool_name = request->tool_name,
        .arguments_json = request->arguments_json,
        .arguments_size = request->arguments_size,
        .is_allowed = request->error == NULL,
        .by = by,
        .rule = request->rule,
        .reason = request->reason,
    };
    g_autoptr(GError) error = NULL;
    if (options->audit_log != NULL && !ipb_audit_log_write(options->audit_log, &decision, &error) &&
        request->error == NULL) {
        g_autofree char *what = g_strdup_printf("was refused: %s", error->message);
        request->error = make_error(request, IPYBOX_ERROR_REFUSED, what);
        decision.is_allowed = false;
        decision.reason = error->message;
    }
    if (options->on_decision != NULL)
        options->on_decision(&decision, options->data);
}

/* @error: NULL if the call is approved, else why not (taken over). A call whose decision cannot be
 * logged does not run. */
static void
decide(Request *request, IpbDecider by, GError *error)
{
    IpbApprovals *approvals = request->approvals;
    bool was_asked = request->is_asked;
    request->error = error;
    request->is_asked = false; /* functions that are called from here may not answer again */
    log_decision(request, by);
    ipb_timer_free(request->timer);
    request->timer = ipb_timer_new(approvals->loop, 0, on_decided, request);
    if (!was_asked)
        return;
    count_waiting(approvals, -1);
    bool is_answered = by == IPB_DECIDED_BY_USER || by == IPB_DECIDED_BY_NOBODY;
    if (!is_answered && approvals->options.on_withdrawn != NULL)
        approvals->options.on_withdrawn(request->id, approvals->options.data);
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
    decide(request, IPB_DECIDED_BY_TIMEOUT, make_no(request, IPYBOX_ERROR_TIMEOUT, "expired"));
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
        .server_params = request->server_params,
        .tool_name = request->tool_name,
        .arguments_json = arguments_json,
        .arguments_size = arguments_size,
        .is_by_rule = request->rule > 0,
        .subject = request->subject,
    };
    approvals->options.ask(&shown, approvals->options.data); /* may answer at once */
}

/* What holds if no rule says anything. */
static IpbApprovalPolicy
get_policy(const Request *request)
{
    const IpbApprovalOptions *options = &request->approvals->options;
    bool needs_choice = request->subject == IPB_APPROVAL_OF_INSTALLATION ||
                        request->subject == IPB_APPROVAL_OF_COMMIT;
    bool is_meant = !needs_choice || !options->is_policy_default;
    return options->policy == IPB_APPROVAL_ALLOW && !is_meant ? IPB_APPROVAL_ASK : options->policy;
}

/* Applies the rules, then the policy. If a rule refuses, its text is the reason. */
static IpbApprovalPolicy
find_policy(Request *request, const char *arguments_json, size_t arguments_size)
{
    const IpbApprovalOptions *options = &request->approvals->options;
    IpbApprovalVerdict verdict;
    if (options->rules == NULL)
        return get_policy(request);
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(arguments_json, arguments_size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    if (document == NULL || ipb_json_has_duplicates(document)) {
        request->reason = "its arguments cannot be read by the rules";
        return IPB_APPROVAL_DENY;
    }
    IpbApprovalCall call = {
        .server_name = request->server_name,
        .is_registered = request->server_params == NULL,
        .tool_name = request->tool_name,
        .arguments = ipb_json_root(document),
    };
    if (!ipb_approval_rules_decide(options->rules, &call, &verdict))
        return get_policy(request);
    request->rule = verdict.rule;
    request->reason = verdict.reason;
    return verdict.policy;
}

static void
deny(Request *request)
{
    g_autofree char *what = NULL;
    if (request->rule > 0)
        what = g_strdup_printf("was refused by approval rule %u%s%s", request->rule,
                               request->reason != NULL ? ": " : "",
                               request->reason != NULL ? request->reason : "");
    else if (request->reason != NULL)
        what = g_strdup_printf("was refused: %s", request->reason);
    else
        what = g_strdup(request->approvals->options.rules != NULL
                            ? "was refused: no approval rule allows it"
                            : "was refused: this session allows no tool calls");
    decide(request, request->rule > 0 ? IPB_DECIDED_BY_RULE : IPB_DECIDED_BY_POLICY,
           make_error(request, IPYBOX_ERROR_REFUSED, what));
}

static void
apply_policy(Request *request, const char *arguments_json, size_t arguments_size)
{
    IpbApprovals *approvals = request->approvals;
    if (g_hash_table_size(approvals->requests) > MAX_REQUESTS) {
        g_autofree char *what =
            g_strdup_printf("was refused: %d others wait already", MAX_REQUESTS);
        decide(request, IPB_DECIDED_BY_LIMIT, make_error(request, IPYBOX_ERROR_LIMIT, what));
        return;
    }
    switch (find_policy(request, arguments_json, arguments_size)) {
    case IPB_APPROVAL_ALLOW:
        decide(request, request->rule > 0 ? IPB_DECIDED_BY_RULE : IPB_DECIDED_BY_POLICY, NULL);
        return;
    case IPB_APPROVAL_ASK:
        if (approvals->options.ask != NULL)
            ask(request, arguments_json, arguments_size);
        else
            decide(request, IPB_DECIDED_BY_NOBODY,
                   make_no(request, IPYBOX_ERROR_REFUSED,
                           "failed: it needs an approval and there is no one to ask"));
        return;
    case IPB_APPROVAL_DENY:
    default:
        deny(request);
    }
}

/* Takes @request. */
static uint64_t
submit(IpbApprovals *approvals, Request *request, const char *arguments_json, size_t arguments_size)
{
    uint64_t id = ++approvals->last_id;
    request->approvals = approvals;
    request->id = id;
    request->arguments_size = arguments_size;
    if (approvals->options.audit_log != NULL || approvals->options.on_decision != NULL)
        request->arguments_json = g_strndup(arguments_json, arguments_size);
    g_hash_table_insert(approvals->requests, &request->id, request);
    apply_policy(request, arguments_json, arguments_size);
    return id;
}

uint64_t
ipb_approvals_request(IpbApprovals *approvals, const char *server_name, const char *server_params,
                      const char *tool_name, const char *arguments_json, size_t arguments_size,
                      IpbApprovalFunc func, void *data)
{
    Request *request = g_new(Request, 1);
    *request = (Request){
        .server_name = g_strdup(server_name),
        .server_params = g_strdup(server_params),
        .tool_name = g_strdup(tool_name),
        .func = func,
        .data = data,
    };
    return submit(approvals, request, arguments_json, arguments_size);
}

uint64_t
ipb_approvals_request_own(IpbApprovals *approvals, IpbApprovalSubject subject,
                          const char *arguments_json, size_t arguments_size, IpbApprovalFunc func,
                          void *data)
{
    static const char *const TOOLS[] = {
        [IPB_APPROVAL_OF_INSTALLATION] = IPB_INSTALL_TOOL,
        [IPB_APPROVAL_OF_COMMIT] = IPB_COMMIT_TOOL,
        [IPB_APPROVAL_OF_DISCARD] = IPB_DISCARD_TOOL,
    };
    Request *request = g_new(Request, 1);
    *request = (Request){
        .subject = subject,
        .server_name = g_strdup(IPB_OWN_SERVER),
        .tool_name = g_strdup(TOOLS[subject]),
        .func = func,
        .data = data,
    };
    return submit(approvals, request, arguments_json, arguments_size);
}

/* The request if it waits for an answer; else NULL. */
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
    decide(request, IPB_DECIDED_BY_USER,
           accept ? NULL : make_no(request, IPYBOX_ERROR_REFUSED, "rejected"));
    return true;
}

bool
ipb_approvals_refuse(IpbApprovals *approvals, uint64_t id, const char *why)
{
    Request *request = find_asked(approvals, id);
    if (request == NULL)
        return false;
    g_autofree char *what = g_strconcat("failed: ", why, NULL);
    decide(request, IPB_DECIDED_BY_NOBODY, make_no(request, IPYBOX_ERROR_REFUSED, what));
    return true;
}

void
ipb_approvals_cancel(IpbApprovals *approvals, uint64_t id)
{
    Request *request = g_hash_table_lookup(approvals->requests, &id);
    if (request == NULL)
        return;
    /* A request that is decided but not reported is cancelled, too, because its caller is gone. */
    g_clear_error(&request->error);
    decide(request, IPB_DECIDED_BY_CANCEL, make_cancelled(request));
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
    /* on_wait may be called from here, but nothing is freed before the loop runs again. */
    for (guint i = 0; i < asked->len; i++) {
        Request *request = g_ptr_array_index(asked, i);
        if (request->is_asked)
            decide(request, IPB_DECIDED_BY_CANCEL, make_cancelled(request));
    }
}

void
ipb_approvals_set_policy(IpbApprovals *approvals, IpbApprovalPolicy policy)
{
    approvals->options.policy = policy;
    approvals->options.is_policy_default = false;
}

void
ipb_approvals_free(IpbApprovals *approvals)
{
    if (approvals == NULL)
        return;
    approvals->options.on_wait = NULL;
    approvals->options.on_withdrawn = NULL;
    approvals->options.ask = NULL;
    approvals->options.policy = IPB_APPROVAL_DENY;
    g_clear_pointer(&approvals->options.rules, ipb_approval_rules_unref);
    /* Requests that a function starts now are refused, and reported in the next round. */
    while (g_hash_table_size(approvals->requests) > 0) {
        GHashTableIter iter;
        void *value;
        g_hash_table_iter_init(&iter, approvals->requests);
        g_hash_table_iter_next(&iter, NULL, &value);
        Request *request = value;
        request->reason = NULL; /* the rules owned it */
        if (request->error == NULL) {
            request->error = make_cancelled(request);
            log_decision(request, IPB_DECIDED_BY_CANCEL);
        }
        on_decided(request);
    }
    g_hash_table_unref(approvals->requests);
    ipb_audit_log_free(approvals->options.audit_log);
    ipb_loop_unref(approvals->loop);
    g_free(approvals);
}
