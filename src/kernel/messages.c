/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads of the kernel wire; see the header. There is one function for each type of frame. All
 * are strict: a member that is missing or has another type is a breach. Unknown members are
 * ignored.
 */
#include "kernel/messages.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "json/writer.h"
#include "kernel/marker.h"

#define MAX_DEPTH 256
#define MAX_VALUES (2u * 1024 * 1024)
/* Bytes; the kernel cuts a longer one. */
#define MAX_PROMPT (256u * 1024)
/* Of the payload of a cell: its items, and its bytes of JSON. */
#define MAX_PAYLOAD_ITEMS 16
#define MAX_TRACEBACK_PARTS 1000
/* Reasons and warnings of a branch, and the characters of each. */
#define MAX_BRANCH_TEXTS 32
#define MAX_BRANCH_TEXT 500
#define MAX_PAYLOAD_SIZE (8u * 1024 * 1024)

static const char *
type_name(IpbFrameType type)
{
    switch (type) {
    case IPB_FRAME_START:
        return "start";
    case IPB_FRAME_EXECUTE:
        return "execute";
    case IPB_FRAME_SHUTDOWN:
        return "shutdown";
    case IPB_FRAME_REQUEST:
        return "request";
    case IPB_FRAME_INPUT:
        return "input";
    case IPB_FRAME_COMM_TO_KERNEL:
    case IPB_FRAME_COMM:
        return "comm";
    case IPB_FRAME_HELLO:
        return "hello";
    case IPB_FRAME_DISPLAY:
        return "display";
    case IPB_FRAME_UPDATE_DISPLAY:
        return "update_display";
    case IPB_FRAME_CLEAR_OUTPUT:
        return "clear_output";
    case IPB_FRAME_RESULT:
        return "result";
    case IPB_FRAME_ERROR:
        return "error";
    case IPB_FRAME_DONE:
        return "done";
    case IPB_FRAME_REPLY:
        return "reply";
    case IPB_FRAME_INPUT_REQUEST:
        return "input_request";
    case IPB_FRAME_INPUT_END:
        return "input_end";
    case IPB_FRAME_STREAM:
        return "stream";
    case IPB_FRAME_PIPES:
        return "pipes";
    case IPB_FRAME_PIPES_WANTED:
        return "pipes_wanted";
    case IPB_FRAME_PIPES_TAKEN:
        return "pipes_taken";
    case IPB_FRAME_BRANCH:
        return "branch";
    case IPB_FRAME_PARK:
        return "park";
    case IPB_FRAME_RESTORE:
        return "restore";
    case IPB_FRAME_BRANCHED:
        return "branched";
    }
    return "?";
}

static bool
set_breach(const IpbMessage *message, const char *what, GError **error)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "a frame %s %s",
                type_name(message->type), what);
    return false;
}

static const IpbJson *
root(const IpbMessage *message)
{
    return ipb_json_root(message->document);
}

/* The string as text without NUL and lone surrogates; NULL if there is none. */
static const char *
get_text(IpbMessage *message, const char *name, size_t *ret_size)
{
    size_t size;
    const char *string = ipb_json_string(ipb_json_get(root(message), name), &size);
    if (string == NULL || g_utf8_validate(string, (gssize) size, NULL)) {
        if (ret_size != NULL && string != NULL)
            *ret_size = size;
        return string;
    }
    IpbUtf8Decoder decoder = {0};
    GString *text = g_string_sized_new(size + 16);
    ipb_marker_decode_text(&decoder, (const uint8_t *) string, size, text);
    ipb_marker_decode_end(&decoder, text);
    if (ret_size != NULL)
        *ret_size = text->len;
    g_assert(message->n_owned < G_N_ELEMENTS(message->owned));
    return message->owned[message->n_owned++] = g_string_free(text, FALSE);
}

static bool
parse_bundle(IpbMessage *message, GError **error)
{
    IpbEvent *event = &message->event;
    event->data = ipb_json_get(root(message), "data");
    if (!ipb_json_is(event->data, IPB_JSON_OBJECT))
        return set_breach(message, "without an object \"data\"", error);
    const IpbJson *metadata = ipb_json_get(root(message), "metadata");
    if (ipb_json_is(metadata, IPB_JSON_OBJECT))
        event->metadata = metadata;
    else if (metadata != NULL && !ipb_json_is(metadata, IPB_JSON_NULL))
        return set_breach(message, "with \"metadata\" that is not an object", error);
    return true;
}

static bool
parse_display(IpbMessage *message, GError **error)
{
    bool is_update = message->type == IPB_FRAME_UPDATE_DISPLAY;
    message->event.type = is_update ? IPB_EVENT_UPDATE : IPB_EVENT_DISPLAY;
    const IpbJson *display_id = ipb_json_get(root(message), "display_id");
    message->event.display_id = get_text(message, "display_id", NULL);
    if (message->event.display_id == NULL &&
        (is_update || (display_id != NULL && !ipb_json_is(display_id, IPB_JSON_NULL))))
        return set_breach(message, "without a string \"display_id\"", error);
    return parse_bundle(message, error);
}

static bool
parse_clear_output(IpbMessage *message, GError **error)
{
    message->event.type = IPB_EVENT_CLEAR_OUTPUT;
    message->event.wait = ipb_json_get_bool(root(message), "wait", false);
    return true;
}

static bool
parse_result(IpbMessage *message, GError **error)
{
    message->event.type = IPB_EVENT_RESULT;
    if (!ipb_json_get_int64(root(message), "execution_count", &message->event.execution_count))
        return set_breach(message, "without an integer \"execution_count\"", error);
    const IpbJson *display_id = ipb_json_get(root(message), "display_id");
    message->event.display_id = get_text(message, "display_id", NULL);
    if (message->event.display_id == NULL && display_id != NULL &&
        !ipb_json_is(display_id, IPB_JSON_NULL))
        return set_breach(message, "with a \"display_id\" that is not a string", error);
    return parse_bundle(message, error);
}

/* Of a traceback. */
static bool
parse_parts(IpbMessage *message, GError **error)
{
    const IpbJson *parts = ipb_json_get(root(message), "parts");
    if (parts == NULL)
        return true;
    if (!ipb_json_is(parts, IPB_JSON_ARRAY) || ipb_json_length(parts) > MAX_TRACEBACK_PARTS)
        return set_breach(message, "with \"parts\" that are not an array of 1000 strings at most",
                          error);
    IPB_JSON_FOREACH (part, parts) {
        if (!ipb_json_is(part, IPB_JSON_STRING))
            return set_breach(message, "with an item of \"parts\" that is not a string", error);
    }
    message->event.parts = parts;
    return true;
}

static bool
parse_error(IpbMessage *message, GError **error)
{
    IpbEvent *event = &message->event;
    event->type = IPB_EVENT_ERROR;
    event->ename = get_text(message, "ename", NULL);
    event->evalue = get_text(message, "evalue", NULL);
    event->text = get_text(message, "traceback", &event->text_size);
    event->is_shown = ipb_json_get_bool(root(message), "shown", false);
    if (event->ename == NULL || event->evalue == NULL || event->text == NULL)
        return set_breach(message, "without the strings \"ename\", \"evalue\", \"traceback\"",
                          error);
    return parse_parts(message, error);
}

/* What the front end is asked to do. What an item means is between code in the kernel and the front
 * end. */
static bool
parse_payload(IpbMessage *message, GError **error)
{
    const IpbJson *payload = ipb_json_get(root(message), "payload");
    if (payload == NULL || ipb_json_is(payload, IPB_JSON_NULL))
        return true;
    if (!ipb_json_is(payload, IPB_JSON_ARRAY) || ipb_json_length(payload) > MAX_PAYLOAD_ITEMS)
        return set_breach(message, "with a \"payload\" that is not an array of 16 items at most",
                          error);
    if (ipb_json_raw(payload).size > MAX_PAYLOAD_SIZE)
        return set_breach(message, "with a \"payload\" of more than 8 MiB", error);
    IPB_JSON_FOREACH (item, payload) {
        if (!ipb_json_is(item, IPB_JSON_OBJECT) || ipb_json_get_string(item, "source") == NULL)
            return set_breach(message, "with an item of \"payload\" without a string \"source\"",
                              error);
    }
    message->event.payload = payload;
    return true;
}

static bool
parse_done(IpbMessage *message, GError **error)
{
    IpbEvent *event = &message->event;
    event->type = IPB_EVENT_DONE;
    const char *status = ipb_json_get_string(root(message), "status");
    if (g_strcmp0(status, "ok") == 0)
        event->status = IPB_CELL_OK;
    else if (g_strcmp0(status, "error") == 0)
        event->status = IPB_CELL_ERROR;
    else if (g_strcmp0(status, "interrupted") == 0)
        event->status = IPB_CELL_INTERRUPTED;
    else
        return set_breach(message, "without a known \"status\"", error);
    if (!ipb_json_get_int64(root(message), "execution_count", &event->execution_count))
        return set_breach(message, "without an integer \"execution_count\"", error);
    event->text = get_text(message, "cwd", &event->text_size);
    if (event->text == NULL)
        return set_breach(message, "without a string \"cwd\"", error);
    event->is_cwd_reset = ipb_json_get_bool(root(message), "cwd_reset", false);
    const IpbJson *expressions = ipb_json_get(root(message), "user_expressions");
    if (ipb_json_is(expressions, IPB_JSON_OBJECT))
        event->user_expressions = expressions;
    else if (expressions != NULL && !ipb_json_is(expressions, IPB_JSON_NULL))
        return set_breach(message, "with \"user_expressions\" that are not an object", error);
    return parse_payload(message, error);
}

static bool
parse_id(IpbMessage *message, GError **error)
{
    int64_t id;
    if (!ipb_json_get_int64(root(message), "id", &id) || id <= 0)
        return set_breach(message, "without an \"id\"", error);
    message->request = (uint64_t) id;
    return true;
}

static bool
parse_input_request(IpbMessage *message, GError **error)
{
    IpbEvent *event = &message->event;
    event->type = IPB_EVENT_INPUT_REQUEST;
    event->text = get_text(message, "prompt", &event->text_size);
    if (event->text == NULL || event->text_size > MAX_PROMPT)
        return set_breach(message, "without a \"prompt\", or with one that is too long", error);
    event->is_password = ipb_json_get_bool(root(message), "password", false);
    return parse_id(message, error);
}

static bool
parse_input_end(IpbMessage *message, GError **error)
{
    message->event.type = IPB_EVENT_INPUT_WITHDRAWN;
    return parse_id(message, error);
}

/* NULL: it is not base64 as RFC 4648 has it, without line breaks. The caller frees it. */
static char *
decode_base64(const IpbJson *value, size_t *ret_size)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size;
    const char *text = ipb_json_string(value, &size);
    if (text == NULL || size % 4 != 0)
        return NULL;
    size_t n_digits = strspn(text, DIGITS);
    size_t n_padding = strspn(text + n_digits, "=");
    if (n_digits + n_padding != size || n_padding > 2)
        return NULL;
    return (char *) g_base64_decode(text, ret_size);
}

static bool
parse_buffers(IpbMessage *message, GError **error)
{
    const IpbJson *buffers = ipb_json_get(root(message), "buffers");
    if (buffers == NULL)
        return true;
    size_t n = ipb_json_length(buffers);
    if (!ipb_json_is(buffers, IPB_JSON_ARRAY) || n > IPB_COMM_MAX_BUFFERS)
        return set_breach(message, "with \"buffers\" that are not an array of 1000 at most", error);
    message->buffers = g_new0(IpbSpan, n);
    IPB_JSON_FOREACH (buffer, buffers) {
        IpbSpan *span = &message->buffers[message->n_buffers];
        span->start = decode_base64(buffer, &span->size);
        if (span->start == NULL)
            return set_breach(message, "with a buffer that is not base64", error);
        message->n_buffers++;
    }
    message->comm.buffers = message->buffers;
    message->comm.n_buffers = message->n_buffers;
    return true;
}

/* @ret_name: NULL if it is null or missing, and @is_needed is false. */
static bool
parse_name(IpbMessage *message, const char *member, bool is_needed, const char **ret_name,
           GError **error)
{
    const IpbJson *value = ipb_json_get(root(message), member);
    if (!is_needed && (value == NULL || ipb_json_is(value, IPB_JSON_NULL)))
        return true;
    size_t size;
    *ret_name = get_text(message, member, &size);
    if (*ret_name != NULL && size <= IPB_COMM_MAX_NAME)
        return true;
    g_autofree char *what = g_strdup_printf("without a string \"%s\" of 4096 bytes", member);
    return set_breach(message, what, error);
}

/* What the data says is between the widget and the kernel. */
static bool
parse_comm(IpbMessage *message, GError **error)
{
    IpbComm *comm = &message->comm;
    message->event.type = IPB_EVENT_COMM;
    if (!ipb_comm_kind_parse(ipb_json_get_string(root(message), "kind"), &comm->kind))
        return set_breach(message, "without a known \"kind\"", error);
    bool opens = comm->kind == IPB_COMM_OPEN;
    if (!parse_name(message, "comm_id", true, &comm->comm_id, error) ||
        (opens && (!parse_name(message, "target_name", true, &comm->target_name, error) ||
                   !parse_name(message, "target_module", false, &comm->target_module, error))))
        return false;
    comm->data = ipb_json_get(root(message), "data");
    if (comm->data == NULL)
        return set_breach(message, "without \"data\"", error);
    const IpbJson *metadata = ipb_json_get(root(message), "metadata");
    if (ipb_json_is(metadata, IPB_JSON_OBJECT))
        comm->metadata = metadata;
    else if (metadata != NULL && !ipb_json_is(metadata, IPB_JSON_NULL))
        return set_breach(message, "with \"metadata\" that is not an object", error);
    return parse_buffers(message, error);
}

static bool
parse_stream(IpbMessage *message, GError **error)
{
    IpbEvent *event = &message->event;
    const char *name = ipb_json_get_string(root(message), "name");
    bool is_stderr = g_strcmp0(name, "stderr") == 0;
    if (!is_stderr && g_strcmp0(name, "stdout") != 0)
        return set_breach(message, "without the \"name\" of a stream", error);
    event->type = is_stderr ? IPB_EVENT_STDERR : IPB_EVENT_STDOUT;
    event->text = get_text(message, "text", &event->text_size);
    return event->text != NULL || set_breach(message, "without a string \"text\"", error);
}

static bool
parse_reply(IpbMessage *message, GError **error)
{
    if (!parse_id(message, error))
        return false;
    message->result = ipb_json_get(root(message), "result");
    message->error = get_text(message, "error", NULL);
    if ((message->result == NULL) == (message->error == NULL))
        return set_breach(message, "without one of \"result\" and \"error\"", error);
    return true;
}

/* Texts of the kernel are shown to people: they are cut, and made valid. */
static bool
parse_branched(IpbMessage *message, GError **error)
{
    g_autoptr(GStrvBuilder) texts = g_strv_builder_new();
    unsigned n_texts = 0;
    if (!parse_id(message, error))
        return false;
    if (ipb_json_get_int64(root(message), "pid", &message->branch_pid) &&
        (message->branch_pid <= 0 || message->branch_pid > INT32_MAX))
        return set_breach(message, "with a \"pid\" that no process has", error);
    const char *name = message->branch_pid > 0 ? "warnings" : "reasons";
    IPB_JSON_FOREACH (item, ipb_json_get(root(message), name)) {
        const char *text = ipb_json_string(item, NULL);
        if (text == NULL || ++n_texts > MAX_BRANCH_TEXTS)
            continue;
        g_autofree char *valid = g_utf8_make_valid(text, -1);
        if (g_utf8_strlen(valid, -1) > MAX_BRANCH_TEXT)
            *g_utf8_offset_to_pointer(valid, MAX_BRANCH_TEXT) = '\0';
        g_strv_builder_add(texts, valid);
    }
    message->texts = g_strv_builder_end(texts);
    return true;
}

static bool
parse_hello(IpbMessage *message, GError **error)
{
    int64_t version;
    if (!ipb_json_get_int64(root(message), "version", &version) || version != IPB_WIRE_VERSION)
        return set_breach(message, "with a version that is not ours", error);
    return true;
}

static bool
parse_content(IpbMessage *message, GError **error)
{
    switch (message->type) {
    case IPB_FRAME_HELLO:
        return parse_hello(message, error);
    case IPB_FRAME_DISPLAY:
    case IPB_FRAME_UPDATE_DISPLAY:
        return parse_display(message, error);
    case IPB_FRAME_CLEAR_OUTPUT:
        return parse_clear_output(message, error);
    case IPB_FRAME_RESULT:
        return parse_result(message, error);
    case IPB_FRAME_ERROR:
        return parse_error(message, error);
    case IPB_FRAME_DONE:
        return parse_done(message, error);
    case IPB_FRAME_REPLY:
        return parse_reply(message, error);
    case IPB_FRAME_INPUT_REQUEST:
        return parse_input_request(message, error);
    case IPB_FRAME_INPUT_END:
        return parse_input_end(message, error);
    case IPB_FRAME_STREAM:
        return parse_stream(message, error);
    case IPB_FRAME_COMM:
        return parse_comm(message, error);
    case IPB_FRAME_PIPES_WANTED:
    case IPB_FRAME_PIPES_TAKEN:
        return true;
    case IPB_FRAME_BRANCHED:
        return parse_branched(message, error);
    case IPB_FRAME_START:
    case IPB_FRAME_EXECUTE:
    case IPB_FRAME_SHUTDOWN:
    case IPB_FRAME_REQUEST:
    case IPB_FRAME_INPUT:
    case IPB_FRAME_COMM_TO_KERNEL:
    case IPB_FRAME_PIPES:
    case IPB_FRAME_BRANCH:
    case IPB_FRAME_PARK:
    case IPB_FRAME_RESTORE:
        break;
    }
    return set_breach(message, "that only the core sends", error);
}

static bool
parse_cell(IpbMessage *message, GError **error)
{
    if (message->type == IPB_FRAME_HELLO || message->type == IPB_FRAME_REPLY ||
        message->type == IPB_FRAME_PIPES_TAKEN || message->type == IPB_FRAME_BRANCHED)
        return true;
    int64_t cell;
    if (!ipb_json_get_int64(root(message), "cell", &cell) || cell < 0)
        return set_breach(message, "without a \"cell\"", error);
    message->event.cell = (uint64_t) cell;
    return true;
}

bool
ipb_message_parse(const IpbFrame *frame, IpbMessage *ret_message, GError **error)
{
    static const IpbJsonLimits limits = {IPB_FRAME_MAX_PAYLOAD, MAX_DEPTH, MAX_VALUES};
    g_auto(IpbMessage) message = {.type = frame->type};
    message.document = ipb_json_parse(frame->payload, frame->payload_size, &limits, error);
    if (message.document == NULL) {
        g_prefix_error(error, "a frame %s: ", type_name(frame->type));
        return false;
    }
    if (!ipb_json_is(root(&message), IPB_JSON_OBJECT))
        return set_breach(&message, "that is not a JSON object", error);
    if (!parse_cell(&message, error) || !parse_content(&message, error))
        return false;
    *ret_message = message;
    if (message.type == IPB_FRAME_COMM)
        ret_message->event.comm = &ret_message->comm;
    message = (IpbMessage){0};
    return true;
}

void
ipb_message_clear(IpbMessage *message)
{
    for (unsigned i = 0; i < message->n_owned; i++)
        g_free(message->owned[i]);
    for (size_t i = 0; i < message->n_buffers; i++)
        g_free((char *) message->buffers[i].start);
    g_free(message->buffers);
    g_strfreev(message->texts);
    ipb_json_doc_free(message->document);
    *message = (IpbMessage){0};
}

/* Writes bytes of the operating system as a JSON string. A byte that is not UTF-8 becomes one of
 * the lone surrogates U+DC80 … U+DCFF, from which Python's os.fsencode makes the byte again. */
static void
write_os_string(IpbJsonWriter *writer, const char *bytes, size_t size, bool is_key)
{
    g_autoptr(GString) wtf8 = g_string_sized_new(size + 8);
    for (const char *p = bytes, *end = bytes + size; p < end;) {
        const char *valid_end;
        g_utf8_validate(p, end - p, &valid_end);
        g_string_append_len(wtf8, p, valid_end - p);
        p = valid_end;
        if (p < end) {
            uint8_t byte = (uint8_t) *p++;
            char surrogate[3] = {(char) 0xed, (char) (0xb0 | (byte >> 6)),
                                 (char) (0x80 | (byte & 0x3f))};
            g_string_append_len(wtf8, surrogate, sizeof surrogate);
        }
    }
    if (is_key)
        ipb_json_key_n(writer, wtf8->str, wtf8->len);
    else
        ipb_json_write_string_n(writer, wtf8->str, wtf8->len);
}

static void
write_env(IpbJsonWriter *writer, const char *const *env)
{
    ipb_json_key(writer, "env");
    ipb_json_begin_object(writer);
    for (; env != NULL && *env != NULL; env++) {
        const char *equals = strchr(*env, '=');
        if (equals == NULL || equals == *env)
            continue;
        write_os_string(writer, *env, (size_t) (equals - *env), /* is_key= */ true);
        write_os_string(writer, equals + 1, strlen(equals + 1), /* is_key= */ false);
    }
    ipb_json_end_object(writer);
}

static void
write_packages(IpbJsonWriter *writer, GBytes *packages)
{
    gsize size;
    if (packages == NULL)
        return;
    const char *text = g_bytes_get_data(packages, &size);
    ipb_json_key(writer, "packages");
    ipb_json_write_raw(writer, text, size);
}

static char *
finish_frame(IpbFrameType type, IpbJsonWriter *writer, size_t *ret_size, GError **error)
{
    size_t size;
    g_autofree char *payload = ipb_json_writer_finish(writer, &size);
    return ipb_frame_build(type, payload, size, ret_size, error);
}

char *
ipb_message_build_start(const IpbStartMessage *start, size_t *ret_size, GError **error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "version", IPB_WIRE_VERSION);
    ipb_json_member_string(writer, "key", start->key);
    ipb_json_member_int(writer, "id", start->id);
    write_env(writer, start->env);
    ipb_json_key(writer, "cwd");
    write_os_string(writer, start->cwd, strlen(start->cwd), /* is_key= */ false);
    ipb_json_key(writer, "path");
    ipb_json_begin_array(writer);
    for (const char *const *path = start->path; path != NULL && *path != NULL; path++)
        write_os_string(writer, *path, strlen(*path), /* is_key= */ false);
    ipb_json_end_array(writer);
    write_packages(writer, start->packages);
    ipb_json_key(writer, "seed");
    if (start->has_seed)
        ipb_json_write_int(writer, start->seed);
    else
        ipb_json_write_null(writer);
    ipb_json_member_bool(writer, "approve_shell_cmds", start->rules.approves_shell_cmds);
    ipb_json_member_bool(writer, "require_shell_escape", start->rules.requires_shell_escape);
    ipb_json_member_bool(writer, "returns_to_cwd", start->rules.returns_to_cwd);
    ipb_json_member_bool(writer, "rich", start->rules.has_rich_client);
    ipb_json_member_bool(writer, "rehearse", start->rehearses);
    ipb_json_end_object(writer);
    return finish_frame(IPB_FRAME_START, writer, ret_size, error);
}

static char *
build_comm(uint64_t cell, const IpbKernelCode *code, size_t *ret_size, GError **error)
{
    gsize size;
    const char *comm = g_bytes_get_data(code->comm, &size);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "cell", (int64_t) cell);
    ipb_json_key(writer, "comm");
    ipb_json_write_raw(writer, comm, size);
    if (code->parent != NULL) {
        ipb_json_key(writer, "parent");
        ipb_json_write_raw(writer, code->parent, strlen(code->parent));
    }
    ipb_json_end_object(writer);
    return finish_frame(IPB_FRAME_COMM_TO_KERNEL, writer, ret_size, error);
}

char *
ipb_message_build_execute(uint64_t cell, const IpbKernelCode *code, size_t *ret_size,
                          GError **error)
{
    if (code->comm != NULL)
        return build_comm(cell, code, ret_size, error);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "cell", (int64_t) cell);
    ipb_json_member_string(writer, "code", code->code);
    if (code->is_silent)
        ipb_json_member_bool(writer, "silent", true);
    if (!code->stores_history)
        ipb_json_member_bool(writer, "store_history", false);
    if (code->allows_input)
        ipb_json_member_bool(writer, "allow_stdin", true);
    if (code->user_expressions != NULL) {
        ipb_json_key(writer, "user_expressions");
        ipb_json_write_raw(writer, code->user_expressions, strlen(code->user_expressions));
    }
    if (code->parent != NULL) {
        ipb_json_key(writer, "parent");
        ipb_json_write_raw(writer, code->parent, strlen(code->parent));
    }
    ipb_json_end_object(writer);
    return finish_frame(IPB_FRAME_EXECUTE, writer, ret_size, error);
}

char *
ipb_message_build_request(uint64_t id, const char *method, const char *params, size_t *ret_size,
                          GError **error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "id", (int64_t) id);
    ipb_json_member_string(writer, "method", method);
    ipb_json_key(writer, "params");
    ipb_json_write_raw(writer, params, strlen(params));
    ipb_json_end_object(writer);
    return finish_frame(IPB_FRAME_REQUEST, writer, ret_size, error);
}

char *
ipb_message_build_input(uint64_t id, const char *value, const char *why, size_t *ret_size,
                        GError **error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "id", (int64_t) id);
    ipb_json_member_string(writer, value != NULL ? "value" : "error", value != NULL ? value : why);
    ipb_json_end_object(writer);
    return finish_frame(IPB_FRAME_INPUT, writer, ret_size, error);
}

char *
ipb_message_build_pipes(bool has_pipes, size_t *ret_size)
{
    const char *payload = has_pipes ? "{\"pipes\":true}" : "{\"pipes\":false}";
    return ipb_frame_build(IPB_FRAME_PIPES, payload, strlen(payload), ret_size, NULL);
}

char *
ipb_message_build_branch(IpbBranchKind kind, uint64_t id, const char *token, const char *files,
                         size_t *ret_size)
{
    static const IpbFrameType types[] = {
        [IPB_BRANCH_LIVE] = IPB_FRAME_BRANCH,
        [IPB_BRANCH_PARKED] = IPB_FRAME_PARK,
        [IPB_BRANCH_RESTORED] = IPB_FRAME_RESTORE,
    };
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "id", (int64_t) id);
    ipb_json_member_string(writer, "token", token);
    if (files != NULL) { /* a path may have any bytes */
        g_autoptr(GString) hex = g_string_new(NULL);
        for (const char *c = files; *c != '\0'; c++)
            g_string_append_printf(hex, "%02x", (unsigned char) *c);
        ipb_json_member_string(writer, "files", hex->str);
    }
    ipb_json_end_object(writer);
    return finish_frame(types[kind], writer, ret_size, NULL);
}

char *
ipb_message_build_shutdown(size_t *ret_size)
{
    return ipb_frame_build(IPB_FRAME_SHUTDOWN, "{}", 2, ret_size, NULL);
}
