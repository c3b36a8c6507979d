/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames, messages and markers: which input is accepted, and which violates the protocol.
 */
#include <string.h>

#include "base/error.h"
#include "kernel/marker.h"
#include "kernel/messages.h"
#include "kernel/wire.h"

static GByteArray *
make_frame(uint8_t type, uint32_t marker, const char *payload)
{
    uint32_t length = GUINT32_TO_LE((uint32_t) strlen(payload) + 5);
    GByteArray *frame = g_byte_array_new();
    g_byte_array_append(frame, (const uint8_t *) &length, 4);
    g_byte_array_append(frame, &type, 1);
    marker = GUINT32_TO_LE(marker);
    g_byte_array_append(frame, (const uint8_t *) &marker, 4);
    g_byte_array_append(frame, (const uint8_t *) payload, (guint) strlen(payload));
    return frame;
}

static void
test_frame_in_pieces(void)
{
    g_autoptr(GByteArray) bytes = make_frame(IPB_FRAME_DONE, 7, "{\"cell\":1}");
    for (guint n = 0; n < bytes->len; n++) {
        IpbFrame frame;
        size_t missing = 0;
        g_assert_cmpint(ipb_frame_peek(bytes->data, n, &frame, &missing, NULL), ==,
                        IPB_FRAME_PARTIAL);
        g_assert_cmpuint(missing, ==, n < 9 ? 9 - n : bytes->len - n);
    }
    IpbFrame frame;
    size_t missing;
    g_byte_array_append(bytes, (const uint8_t *) "next", 4);
    g_assert_cmpint(ipb_frame_peek(bytes->data, bytes->len, &frame, &missing, NULL), ==,
                    IPB_FRAME_COMPLETE);
    g_assert_cmpint(frame.type, ==, IPB_FRAME_DONE);
    g_assert_cmpuint(frame.marker, ==, 7);
    g_assert_cmpmem(frame.payload, frame.payload_size, "{\"cell\":1}", 10);
    g_assert_cmpuint(frame.size, ==, bytes->len - 4);
}

static void
assert_frame_breach(const void *bytes, size_t size, const char *message)
{
    IpbFrame frame;
    size_t missing;
    g_autoptr(GError) error = NULL;
    g_assert_cmpint(ipb_frame_peek(bytes, size, &frame, &missing, &error), ==, IPB_FRAME_BREACH);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
    g_assert_nonnull(strstr(error->message, message));
}

static void
test_frame_breach(void)
{
    assert_frame_breach("\x04\0\0\0", 4, "length 4");
    assert_frame_breach("\0\0\0\0", 4, "length 0");
    assert_frame_breach("\x01\0\0\x04", 4, "length 67108865");
    assert_frame_breach("\xff\xff\xff\xff", 4, "length 4294967295");
    assert_frame_breach("\x05\0\0\0\0", 5, "type 0");
    assert_frame_breach("\x05\0\0\0\x01", 5, "type 1");
    assert_frame_breach("\x05\0\0\0\x60", 5, "type 96");
    /* The header of a frame of the largest length is valid. */
    IpbFrame frame;
    size_t missing;
    g_assert_cmpint(
        ipb_frame_peek((const uint8_t *) "\0\0\0\x04\x41\0\0\0\0", 9, &frame, &missing, NULL), ==,
        IPB_FRAME_PARTIAL);
    g_assert_cmpuint(missing, ==, IPB_FRAME_MAX_LENGTH - 5);
}

static void
test_build(void)
{
    size_t size;
    g_autoptr(GError) error = NULL;
    g_autofree char *frame = ipb_message_build_execute(
        3, &(IpbKernelCode){.code = "print('\xc3\xa9')\n", .stores_history = true}, &size, &error);
    g_assert_no_error(error);
    const char payload[] = "{\"cell\":3,\"code\":\"print('\xc3\xa9')\\n\"}";
    g_assert_cmpuint(size, ==, 9 + strlen(payload));
    g_assert_cmpuint((uint8_t) frame[0], ==, 5 + strlen(payload));
    g_assert_cmpmem(frame + 1, 8, "\0\0\0\x02\0\0\0\0", 8);
    g_assert_cmpmem(frame + 9, size - 9, payload, strlen(payload));
    g_assert_null(
        ipb_frame_build(IPB_FRAME_EXECUTE, "", IPB_FRAME_MAX_PAYLOAD + 1u, &size, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
}

static void
test_build_request(void)
{
    size_t size;
    g_autofree char *request =
        ipb_message_build_request(7, "complete", "{\"code\": \"a\"}", &size, NULL);
    const char expected[] = "{\"id\":7,\"method\":\"complete\",\"params\":{\"code\":\"a\"}}";
    g_assert_cmpmem(request + 9, size - 9, expected, strlen(expected));
    g_assert_cmpint(request[4], ==, IPB_FRAME_REQUEST);
    IpbKernelCode code = {.code = "1",
                          .is_silent = true,
                          .user_expressions = "{\"x\": \"y\"}",
                          .parent = "{\"msg_id\":\"m\"}"};
    g_autofree char *cell = ipb_message_build_execute(1, &code, &size, NULL);
    const char silent[] = "{\"cell\":1,\"code\":\"1\",\"silent\":true,\"store_history\":false,"
                          "\"user_expressions\":{\"x\":\"y\"},\"parent\":{\"msg_id\":\"m\"}}";
    g_assert_cmpmem(cell + 9, size - 9, silent, strlen(silent));
}

static void
test_build_start(void)
{
    const char *env[] = {"A=b=c", "BAD", "=x", "N\xff=\x80z", "E=", NULL};
    IpbStartMessage start = {
        .key = "00ff",
        .id = 5,
        .env = env,
        .cwd = "/\xfe",
        .rules = {.approves_shell_cmds = true, .has_rich_client = true},
        .rehearses = true,
    };
    size_t size;
    g_autofree char *frame = ipb_message_build_start(&start, &size, NULL);
    const char payload[] = "{\"version\":1,\"key\":\"00ff\",\"id\":5,\"env\":{\"A\":\"b=c\","
                           "\"N\\udcff\":\"\\udc80z\",\"E\":\"\"},\"cwd\":\"/\\udcfe\",\"path\":[],"
                           "\"seed\":null,\"approve_shell_cmds\":true,\"require_shell_escape\":"
                           "false,\"returns_to_cwd\":false,\"rich\":true,\"rehearse\":true}";
    g_assert_cmpmem(frame + 9, size - 9, payload, strlen(payload));
}

static bool
parse(uint8_t type, const char *payload, IpbMessage *ret_message, GError **error)
{
    g_autoptr(GByteArray) bytes = make_frame(type, 0, payload);
    IpbFrame frame;
    size_t missing;
    g_assert_cmpint(ipb_frame_peek(bytes->data, bytes->len, &frame, &missing, NULL), ==,
                    IPB_FRAME_COMPLETE);
    return ipb_message_parse(&frame, ret_message, error);
}

static void
test_messages(void)
{
    g_auto(IpbMessage) done = {0};
    g_assert_true(
        parse(IPB_FRAME_DONE,
              "{\"cell\":9,\"status\":\"interrupted\",\"execution_count\":4,\"cwd\":\"/x\"}", &done,
              NULL));
    g_assert_cmpint(done.event.type, ==, IPB_EVENT_DONE);
    g_assert_cmpuint(done.event.cell, ==, 9);
    g_assert_cmpint(done.event.status, ==, IPB_CELL_INTERRUPTED);
    g_assert_cmpint(done.event.execution_count, ==, 4);
    g_assert_cmpstr(done.event.text, ==, "/x");

    g_auto(IpbMessage) display = {0};
    g_assert_true(parse(IPB_FRAME_DISPLAY,
                        "{\"cell\":0,\"data\":{\"text/plain\":\"x\"},\"metadata\":{},"
                        "\"display_id\":null,\"more\":1}",
                        &display, NULL));
    g_assert_null(display.event.display_id);
    g_assert_cmpstr(ipb_json_get_string(display.event.data, "text/plain"), ==, "x");

    /* The texts of an event contain neither NUL nor lone surrogates. */
    g_auto(IpbMessage) error = {0};
    g_assert_true(parse(IPB_FRAME_ERROR,
                        "{\"cell\":1,\"ename\":\"E\\u0000\",\"evalue\":\"\\ud800\","
                        "\"traceback\":\"a\\u0000b\"}",
                        &error, NULL));
    g_assert_cmpstr(error.event.ename, ==, "E\xe2\x90\x80");
    g_assert_true(g_utf8_validate(error.event.evalue, -1, NULL));
    g_assert_cmpstr(error.event.text, ==,
                    "a\xe2\x90\x80"
                    "b");
    g_assert_cmpuint(error.event.text_size, ==, strlen(error.event.text));
    g_assert_false(error.event.is_shown);
    g_auto(IpbMessage) shown = {0};
    g_assert_true(
        parse(IPB_FRAME_ERROR,
              "{\"cell\":1,\"ename\":\"E\",\"evalue\":\"\",\"traceback\":\"\",\"shown\":true}",
              &shown, NULL));
    g_assert_true(shown.event.is_shown);
}

#define ERROR_WITH "{\"cell\":1,\"ename\":\"E\",\"evalue\":\"\",\"traceback\":\"a\",\"parts\":"
#define DONE_WITH                                                                                  \
    "{\"cell\":1,\"status\":\"error\",\"execution_count\":1,\"cwd\":\"/\",\"payload\":"

static void
test_message_payload(void)
{
    g_auto(IpbMessage) none = {0}, empty = {0}, some = {0};
    g_assert_true(parse(IPB_FRAME_DONE, DONE_WITH "null}", &none, NULL));
    g_assert_null(none.event.payload);
    g_assert_true(parse(IPB_FRAME_DONE, DONE_WITH "[]}", &empty, NULL));
    g_assert_cmpuint(ipb_json_length(empty.event.payload), ==, 0);
    g_assert_true(parse(IPB_FRAME_DONE,
                        DONE_WITH "[{\"source\":\"page\",\"data\":{}},{\"source\":\"mine\"}]}",
                        &some, NULL));
    g_assert_cmpuint(ipb_json_length(some.event.payload), ==, 2);
}

static void
test_message_payload_limits(void)
{
    for (unsigned n = 16; n <= 17; n++) {
        g_autoptr(GString) text = g_string_new(DONE_WITH "[");
        for (unsigned i = 0; i < n; i++)
            g_string_append(text, i == 0 ? "{\"source\":\"s\"}" : ",{\"source\":\"s\"}");
        g_string_append(text, "]}");
        g_auto(IpbMessage) message = {0};
        g_assert_cmpint(parse(IPB_FRAME_DONE, text->str, &message, NULL), ==, n == 16);
    }
    const size_t max = 8 * 1024 * 1024, rest = strlen("[{\"source\":\"\"}]");
    for (unsigned more = 0; more <= 1; more++) {
        g_autofree char *source = g_strnfill(max - rest + more, 'x');
        g_autofree char *text = g_strdup_printf(DONE_WITH "[{\"source\":\"%s\"}]}", source);
        g_auto(IpbMessage) message = {0};
        g_assert_cmpint(parse(IPB_FRAME_DONE, text, &message, NULL), ==, more == 0);
    }
}

static void
test_message_reply(void)
{
    g_auto(IpbMessage) result = {0};
    g_assert_true(parse(IPB_FRAME_REPLY, "{\"id\":9,\"result\":null}", &result, NULL));
    g_assert_cmpuint(result.request, ==, 9);
    g_assert_true(ipb_json_is(result.result, IPB_JSON_NULL));
    g_assert_null(result.error);
    g_auto(IpbMessage) error = {0};
    g_assert_true(parse(IPB_FRAME_REPLY, "{\"id\":1,\"error\":\"E\\u0000\"}", &error, NULL));
    g_assert_cmpstr(error.error, ==, "E\xe2\x90\x80");
}

static void
test_message_input(void)
{
    g_auto(IpbMessage) request = {0};
    g_assert_true(parse(IPB_FRAME_INPUT_REQUEST,
                        "{\"cell\":2,\"id\":7,\"prompt\":\"\\u0000?\",\"password\":true}", &request,
                        NULL));
    g_assert_cmpint(request.event.type, ==, IPB_EVENT_INPUT_REQUEST);
    g_assert_cmpuint(request.event.cell, ==, 2);
    g_assert_cmpuint(request.request, ==, 7);
    g_assert_cmpstr(request.event.text, ==, "\xe2\x90\x80?");
    g_assert_true(request.event.is_password);
    g_auto(IpbMessage) end = {0};
    g_assert_true(parse(IPB_FRAME_INPUT_END, "{\"cell\":2,\"id\":7}", &end, NULL));
    g_assert_cmpint(end.event.type, ==, IPB_EVENT_INPUT_WITHDRAWN);
    g_autofree char *prompt = g_strnfill(300 * 1024, 'x');
    g_autofree char *payload = g_strdup_printf("{\"cell\":2,\"id\":7,\"prompt\":\"%s\"}", prompt);
    IpbMessage message;
    g_autoptr(GError) error = NULL;
    g_assert_false(parse(IPB_FRAME_INPUT_REQUEST, payload, &message, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
}

static void
test_message_stream(void)
{
    g_auto(IpbMessage) message = {0};
    g_assert_true(parse(IPB_FRAME_STREAM,
                        "{\"cell\":2,\"name\":\"stderr\",\"text\":\"a\\u0000\\ud800\"}", &message,
                        NULL));
    g_assert_cmpint(message.event.type, ==, IPB_EVENT_STDERR);
    g_assert_cmpuint(message.event.cell, ==, 2);
    g_assert_cmpstr(message.event.text, ==, "a\xe2\x90\x80\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void
test_message_comm(void)
{
    g_auto(IpbMessage) open = {0};
    g_assert_true(
        parse(IPB_FRAME_COMM,
              "{\"cell\":2,\"kind\":\"open\",\"comm_id\":\"c\\u0000\",\"target_name\":\"t\","
              "\"target_module\":null,\"data\":[1.50],\"metadata\":{\"a\":1},\"buffers\":"
              "[\"\",\"AP8=\",\"YWJj\"]}",
              &open, NULL));
    const IpbComm *comm = open.event.comm;
    g_assert_cmpint(open.event.type, ==, IPB_EVENT_COMM);
    g_assert_cmpuint(open.event.cell, ==, 2);
    g_assert_cmpint(comm->kind, ==, IPB_COMM_OPEN);
    g_assert_cmpstr(comm->comm_id, ==, "c\xe2\x90\x80");
    g_assert_cmpstr(comm->target_name, ==, "t");
    g_assert_null(comm->target_module);
    g_assert_cmpmem(ipb_json_raw(comm->data).start, ipb_json_raw(comm->data).size, "[1.50]", 6);
    g_assert_cmpuint(ipb_json_length(comm->metadata), ==, 1);
    g_assert_cmpuint(comm->n_buffers, ==, 3);
    g_assert_cmpuint(comm->buffers[0].size, ==, 0);
    g_assert_cmpmem(comm->buffers[1].start, comm->buffers[1].size, "\0\xff", 2);
    g_assert_cmpmem(comm->buffers[2].start, comm->buffers[2].size, "abc", 3);
    g_auto(IpbMessage) close = {0};
    g_assert_true(parse(IPB_FRAME_COMM,
                        "{\"cell\":0,\"kind\":\"close\",\"comm_id\":\"c\",\"data\":null}", &close,
                        NULL));
    g_assert_cmpint(close.event.comm->kind, ==, IPB_COMM_CLOSE);
    g_assert_cmpuint(close.event.comm->n_buffers, ==, 0);
}

#define COMM_WITH "{\"cell\":1,\"kind\":\"msg\",\"comm_id\":\"c\","

static void
test_comm_limits(void)
{
    g_autofree char *name = g_strnfill(5000, 'c');
    g_autofree char *long_id =
        g_strdup_printf("{\"cell\":1,\"kind\":\"msg\",\"comm_id\":\"%s\",\"data\":1}", name);
    g_autoptr(GString) many = g_string_new(COMM_WITH "\"data\":{},\"buffers\":[\"\"");
    for (int i = 1; i <= IPB_COMM_MAX_BUFFERS; i++)
        g_string_append(many, ",\"\"");
    g_string_append(many, "]}");
    const char *texts[] = {long_id, many->str};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        IpbMessage message;
        g_autoptr(GError) error = NULL;
        g_assert_false(parse(IPB_FRAME_COMM, texts[i], &message, &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
    }
    /* Towards the kernel. */
    g_autofree IpbSpan *buffers = g_new0(IpbSpan, IPB_COMM_MAX_BUFFERS + 1);
    IpbSpan huge = {"", 60u << 20};
    const IpbComm bad[] = {
        {.kind = IPB_COMM_MSG, .comm_id = name},
        {.kind = IPB_COMM_OPEN, .comm_id = "c", .target_name = name},
        {.kind = IPB_COMM_MSG, .comm_id = "c", .buffers = buffers, .n_buffers = 1001},
        {.kind = IPB_COMM_MSG, .comm_id = "c", .buffers = &huge, .n_buffers = 1},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(ipb_comm_write(&bad[i], &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    }
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_comm_write(&(IpbComm){.kind = IPB_COMM_OPEN, .comm_id = "c"}, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static void
test_build_comm(void)
{
    const char *json = "{\"a\": 1.50}";
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(json, strlen(json), &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbSpan buffers[] = {{"\0\xff", 2}, {"", 0}};
    IpbComm comm = {.kind = IPB_COMM_OPEN,
                    .comm_id = "c",
                    .target_name = "t",
                    .data = ipb_json_root(doc),
                    .metadata = ipb_json_root(doc),
                    .buffers = buffers,
                    .n_buffers = 2};
    g_autoptr(GBytes) bytes = ipb_comm_write(&comm, NULL);
    size_t size;
    IpbKernelCode code = {.code = "", .comm = bytes, .parent = "{\"p\":1}"};
    g_autofree char *frame = ipb_message_build_execute(3, &code, &size, NULL);
    const char *payload =
        "{\"cell\":3,\"comm\":{\"kind\":\"open\",\"comm_id\":\"c\",\"target_name\":\"t\","
        "\"data\":{\"a\":1.50},\"metadata\":{\"a\":1.50},\"buffers\":[\"AP8=\",\"\"]},"
        "\"parent\":{\"p\":1}}";
    g_assert_cmpint(frame[4], ==, IPB_FRAME_COMM_TO_KERNEL);
    g_assert_cmpmem(frame + 9, size - 9, payload, strlen(payload));
}

static void
test_message_breach(void)
{
    static const struct {
        uint8_t type;
        const char *payload;
    } bad[] = {
        {IPB_FRAME_DONE, ""},
        {IPB_FRAME_DONE, "{"},
        {IPB_FRAME_DONE, "[]"},
        {IPB_FRAME_DONE, "{}"},
        {IPB_FRAME_DONE, "{\"cell\":-1,\"status\":\"ok\",\"execution_count\":1,\"cwd\":\"/\"}"},
        {IPB_FRAME_DONE, "{\"cell\":1.5,\"status\":\"ok\",\"execution_count\":1,\"cwd\":\"/\"}"},
        {IPB_FRAME_DONE, "{\"cell\":1,\"status\":\"fine\",\"execution_count\":1,\"cwd\":\"/\"}"},
        {IPB_FRAME_DONE, "{\"cell\":1,\"status\":\"ok\",\"cwd\":\"/\"}"},
        {IPB_FRAME_DONE, "{\"cell\":1,\"status\":\"ok\",\"execution_count\":1}"},
        {IPB_FRAME_DISPLAY, "{\"cell\":1}"},
        {IPB_FRAME_DISPLAY, "{\"cell\":1,\"data\":[]}"},
        {IPB_FRAME_DISPLAY, "{\"cell\":1,\"data\":{},\"metadata\":1}"},
        {IPB_FRAME_DISPLAY, "{\"cell\":1,\"data\":{},\"display_id\":1}"},
        {IPB_FRAME_UPDATE_DISPLAY, "{\"cell\":1,\"data\":{}}"},
        {IPB_FRAME_RESULT, "{\"cell\":1,\"data\":{}}"},
        {IPB_FRAME_RESULT, "{\"cell\":1,\"execution_count\":1,\"data\":{},\"display_id\":1}"},
        {IPB_FRAME_ERROR, "{\"cell\":1,\"ename\":\"E\",\"evalue\":1,\"traceback\":\"\"}"},
        {IPB_FRAME_ERROR, ERROR_WITH "{}}"},
        {IPB_FRAME_ERROR, ERROR_WITH "[\"a\",1]}"},
        {IPB_FRAME_HELLO, "{\"version\":2}"},
        {IPB_FRAME_DONE, "{\"cell\":1,\"status\":\"ok\",\"execution_count\":1,\"cwd\":\"/\","
                         "\"user_expressions\":[]}"},
        {IPB_FRAME_DONE, DONE_WITH "{}}"},
        {IPB_FRAME_DONE, DONE_WITH "[1]}"},
        {IPB_FRAME_DONE, DONE_WITH "[{}]}"},
        {IPB_FRAME_DONE, DONE_WITH "[{\"source\":1}]}"},
        {IPB_FRAME_DONE, DONE_WITH "[{\"source\":\"a\\u0000\"}]}"},
        {IPB_FRAME_REPLY, "{\"result\":1}"},
        {IPB_FRAME_INPUT_REQUEST, "{\"cell\":1,\"prompt\":\"\"}"},
        {IPB_FRAME_INPUT_REQUEST, "{\"cell\":1,\"id\":1}"},
        {IPB_FRAME_INPUT_REQUEST, "{\"id\":1,\"prompt\":\"\"}"},
        {IPB_FRAME_INPUT_END, "{\"cell\":1,\"id\":0}"},
        {IPB_FRAME_COMM, "{\"kind\":\"msg\",\"comm_id\":\"c\",\"data\":{}}"},
        {IPB_FRAME_COMM, "{\"cell\":1,\"comm_id\":\"c\",\"data\":{}}"},
        {IPB_FRAME_COMM, "{\"cell\":1,\"kind\":\"new\",\"comm_id\":\"c\",\"data\":{}}"},
        {IPB_FRAME_COMM, "{\"cell\":1,\"kind\":\"msg\",\"data\":{}}"},
        {IPB_FRAME_COMM, "{\"cell\":1,\"kind\":\"open\",\"comm_id\":\"c\",\"data\":{}}"},
        {IPB_FRAME_COMM, "{\"cell\":1,\"kind\":\"open\",\"comm_id\":\"c\",\"data\":{},"
                         "\"target_name\":\"t\",\"target_module\":1}"},
        {IPB_FRAME_COMM, COMM_WITH "\"x\":1}"},
        {IPB_FRAME_COMM, COMM_WITH "\"data\":{},\"metadata\":[]}"},
        {IPB_FRAME_COMM, COMM_WITH "\"data\":{},\"buffers\":{}}"},
        {IPB_FRAME_COMM, COMM_WITH "\"data\":{},\"buffers\":[1]}"},
        {IPB_FRAME_COMM, COMM_WITH "\"data\":{},\"buffers\":[\"AAA\"]}"},
        {IPB_FRAME_COMM, COMM_WITH "\"data\":{},\"buffers\":[\"A===\"]}"},
        {IPB_FRAME_COMM, COMM_WITH "\"data\":{},\"buffers\":[\"AA=A\"]}"},
        {IPB_FRAME_COMM, COMM_WITH "\"data\":{},\"buffers\":[\"AA\\n=\"]}"},
        {IPB_FRAME_COMM, COMM_WITH "\"data\":{},\"buffers\":[\"AAAA\",\"AA\\u0000A\"]}"},
        {IPB_FRAME_STREAM, "{\"cell\":1,\"name\":\"stdin\",\"text\":\"\"}"},
        {IPB_FRAME_STREAM, "{\"cell\":1,\"name\":\"stdout\"}"},
        {IPB_FRAME_STREAM, "{\"name\":\"stdout\",\"text\":\"\"}"},
        {IPB_FRAME_REPLY, "{\"id\":0,\"result\":1}"},
        {IPB_FRAME_REPLY, "{\"id\":1}"},
        {IPB_FRAME_REPLY, "{\"id\":1,\"error\":1}"},
        {IPB_FRAME_REPLY, "{\"id\":1,\"result\":1,\"error\":\"x\"}"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        IpbMessage message;
        g_autoptr(GError) error = NULL;
        g_assert_false(parse(bad[i].type, bad[i].payload, &message, &error));
        g_assert_nonnull(error);
        g_assert_nonnull(strstr(error->message, "a frame "));
    }
}

static const uint8_t key[IPB_MARKER_KEY_SIZE] = "key45678901";

static void
append_marker(GByteArray *bytes, uint32_t number)
{
    number = GUINT32_TO_LE(number);
    g_byte_array_append(bytes, (const uint8_t *) "", 1);
    g_byte_array_append(bytes, key, sizeof key);
    g_byte_array_append(bytes, (const uint8_t *) &number, 4);
    g_byte_array_append(bytes, (const uint8_t *) "\n", 1);
}

static void
test_marker_find(void)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_byte_array_append(bytes, (const uint8_t *) "ab\0cd", 5);
    append_marker(bytes, 3);
    g_byte_array_append(bytes, (const uint8_t *) "ef", 2);
    size_t text_size;
    uint32_t number = 0;
    for (size_t n = 0; n <= bytes->len; n++) {
        IpbMarkerResult result = ipb_marker_find(key, 2, bytes->data, n, &text_size, &number);
        /* A NUL may begin a marker until the next byte is known. */
        g_assert_cmpint(result, ==,
                        n == 3       ? IPB_MARKER_CUT
                        : n <= 5     ? IPB_MARKER_NONE
                        : n < 5 + 18 ? IPB_MARKER_CUT
                                     : IPB_MARKER_FOUND);
        g_assert_cmpuint(text_size, ==, n == 3 ? 2 : MIN(n, 5));
    }
    g_assert_cmpuint(number, ==, 3);
    /* A marker with an old number is text. */
    g_assert_cmpint(ipb_marker_find(key, 3, bytes->data, bytes->len, &text_size, &number), ==,
                    IPB_MARKER_NONE);
    g_assert_cmpuint(text_size, ==, bytes->len);
    bytes->data[22] = 'x';
    g_assert_cmpint(ipb_marker_find(key, 2, bytes->data, bytes->len, &text_size, &number), ==,
                    IPB_MARKER_NONE);
}

static void
test_marker_decode(void)
{
    IpbUtf8Decoder decoder = {0};
    g_autoptr(GString) text = g_string_new(NULL);
    ipb_marker_decode_text(&decoder, (const uint8_t *) "a\0\0\xc3", 4, text);
    ipb_marker_decode_text(&decoder, (const uint8_t *) "\xa9\xe2\x82\0z\xe2", 6, text);
    ipb_marker_decode_end(&decoder, text);
    g_assert_cmpstr(text->str, ==,
                    "a\xe2\x90\x80\xe2\x90\x80\xc3\xa9\xef\xbf\xbd\xe2\x90\x80z\xef\xbf\xbd");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel/wire/frame-in-pieces", test_frame_in_pieces);
    g_test_add_func("/kernel/wire/frame-breach", test_frame_breach);
    g_test_add_func("/kernel/wire/build", test_build);
    g_test_add_func("/kernel/wire/build-start", test_build_start);
    g_test_add_func("/kernel/wire/build-request", test_build_request);
    g_test_add_func("/kernel/wire/message-payload", test_message_payload);
    g_test_add_func("/kernel/wire/message-payload-limits", test_message_payload_limits);
    g_test_add_func("/kernel/wire/message-reply", test_message_reply);
    g_test_add_func("/kernel/wire/message-input", test_message_input);
    g_test_add_func("/kernel/wire/message-comm", test_message_comm);
    g_test_add_func("/kernel/wire/comm-limits", test_comm_limits);
    g_test_add_func("/kernel/wire/build-comm", test_build_comm);
    g_test_add_func("/kernel/wire/message-stream", test_message_stream);
    g_test_add_func("/kernel/wire/messages", test_messages);
    g_test_add_func("/kernel/wire/message-breach", test_message_breach);
    g_test_add_func("/kernel/wire/marker-find", test_marker_find);
    g_test_add_func("/kernel/wire/marker-decode", test_marker_decode);
    return g_test_run();
}
