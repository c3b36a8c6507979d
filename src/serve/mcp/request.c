/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of MCP clients; see the header.
 *
 * Invariant: an IpbMcpRequest is in the table of kept requests from the first time on that a client
 * got its name, until some time after its end.
 */
#include "serve/mcp/request.h"

#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "http/gate.h"
#include "mcp/messages.h"

/* A call that takes longer becomes a task, if the client knows tasks. */
#define TASK_DELAY_MS 5000
#define POLL_INTERVAL_MS 1000
/* How long the answer to a question may take, and how long a result is kept. */
#define MAX_PARKED_US (INT64_C(3600) * G_USEC_PER_SEC)
#define KEPT_US (INT64_C(600) * G_USEC_PER_SEC)
#define SWEEP_INTERVAL_MS 30000
/* Requests and bytes of results that are kept. */
#define MAX_KEPT 1000
#define MAX_KEPT_SIZE (8u * 1024 * 1024)
/* Connections that wait for the same request. */
#define MAX_WAITING 10
#define NAME_SIZE 32

/* Something that waits for the answer of a request: the client's request as it arrived. */
typedef struct {
    IpbMcpRequest *request;
    IpbMcpLink *link;
    IpbRpcRequest *rpc;
} Waiting;

typedef struct {
    IpbMcpRequest *request;
    uint64_t number;
    IpbMcpAnswerFunc func;
    void *data;
    /* Of a client with a handshake; NULL: 2026-07-28 */
    IpbMcpQuestions *questions;
    uint64_t asked;
    /* 2026-07-28: */
    char *key, *method, *params;
} Question;

struct IpbMcpRequest {
    int references;
    IpbLoop *loop;
    /* The first one that arrived has the parameters. */
    IpbRpcRequest *origin;
    bool is_modern;
    IpbMcpEnvelope envelope;
    char *token_json;
    /* Waiting */
    GPtrArray *waiting;
    /* Question */
    GPtrArray *questions;
    uint64_t last_question;
    unsigned round;
    /* Sends questions soon */
    IpbTimer *ask_timer;
    IpbTimer *task_timer;
    void (*cancel)(void *data);
    void *cancel_data;
    /* In the table; NULL: it has no name yet */
    IpbMcpKeptRequests *kept;
    char *name;
    bool is_task;
    bool is_cancelled;
    int64_t created_at, changed_at; /* µs of real time */
    /* µs of monotonic time: when it ended, or else when nothing waited any more, or the last
     * question was asked */
    int64_t left_at;
    bool has_ended;
    /* The end, if it is kept: exactly one is set */
    char *result;
    IpbMcpFault fault;
};

struct IpbMcpKeptRequests {
    IpbLoop *loop;
    /* Name → IpbMcpRequest, with a reference */
    GHashTable *requests;
    /* Those that have ended, the oldest first */
    GQueue ended;
    size_t size;
    IpbTimer *timer;
};

/* --- life ------------------------------------------------------------------------------------- */

static void
free_question(void *data)
{
    Question *question = data;
    g_free(question->key);
    g_free(question->method);
    g_free(question->params);
    g_free(question);
}

IpbMcpRequest *
ipb_mcp_request_ref(IpbMcpRequest *request)
{
    request->references++;
    return request;
}

static void forget_waiting(IpbMcpRequest *request);

void
ipb_mcp_request_unref(IpbMcpRequest *request)
{
    if (request == NULL)
        return;
    if (request->references == 1 && !request->has_ended) {
        request->cancel = NULL;
        ipb_mcp_request_fail(request, IPB_RPC_INTERNAL_ERROR, "the request was not answered", NULL);
    }
    if (--request->references > 0)
        return;
    forget_waiting(request);
    ipb_timer_free(request->ask_timer);
    ipb_timer_free(request->task_timer);
    g_ptr_array_unref(request->waiting);
    g_ptr_array_unref(request->questions);
    ipb_rpc_request_unref(request->origin);
    ipb_mcp_fault_clear(&request->fault);
    ipb_loop_unref(request->loop);
    g_free(request->token_json);
    g_free(request->result);
    g_free(request->name);
    g_free(request);
}

const char *
ipb_mcp_request_method(const IpbMcpRequest *request)
{
    return ipb_rpc_request_method(request->origin);
}

const IpbJson *
ipb_mcp_request_params(const IpbMcpRequest *request)
{
    return ipb_rpc_request_params(request->origin);
}

const IpbMcpEnvelope *
ipb_mcp_request_envelope(const IpbMcpRequest *request)
{
    return request->is_modern ? &request->envelope : NULL;
}

/* --- who waits -------------------------------------------------------------------------------- */

static Waiting *
newest_waiting(const IpbMcpRequest *request)
{
    return request->waiting->len > 0
               ? g_ptr_array_index(request->waiting, request->waiting->len - 1)
               : NULL;
}

static void
add_waiting(IpbMcpRequest *request, IpbMcpLink *link, IpbRpcRequest *rpc)
{
    Waiting *waiting = g_new0(Waiting, 1);
    *waiting = (Waiting){.request = request, .link = link, .rpc = ipb_rpc_request_ref(rpc)};
    g_ptr_array_add(request->waiting, waiting);
    g_ptr_array_add(link->waiting, waiting);
}

static void
free_waiting(Waiting *waiting)
{
    g_ptr_array_remove_fast(waiting->link->waiting, waiting);
    g_ptr_array_remove(waiting->request->waiting, waiting);
    ipb_rpc_request_unref(waiting->rpc);
    g_free(waiting);
}

static void
forget_waiting(IpbMcpRequest *request)
{
    while (request->waiting->len > 0)
        free_waiting(newest_waiting(request));
    if (!request->has_ended)
        request->left_at = g_get_monotonic_time();
}

/* Answers all that wait. */
static void
send_result(IpbMcpRequest *request, const char *result)
{
    for (guint i = 0; i < request->waiting->len; i++)
        ipb_rpc_request_reply(((Waiting *) g_ptr_array_index(request->waiting, i))->rpc, result,
                              strlen(result));
    forget_waiting(request);
}

static void
send_fault(IpbMcpRequest *request, int code, const char *message, const char *data)
{
    for (guint i = 0; i < request->waiting->len; i++)
        ipb_rpc_request_fail(((Waiting *) g_ptr_array_index(request->waiting, i))->rpc, code,
                             message, data);
    forget_waiting(request);
}

/* --- results of 2026-07-28 -------------------------------------------------------------------- */

/* Results that clients may keep: for how long, in ms. */
static const struct {
    const char *method;
    unsigned ttl_ms;
} CACHED[] = {
    {"server/discover", 60000},
    {"tools/list", 60000},
    {"prompts/list", 60000},
    {"resources/list", 0},
    {"resources/templates/list", 60000},
    {"resources/read", 0},
};

/* The result with what the revision requires. Caller frees. */
static char *
decorate(const IpbMcpRequest *request, const char *type, const char *result, const char *meta)
{
    const char *method = ipb_mcp_request_method(request);
    g_autoptr(GString) text = g_string_new("{");
    if (request->is_modern) {
        g_string_append_printf(text, "\"resultType\":\"%s\",", type);
        for (size_t i = 0; i < G_N_ELEMENTS(CACHED); i++)
            if (g_str_equal(type, "complete") && g_str_equal(method, CACHED[i].method))
                g_string_append_printf(text, "\"ttlMs\":%u,\"cacheScope\":\"private\",",
                                       CACHED[i].ttl_ms);
        g_string_append(text,
                        "\"_meta\":{\"" IPB_MCP_META_PREFIX
                        "serverInfo\":{\"name\":\"ipybox\",\"version\":\"" IPYBOX_VERSION "\"}");
        if (meta != NULL)
            g_string_append_printf(text, ",%s", meta);
        g_string_append_c(text, '}');
    } else if (meta != NULL) {
        g_string_append_printf(text, "\"_meta\":{%s}", meta);
    }
    bool has_members = strcspn(result + 1, " }") > 0;
    if (has_members && text->len > 1)
        g_string_append_c(text, ',');
    g_string_append(text, result + 1);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* --- requests that are kept ------------------------------------------------------------------- */

static void sweep(IpbMcpKeptRequests *kept);

static void
on_sweep_timer(void *data)
{
    IpbMcpKeptRequests *kept = data;
    g_clear_pointer(&kept->timer, ipb_timer_free);
    sweep(kept);
}

static void
schedule_sweep(IpbMcpKeptRequests *kept)
{
    if (kept->timer == NULL && g_hash_table_size(kept->requests) > 0)
        kept->timer = ipb_timer_new(kept->loop, SWEEP_INTERVAL_MS, on_sweep_timer, kept);
}

IpbMcpKeptRequests *
ipb_mcp_kept_requests_new(IpbLoop *loop)
{
    IpbMcpKeptRequests *kept = g_new0(IpbMcpKeptRequests, 1);
    kept->loop = ipb_loop_ref(loop);
    kept->requests = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, NULL);
    g_queue_init(&kept->ended);
    return kept;
}

static size_t
kept_size(const IpbMcpRequest *request)
{
    return (request->result != NULL ? strlen(request->result) : 0) + sizeof *request;
}

static void
forget(IpbMcpKeptRequests *kept, IpbMcpRequest *request)
{
    if (request->has_ended && g_queue_remove(&kept->ended, request))
        kept->size -= kept_size(request);
    g_hash_table_remove(kept->requests, request->name);
    request->kept = NULL;
    ipb_mcp_request_unref(request);
}

static void
forget_oldest(IpbMcpKeptRequests *kept)
{
    forget(kept, g_queue_peek_head(&kept->ended));
}

/* Gives the request a name that its client can continue it by; false: too many are kept. */
static bool
keep(IpbMcpRequest *request, IpbMcpKeptRequests *kept)
{
    if (request->kept != NULL)
        return true;
    if (g_hash_table_size(kept->requests) >= MAX_KEPT && !g_queue_is_empty(&kept->ended))
        forget_oldest(kept);
    g_autofree char *token = ipb_http_gate_make_token(NULL);
    if (token == NULL || g_hash_table_size(kept->requests) >= MAX_KEPT)
        return false;
    request->name = g_strndup(token, NAME_SIZE);
    request->kept = kept;
    g_hash_table_insert(kept->requests, request->name, ipb_mcp_request_ref(request));
    schedule_sweep(kept);
    return true;
}

static void
trim(IpbMcpKeptRequests *kept)
{
    while (kept->size > MAX_KEPT_SIZE)
        forget_oldest(kept);
}

/* A function may withdraw other questions. */
static void
fail_questions(IpbMcpRequest *request, const char *why)
{
    for (guint n = request->questions->len; n > 0 && request->questions->len > 0; n--) {
        Question *question = g_ptr_array_steal_index(request->questions, 0);
        question->func(NULL, why, question->data);
        free_question(question);
    }
}

static void
sweep(IpbMcpKeptRequests *kept)
{
    int64_t now = g_get_monotonic_time();
    IpbMcpRequest *oldest;
    while ((oldest = g_queue_peek_head(&kept->ended)) != NULL && now - oldest->left_at > KEPT_US)
        forget(kept, oldest);
    g_autoptr(GList) requests = g_hash_table_get_values(kept->requests);
    for (GList *link = requests; link != NULL; link = link->next) {
        IpbMcpRequest *request = link->data;
        if (request->has_ended || request->waiting->len > 0 || request->questions->len == 0 ||
            now - request->left_at <= MAX_PARKED_US)
            continue;
        g_autoptr(IpbMcpRequest) held = ipb_mcp_request_ref(request);
        fail_questions(held, "the client did not come back with an answer");
    }
    schedule_sweep(kept);
}

void
ipb_mcp_kept_requests_free(IpbMcpKeptRequests *kept)
{
    if (kept == NULL)
        return;
    g_autoptr(GList) requests = g_hash_table_get_values(kept->requests);
    for (GList *link = requests; link != NULL; link = link->next) {
        IpbMcpRequest *request = link->data;
        fail_questions(request, "the server is ending");
        forget(kept, request);
    }
    g_hash_table_unref(kept->requests);
    ipb_timer_free(kept->timer);
    ipb_loop_unref(kept->loop);
    g_free(kept);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* @result is decorated; NULL: @fault. Takes both. */
static void
end(IpbMcpRequest *request, char *result, IpbMcpFault *fault)
{
    g_autoptr(IpbMcpRequest) held = ipb_mcp_request_ref(request);
    request->has_ended = true;
    request->changed_at = g_get_real_time();
    request->cancel = NULL;
    g_clear_pointer(&request->task_timer, ipb_timer_free);
    g_clear_pointer(&request->ask_timer, ipb_timer_free);
    if (result != NULL)
        send_result(request, result);
    else
        send_fault(request, fault->code, fault->message, fault->data);
    if (request->kept == NULL) {
        g_free(result);
        if (fault != NULL)
            ipb_mcp_fault_clear(fault);
        return;
    }
    request->result = result;
    if (fault != NULL)
        request->fault = *fault;
    request->left_at = g_get_monotonic_time();
    g_queue_push_tail(&request->kept->ended, request);
    request->kept->size += kept_size(request);
    trim(request->kept);
}

void
ipb_mcp_request_reply(IpbMcpRequest *request, const char *result, const char *meta)
{
    if (!request->has_ended)
        end(request, decorate(request, "complete", result, meta), NULL);
}

void
ipb_mcp_request_fail(IpbMcpRequest *request, int code, const char *message, const char *data)
{
    if (request->has_ended)
        return;
    IpbMcpFault fault = {.code = code, .message = g_strdup(message), .data = g_strdup(data)};
    end(request, NULL, &fault);
}

void
ipb_mcp_request_set_cancel(IpbMcpRequest *request, void (*func)(void *data), void *data)
{
    request->cancel = func;
    request->cancel_data = data;
}

static void
cancel(IpbMcpRequest *request)
{
    void (*func)(void *data) = request->cancel;
    request->cancel = NULL;
    request->is_cancelled = true;
    request->changed_at = g_get_real_time();
    if (func != NULL)
        func(request->cancel_data);
}

/* --- progress --------------------------------------------------------------------------------- */

bool
ipb_mcp_request_wants_progress(const IpbMcpRequest *request)
{
    return request->token_json != NULL;
}

static void
write_number(IpbJsonWriter *writer, const char *name, double value)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    ipb_json_key(writer, name);
    g_ascii_formatd(text, sizeof text, "%.15g", value);
    ipb_json_write_raw(writer, text, strlen(text));
}

void
ipb_mcp_request_progress(IpbMcpRequest *request, double progress, double total, const char *message,
                         const char *meta)
{
    const Waiting *waiting = newest_waiting(request);
    if (waiting == NULL || request->token_json == NULL ||
        ipb_conversation_is_congested(waiting->link->conversation))
        return; /* the response will have all of it */
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "progressToken");
    ipb_json_write_raw(writer, request->token_json, strlen(request->token_json));
    write_number(writer, "progress", progress);
    if (total >= 0)
        write_number(writer, "total", total);
    if (message != NULL)
        ipb_json_member_string(writer, "message", message);
    if (meta != NULL) {
        g_autofree char *object = g_strdup_printf("{%s}", meta);
        ipb_json_key(writer, "_meta");
        ipb_json_write_raw(writer, object, strlen(object));
    }
    ipb_json_end_object(writer);
    g_autofree char *params = ipb_json_writer_finish(writer, NULL);
    ipb_mcp_request_notify(request, "notifications/progress", params);
}

void
ipb_mcp_request_notify(IpbMcpRequest *request, const char *method, const char *params)
{
    const Waiting *waiting = newest_waiting(request);
    if (waiting != NULL)
        ipb_rpc_peer_notify_within(waiting->link->peer, ipb_rpc_request_id(waiting->rpc), method,
                                   params);
}

/* --- questions -------------------------------------------------------------------------------- */

bool
ipb_mcp_request_offers_forms(const IpbMcpRequest *request)
{
    const Waiting *waiting = newest_waiting(request);
    if (request->is_modern)
        return ipb_mcp_envelope_offers_forms(request->envelope.capabilities);
    return waiting != NULL && waiting->link->offers_forms;
}

static Question *
find_question(const IpbMcpRequest *request, uint64_t number, guint *ret_index)
{
    for (guint i = 0; i < request->questions->len; i++) {
        Question *question = g_ptr_array_index(request->questions, i);
        *ret_index = i;
        if (question->number == number)
            return question;
    }
    return NULL;
}

/* Of a client with a handshake. The question has a reference to the request. */
static void
on_answer(const IpbJson *result, const char *failure, void *data)
{
    Question *question = data;
    g_autoptr(IpbMcpRequest) request = question->request;
    IpbMcpAnswerFunc func = question->func;
    void *func_data = question->data;
    g_ptr_array_remove(request->questions, question); /* frees it */
    func(result, failure, func_data);
}

/* The questions as "inputRequests". */
static void
write_questions(const IpbMcpRequest *request, IpbJsonWriter *writer)
{
    ipb_json_key(writer, "inputRequests");
    ipb_json_begin_object(writer);
    for (guint i = 0; i < request->questions->len; i++) {
        const Question *question = g_ptr_array_index(request->questions, i);
        ipb_json_key(writer, question->key);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "method", question->method);
        ipb_json_key(writer, "params");
        ipb_json_write_raw(writer, question->params, strlen(question->params));
        ipb_json_end_object(writer);
    }
    ipb_json_end_object(writer);
}

static void
send_questions(IpbMcpRequest *request)
{
    const Waiting *waiting = newest_waiting(request);
    if (waiting == NULL || request->questions->len == 0)
        return; /* the client asks for the state of the task, or comes again */
    if (!keep(request, waiting->link->kept)) {
        fail_questions(request, "too many calls of this client wait for an answer");
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_questions(request, writer);
    g_autofree char *state = g_strdup_printf("%s.%u", request->name, ++request->round);
    ipb_json_member_string(writer, "requestState", state);
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    g_autofree char *result = decorate(request, "input_required", text, NULL);
    send_result(request, result);
}

static void take_answers(IpbMcpRequest *request, const IpbJson *responses);

/* Soon: several questions go together, and answers that came with the request count. */
static void
on_ask_timer(void *data)
{
    g_autoptr(IpbMcpRequest) request = ipb_mcp_request_ref(data);
    g_clear_pointer(&request->ask_timer, ipb_timer_free);
    if (request->round == 0)
        take_answers(request, ipb_json_get(ipb_mcp_request_params(request), "inputResponses"));
    if (!request->has_ended && request->ask_timer == NULL)
        send_questions(request);
}

static void
ask_soon(IpbMcpRequest *request)
{
    if (request->ask_timer == NULL)
        request->ask_timer = ipb_timer_new(request->loop, 0, on_ask_timer, request);
}

uint64_t
ipb_mcp_request_ask(IpbMcpRequest *request, const char *key, const char *method, const char *params,
                    IpbMcpAnswerFunc func, void *data)
{
    const Waiting *waiting = newest_waiting(request);
    if (request->has_ended || request->is_cancelled ||
        (waiting == NULL && (!request->is_modern || request->kept == NULL)))
        return 0;
    Question *question = g_new0(Question, 1);
    *question = (Question){
        .request = request,
        .number = ++request->last_question,
        .func = func,
        .data = data,
    };
    g_ptr_array_add(request->questions, question);
    if (!request->is_modern) {
        ipb_mcp_request_ref(request);
        question->questions = waiting->link->questions;
        question->asked =
            ipb_mcp_questions_ask(waiting->link->questions, ipb_rpc_request_id(waiting->rpc),
                                  method, params, on_answer, question);
        return request->last_question;
    }
    question->key = key != NULL ? g_strdup(key)
                                : g_strdup_printf("question-%" G_GUINT64_FORMAT, question->number);
    question->method = g_strdup(method);
    question->params = g_strdup(params);
    request->changed_at = g_get_real_time();
    request->left_at = g_get_monotonic_time();
    ask_soon(request);
    return request->last_question;
}

void
ipb_mcp_request_withdraw(IpbMcpRequest *request, uint64_t number)
{
    guint index;
    Question *question = find_question(request, number, &index);
    if (question == NULL)
        return;
    bool is_legacy = question->questions != NULL;
    if (is_legacy)
        ipb_mcp_questions_withdraw(question->questions, question->asked);
    g_ptr_array_remove_index(request->questions, index);
    if (is_legacy)
        ipb_mcp_request_unref(request);
}

/* Ends the questions that have an answer in @responses. Others are ignored. */
static void
take_answers(IpbMcpRequest *request, const IpbJson *responses)
{
    for (guint i = 0; i < request->questions->len;) {
        Question *question = g_ptr_array_index(request->questions, i);
        const IpbJson *answer = ipb_json_get(responses, question->key);
        if (!ipb_json_is(answer, IPB_JSON_OBJECT)) {
            i++;
            continue;
        }
        IpbMcpAnswerFunc func = question->func;
        void *data = question->data;
        request->changed_at = g_get_real_time();
        g_ptr_array_remove_index(request->questions, i);
        func(answer, NULL, data);
        i = 0; /* the function may have changed the list */
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

static void
write_time(IpbJsonWriter *writer, const char *name, int64_t time_us)
{
    g_autoptr(GDateTime) date = g_date_time_new_from_unix_utc(time_us / G_USEC_PER_SEC);
    g_autofree char *text = g_date_time_format(date, "%Y-%m-%dT%H:%M:%SZ");
    ipb_json_member_string(writer, name, text);
}

static const char *
task_status(const IpbMcpRequest *request)
{
    if (request->is_cancelled)
        return "cancelled";
    if (request->has_ended)
        return request->result != NULL ? "completed" : "failed";
    return request->questions->len > 0 ? "input_required" : "working";
}

static void
write_task(const IpbMcpRequest *request, IpbJsonWriter *writer)
{
    ipb_json_member_string(writer, "taskId", request->name);
    ipb_json_member_string(writer, "status", task_status(request));
    write_time(writer, "createdAt", request->created_at);
    write_time(writer, "lastUpdatedAt", request->changed_at);
    ipb_json_key(writer, "ttlMs");
    if (request->has_ended)
        ipb_json_write_int(writer, (request->changed_at - request->created_at + KEPT_US) / 1000);
    else
        ipb_json_write_null(writer);
    ipb_json_member_int(writer, "pollIntervalMs", POLL_INTERVAL_MS);
}

void
ipb_mcp_request_become_task(IpbMcpRequest *request)
{
    const Waiting *waiting = newest_waiting(request);
    g_clear_pointer(&request->task_timer, ipb_timer_free);
    if (!request->is_modern || request->has_ended || waiting == NULL ||
        !ipb_mcp_envelope_offers_tasks(request->envelope.capabilities) ||
        !keep(request, waiting->link->kept))
        return;
    request->is_task = true;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_task(request, writer);
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    g_autofree char *result = decorate(request, "task", text, NULL);
    send_result(request, result);
}

static void
on_task_timer(void *data)
{
    ipb_mcp_request_become_task(data);
}

static char *
describe_task(const IpbMcpRequest *task)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_task(task, writer);
    if (g_str_equal(task_status(task), "input_required"))
        write_questions(task, writer);
    if (task->has_ended && !task->is_cancelled && task->result != NULL) {
        ipb_json_key(writer, "result");
        ipb_json_write_raw(writer, task->result, strlen(task->result));
    } else if (task->has_ended && !task->is_cancelled) {
        ipb_json_key(writer, "error");
        ipb_json_begin_object(writer);
        ipb_json_member_int(writer, "code", task->fault.code);
        ipb_json_member_string(writer, "message", task->fault.message);
        ipb_json_end_object(writer);
    }
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

void
ipb_mcp_link_handle_task(IpbMcpLink *link, IpbMcpRequest *request)
{
    const IpbJson *params = ipb_mcp_request_params(request);
    const IpbJson *responses = ipb_json_get(params, "inputResponses");
    const char *method = ipb_mcp_request_method(request);
    const char *name = ipb_json_get_string(params, "taskId");
    if (!ipb_mcp_envelope_offers_tasks(request->envelope.capabilities)) {
        ipb_mcp_request_fail(request, IPB_MCP_MISSING_CAPABILITY,
                             "the client must declare the extension " IPB_MCP_TASKS_EXTENSION,
                             "{\"requiredCapabilities\":{\"extensions\":{\"" IPB_MCP_TASKS_EXTENSION
                             "\":{}}}}");
        return;
    }
    IpbMcpRequest *task = name != NULL ? g_hash_table_lookup(link->kept->requests, name) : NULL;
    if (task == NULL || !task->is_task) {
        ipb_mcp_request_fail(request, IPB_RPC_INVALID_PARAMS,
                             "there is no task with this params.taskId: results are kept for ten "
                             "minutes",
                             NULL);
        return;
    }
    if (g_str_equal(method, "tasks/get")) {
        g_autofree char *result = describe_task(task);
        ipb_mcp_request_reply(request, result, NULL);
        return;
    }
    g_autoptr(IpbMcpRequest) held = ipb_mcp_request_ref(task);
    if (g_str_equal(method, "tasks/cancel") && !task->has_ended && !task->is_cancelled)
        cancel(task);
    else if (g_str_equal(method, "tasks/update"))
        take_answers(task, responses);
    ipb_mcp_request_reply(request, "{}", NULL);
}

/* --- the server ------------------------------------------------------------------------------- */

void
ipb_mcp_link_init(IpbMcpLink *link, IpbLoop *loop, IpbConversation *conversation,
                  IpbMcpKeptRequests *kept)
{
    IpbRpcPeer *peer = ipb_conversation_peer(conversation);
    *link = (IpbMcpLink){
        .loop = loop,
        .conversation = conversation,
        .peer = peer,
        .questions = ipb_mcp_questions_new(peer),
        .kept = kept,
        .waiting = g_ptr_array_new(),
    };
}

void
ipb_mcp_link_clear(IpbMcpLink *link)
{
    while (link->waiting->len > 0) {
        Waiting *waiting = g_ptr_array_index(link->waiting, link->waiting->len - 1);
        g_autoptr(IpbMcpRequest) request = ipb_mcp_request_ref(waiting->request);
        free_waiting(waiting);
        if (request->is_modern && request->waiting->len == 0)
            cancel(request); /* its stream was closed */
    }
    g_clear_pointer(&link->questions, ipb_mcp_questions_free);
    g_clear_pointer(&link->waiting, g_ptr_array_unref);
}

void
ipb_mcp_link_cancel(IpbMcpLink *link, const char *id)
{
    for (guint i = 0; i < link->waiting->len; i++) {
        Waiting *waiting = g_ptr_array_index(link->waiting, i);
        if (!g_str_equal(ipb_rpc_request_id(waiting->rpc), id))
            continue;
        g_autoptr(IpbMcpRequest) request = ipb_mcp_request_ref(waiting->request);
        ipb_rpc_request_drop(waiting->rpc);
        free_waiting(waiting);
        if (request->waiting->len == 0)
            cancel(request);
        return;
    }
}

static bool
is_same(const IpbJson *a, const IpbJson *b)
{
    IpbSpan first = ipb_json_raw(a), second = ipb_json_raw(b);
    return first.size == second.size &&
           (first.size == 0 || memcmp(first.start, second.start, first.size) == 0);
}

/* Is @rpc the request again, with answers? */
static bool
repeats(const IpbMcpRequest *request, const IpbRpcRequest *rpc)
{
    static const char *const SALIENT[] = {"name", "arguments", "uri"};
    const IpbJson *was = ipb_mcp_request_params(request);
    const IpbJson *is = ipb_rpc_request_params(rpc);
    for (size_t i = 0; i < G_N_ELEMENTS(SALIENT); i++)
        if (!is_same(ipb_json_get(was, SALIENT[i]), ipb_json_get(is, SALIENT[i])))
            return false;
    return g_str_equal(ipb_mcp_request_method(request), ipb_rpc_request_method(rpc));
}

/* "NAME.ROUND" */
static IpbMcpRequest *
find_kept(const IpbMcpKeptRequests *kept, const char *state)
{
    guint64 round;
    g_autofree char *name = g_strndup(state, NAME_SIZE);
    if (strlen(state) < NAME_SIZE + 2 || state[NAME_SIZE] != '.' ||
        !g_ascii_string_to_unsigned(state + NAME_SIZE + 1, 10, 1, G_MAXUINT, &round, NULL))
        return NULL;
    IpbMcpRequest *request = g_hash_table_lookup(kept->requests, name);
    return request != NULL && round <= request->round ? request : NULL;
}

static IpbMcpRequest *
refuse(IpbMcpFault *fault, const char *message)
{
    *fault = (IpbMcpFault){.code = IPB_RPC_INVALID_PARAMS, .message = g_strdup(message)};
    return NULL;
}

/* It continues with the answers in @rpc, or has ended. */
static IpbMcpRequest *
resume(IpbMcpLink *link, IpbRpcRequest *rpc, const IpbJson *state, IpbMcpFault *fault)
{
    const IpbJson *responses = ipb_json_get(ipb_rpc_request_params(rpc), "inputResponses");
    const char *text = ipb_json_string(state, NULL);
    IpbMcpRequest *request = text != NULL ? find_kept(link->kept, text) : NULL;
    if (request == NULL)
        return refuse(fault, "params.requestState is not known here, or has expired");
    if (!repeats(request, rpc))
        return refuse(fault, "params.requestState belongs to another request: send that request "
                             "again, with the same arguments");
    if (responses != NULL && !ipb_json_is(responses, IPB_JSON_OBJECT))
        return refuse(fault, "params.inputResponses must be an object");
    if (request->waiting->len >= MAX_WAITING)
        return refuse(fault, "this request was sent again too often");
    ipb_mcp_request_ref(request);
    add_waiting(request, link, rpc);
    if (request->has_ended) {
        if (request->result != NULL)
            send_result(request, request->result);
        else
            send_fault(request, request->fault.code, request->fault.message, request->fault.data);
        return request;
    }
    take_answers(request, responses);
    if (!request->has_ended && request->questions->len > 0)
        ask_soon(request);
    return request;
}

IpbMcpRequest *
ipb_mcp_request_begin(IpbMcpLink *link, IpbRpcRequest *rpc, const IpbMcpEnvelope *envelope,
                      bool *ret_continues, IpbMcpFault *fault)
{
    const IpbJson *params = ipb_rpc_request_params(rpc);
    const IpbJson *state = ipb_json_get(params, "requestState");
    const IpbJson *responses = ipb_json_get(params, "inputResponses");
    const IpbJson *token = ipb_json_get(ipb_json_get(params, "_meta"), "progressToken");
    *ret_continues = envelope != NULL && state != NULL;
    if (*ret_continues)
        return resume(link, rpc, state, fault);
    if (envelope != NULL && responses != NULL && !ipb_json_is(responses, IPB_JSON_OBJECT))
        return refuse(fault, "params.inputResponses must be an object");
    IpbMcpRequest *request = g_new0(IpbMcpRequest, 1);
    request->references = 1;
    request->loop = ipb_loop_ref(link->loop);
    request->origin = ipb_rpc_request_ref(rpc);
    request->is_modern = envelope != NULL;
    request->waiting = g_ptr_array_new();
    request->questions = g_ptr_array_new_with_free_func(free_question);
    request->created_at = request->changed_at = g_get_real_time();
    if (ipb_json_is(token, IPB_JSON_STRING) || ipb_json_is(token, IPB_JSON_NUMBER)) {
        IpbSpan raw = ipb_json_raw(token);
        request->token_json = g_strndup(raw.start, raw.size);
    }
    add_waiting(request, link, rpc);
    if (envelope != NULL) {
        request->envelope = *envelope;
        if (ipb_mcp_envelope_offers_tasks(envelope->capabilities) &&
            g_str_equal(ipb_rpc_request_method(rpc), "tools/call"))
            request->task_timer = ipb_timer_new(link->loop, TASK_DELAY_MS, on_task_timer, request);
    }
    return request;
}
