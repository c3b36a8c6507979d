/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter of fixtures.json; see the header.
 */
#include "fixtures.h"

#include <string.h>

#include "json/writer.h"
#include "mcp/messages.h"

#define MAX_WAIT_MS 60000

struct Fixtures {
    IpbLoop *loop;
    IpbJsonDoc *doc;
    /* Run */
    GPtrArray *runs;
    char *capabilities;
    IpbMcpExtension extension;
};

/* A call of a fixture. */
typedef struct {
    Fixtures *fixtures;
    IpbMcpRequest *request;
    const IpbJson *fixture;
    /* The next one; NULL: the result */
    const IpbJson *step;
    IpbTimer *timer;
    /* Name → text */
    GHashTable *values;
    /* Question */
    GPtrArray *questions;
} Run;

typedef struct {
    Run *run;
    const char *key;
    uint64_t number;
} Question;

/* --- texts ------------------------------------------------------------------------------------ */

static char *
to_text(const IpbJson *value)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_write_value(writer, value);
    return ipb_json_writer_finish(writer, NULL);
}

static void
set_value(Run *run, const char *name, const IpbJson *value)
{
    const char *text = ipb_json_string(value, NULL);
    g_hash_table_insert(run->values, g_strdup(name),
                        text != NULL ? g_strdup(text) : to_text(value));
}

static void
append_value(const Run *run, const char *name, GString *text)
{
    const IpbJson *texts = ipb_json_get(ipb_json_root(run->fixtures->doc), "texts");
    const char *value = g_hash_table_lookup(run->values, name);
    IpbJsonWriter *writer = ipb_json_writer_new();
    size_t size;
    ipb_json_write_string(writer, value != NULL ? value : ipb_json_get_string(texts, name));
    g_autofree char *quoted = ipb_json_writer_finish(writer, &size);
    if (*quoted == '"')
        g_string_append_len(text, quoted + 1, (gssize) size - 2);
}

/* The value as JSON text, with the values of names. Caller frees. */
static char *
expand(const Run *run, const IpbJson *value)
{
    g_autofree char *template = to_text(value);
    g_autoptr(GString) text = g_string_new(NULL);
    const char *at = template;
    for (const char *start, *end;
         (start = strstr(at, "{{")) != NULL && (end = strstr(start, "}}")) != NULL; at = end + 2) {
        g_autofree char *name = g_strndup(start + 2, (size_t) (end - start - 2));
        g_string_append_len(text, at, start - at);
        append_value(run, name, text);
    }
    g_string_append(text, at);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* --- the end of a call ------------------------------------------------------------------------ */

static void
free_run(void *data)
{
    Run *run = data;
    ipb_mcp_request_set_cancel(run->request, NULL, NULL);
    for (guint i = 0; i < run->questions->len; i++)
        ipb_mcp_request_withdraw(run->request,
                                 ((Question *) g_ptr_array_index(run->questions, i))->number);
    ipb_mcp_request_unref(run->request);
    ipb_timer_free(run->timer);
    g_hash_table_unref(run->values);
    g_ptr_array_unref(run->questions);
    g_free(run);
}

static void
end_run(Run *run)
{
    g_ptr_array_remove_fast(run->fixtures->runs, run);
}

static void
on_cancel(void *data)
{
    end_run(data);
}

static void
reply(Run *run)
{
    const IpbJson *error = ipb_json_get(run->fixture, "error");
    int64_t code = IPB_RPC_INTERNAL_ERROR;
    if (error != NULL) {
        ipb_json_get_int64(error, "code", &code);
        ipb_mcp_request_fail(run->request, (int) code, ipb_json_get_string(error, "message"), NULL);
    } else {
        g_autofree char *result = expand(run, ipb_json_get(run->fixture, "result"));
        ipb_mcp_request_reply(run->request, result, NULL);
    }
    end_run(run);
}

static void
fail_run(Run *run, int code, const char *message, const char *data)
{
    ipb_mcp_request_fail(run->request, code, message, data);
    end_run(run);
}

/* --- steps ------------------------------------------------------------------------------------ */

static void advance(Run *run);

/* Does the client have all capabilities of @needed? One with a handshake is not asked. */
static bool
has_all(const IpbJson *capabilities, const IpbJson *needed)
{
    IPB_JSON_FOREACH (member, needed) {
        const IpbJson *offer = ipb_json_get(capabilities, ipb_json_name(member, NULL));
        if (offer == NULL || !has_all(offer, member))
            return false;
    }
    return true;
}

/* The capability is the first part of the method's name. */
static bool
can_ask(const Run *run, const char *method)
{
    const IpbMcpEnvelope *envelope = ipb_mcp_request_envelope(run->request);
    g_autofree char *name = g_strndup(method, strcspn(method, "/"));
    return envelope == NULL || ipb_json_get(envelope->capabilities, name) != NULL;
}

static void
on_timer(void *data)
{
    Run *run = data;
    g_clear_pointer(&run->timer, ipb_timer_free);
    advance(run);
}

static void
wait_for(Run *run, const IpbJson *value)
{
    const char *argument = ipb_json_string(value, NULL);
    const IpbJson *arguments = ipb_json_get(ipb_mcp_request_params(run->request), "arguments");
    int64_t amount = 0;
    if (argument != NULL && ipb_json_get_int64(arguments, argument, &amount))
        amount = CLAMP(amount, 0, MAX_WAIT_MS / 1000) * 1000;
    else if (argument == NULL)
        ipb_json_int64(value, &amount);
    run->timer =
        ipb_timer_new(run->fixtures->loop, (unsigned) CLAMP(amount, 0, MAX_WAIT_MS), on_timer, run);
}

static void
on_answer(const IpbJson *result, const char *failure, void *data)
{
    Question *question = data;
    Run *run = question->run;
    const char *key = question->key;
    g_ptr_array_remove(run->questions, question); /* frees it */
    if (result == NULL) {
        fail_run(run, IPB_RPC_INTERNAL_ERROR, failure, NULL);
        return;
    }
    set_value(run, key, result);
    if (run->questions->len == 0)
        advance(run);
}

static void
ask(Run *run, const IpbJson *questions)
{
    IPB_JSON_FOREACH (item, questions) {
        const char *method = ipb_json_get_string(item, "method");
        if (!can_ask(run, method))
            continue;
        g_autofree char *params = expand(run, ipb_json_get(item, "params"));
        Question *question = g_new0(Question, 1);
        *question = (Question){.run = run, .key = ipb_json_name(item, NULL)};
        g_ptr_array_add(run->questions, question);
        question->number =
            ipb_mcp_request_ask(run->request, question->key, method, params, on_answer, question);
        if (question->number == 0)
            g_ptr_array_remove(run->questions, question); /* the client is gone */
    }
}

static void
log_text(const Run *run, const IpbJson *text)
{
    const IpbMcpEnvelope *envelope = ipb_mcp_request_envelope(run->request);
    if (envelope != NULL && envelope->log_level == NULL)
        return;
    g_autofree char *quoted = expand(run, text);
    g_autofree char *params = g_strdup_printf("{\"level\":\"info\",\"data\":%s}", quoted);
    ipb_mcp_request_notify(run->request, "notifications/message", params);
}

static void
refuse(Run *run, const IpbJson *needed)
{
    g_autofree char *text = to_text(needed);
    g_autofree char *data = g_strdup_printf("{\"requiredCapabilities\":%s}", text);
    fail_run(run, IPB_MCP_MISSING_CAPABILITY, "the client lacks a capability", data);
}

/* False: the call waits, or has ended. */
static bool
perform(Run *run, const IpbJson *step)
{
    const IpbMcpEnvelope *envelope = ipb_mcp_request_envelope(run->request);
    const IpbJson *value = ipb_json_first(step);
    const char *name = ipb_json_name(value, NULL);
    double progress = 0;
    if (g_str_equal(name, "needs") && envelope != NULL && !has_all(envelope->capabilities, value)) {
        refuse(run, value);
        return false;
    }
    if (g_str_equal(name, "task"))
        ipb_mcp_request_become_task(run->request);
    else if (g_str_equal(name, "log"))
        log_text(run, value);
    else if (g_str_equal(name, "progress") && ipb_json_double(value, &progress))
        ipb_mcp_request_progress(run->request, progress, 100, NULL, NULL);
    else if (g_str_equal(name, "wait"))
        wait_for(run, value);
    else if (g_str_equal(name, "ask"))
        ask(run, value);
    return run->timer == NULL && run->questions->len == 0;
}

static void
advance(Run *run)
{
    while (run->step != NULL) {
        const IpbJson *step = run->step;
        run->step = ipb_json_next(step);
        if (!perform(run, step))
            return;
    }
    reply(run);
}

/* --- requests --------------------------------------------------------------------------------- */

static const struct {
    const char *list_method, *call_method;
    /* Of the list, and of the fixtures */
    const char *kind;
    /* The member that names a fixture */
    const char *key;
} KINDS[] = {
    {"tools/list", "tools/call", "tools", "name"},
    {"prompts/list", "prompts/get", "prompts", "name"},
    {"resources/list", "resources/read", "resources", "uri"},
    {"resources/templates/list", "resources/read", "resourceTemplates", "uriTemplate"},
};

static void
list(const Fixtures *fixtures, const char *kind, IpbMcpRequest *request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, kind);
    ipb_json_begin_array(writer);
    IPB_JSON_FOREACH (fixture, ipb_json_get(ipb_json_root(fixtures->doc), kind))
        ipb_json_write_value(writer, ipb_json_get(fixture, "is"));
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    g_autofree char *result = ipb_json_writer_finish(writer, NULL);
    ipb_mcp_request_reply(request, result, NULL);
}

/* Is @text @pattern, which may have one "{name}"? Then that and its value are put into @values. */
static bool
matches(const char *pattern, const char *text, GHashTable *values)
{
    const char *start = strchr(pattern, '{');
    const char *end = start != NULL ? strchr(start, '}') : NULL;
    if (end == NULL)
        return g_str_equal(pattern, text);
    size_t before = (size_t) (start - pattern), after = strlen(end + 1), size = strlen(text);
    if (size <= before + after || strncmp(pattern, text, before) != 0 ||
        !g_str_has_suffix(text, end + 1))
        return false;
    g_hash_table_insert(values, g_strndup(start + 1, (size_t) (end - start - 1)),
                        g_strndup(text + before, size - before - after));
    return true;
}

static void
start(Fixtures *fixtures, const IpbJson *fixture, IpbMcpRequest *request, GHashTable *values)
{
    Run *run = g_new0(Run, 1);
    *run = (Run){
        .fixtures = fixtures,
        .request = ipb_mcp_request_ref(request),
        .fixture = fixture,
        .step = ipb_json_first(ipb_json_get(fixture, "steps")),
        .values = g_hash_table_ref(values),
        .questions = g_ptr_array_new_with_free_func(g_free),
    };
    g_ptr_array_add(fixtures->runs, run);
    ipb_mcp_request_set_cancel(request, on_cancel, run);
    IPB_JSON_FOREACH (argument, ipb_json_get(ipb_mcp_request_params(request), "arguments"))
        set_value(run, ipb_json_name(argument, NULL), argument);
    advance(run);
}

/* False: there is no such fixture. */
static bool
call(Fixtures *fixtures, const char *kind, const char *key, IpbMcpRequest *request)
{
    const IpbJson *params = ipb_mcp_request_params(request);
    const char *name = ipb_json_get_string(params, "name");
    const char *named = name != NULL ? name : ipb_json_get_string(params, "uri");
    g_autoptr(GHashTable) values = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    IPB_JSON_FOREACH (fixture, ipb_json_get(ipb_json_root(fixtures->doc), kind))
        if (named != NULL &&
            matches(ipb_json_get_string(ipb_json_get(fixture, "is"), key), named, values)) {
            start(fixtures, fixture, request, values);
            return true;
        }
    return false;
}

static bool
handle(IpbMcpRequest *request, void *data)
{
    Fixtures *fixtures = data;
    const char *method = ipb_mcp_request_method(request);
    const IpbJson *result =
        ipb_json_get(ipb_json_get(ipb_json_root(fixtures->doc), "results"), method);
    if (result != NULL) {
        g_autofree char *text = to_text(result);
        ipb_mcp_request_reply(request, text, NULL);
        return true;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(KINDS); i++) {
        if (g_str_equal(method, KINDS[i].list_method)) {
            list(fixtures, KINDS[i].kind, request);
            return true;
        }
        if (g_str_equal(method, KINDS[i].call_method) &&
            call(fixtures, KINDS[i].kind, KINDS[i].key, request))
            return true;
    }
    return false;
}

/* --- life ------------------------------------------------------------------------------------- */

Fixtures *
fixtures_load(IpbLoop *loop, const char *path, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!g_file_get_contents(path, &text, &size, error))
        return NULL;
    IpbJsonDoc *doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
    if (doc == NULL)
        return NULL;
    Fixtures *fixtures = g_new0(Fixtures, 1);
    fixtures->loop = ipb_loop_ref(loop);
    fixtures->doc = doc;
    fixtures->runs = g_ptr_array_new_with_free_func(free_run);
    fixtures->capabilities = to_text(ipb_json_get(ipb_json_root(doc), "capabilities"));
    fixtures->extension = (IpbMcpExtension){
        .capabilities = fixtures->capabilities,
        .handle = handle,
        .data = fixtures,
    };
    return fixtures;
}

const IpbMcpExtension *
fixtures_extension(const Fixtures *fixtures)
{
    return &fixtures->extension;
}

void
fixtures_free(Fixtures *fixtures)
{
    if (fixtures == NULL)
        return;
    g_ptr_array_unref(fixtures->runs);
    ipb_json_doc_free(fixtures->doc);
    ipb_loop_unref(fixtures->loop);
    g_free(fixtures->capabilities);
    g_free(fixtures);
}
