/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/gateway/message.h"

#include <string.h>

#include "base/error.h"

#define HEADER "{\"msg_id\":\"m1\",\"msg_type\":\"execute_request\",\"x\":1.50}"

static void
test_json(void)
{
    const char *text = "{\"channel\":\"control\",\"header\":" HEADER ",\"parent_header\":{},"
                       "\"metadata\":{},\"content\":{\"code\":\"1\"}}";
    g_auto(IpbGatewayMessage) message = {0};
    g_assert_true(ipb_gateway_message_parse(IPB_GATEWAY_FRAMING_JSON, false, text, strlen(text),
                                            &message, NULL));
    g_assert_cmpstr(message.channel, ==, "control");
    g_assert_cmpstr(message.msg_id, ==, "m1");
    g_assert_cmpstr(message.msg_type, ==, "execute_request");
    g_assert_cmpstr(ipb_json_get_string(message.content, "code"), ==, "1");
}

static void
test_json_refused(void)
{
    static const struct {
        const char *text, *part;
    } ROWS[] = {
        {"", "byte 0"},
        {"[]", "header must be"},
        {"{\"channel\":\"iopub\",\"header\":" HEADER ",\"content\":{}}", "channel must be"},
        {"{\"channel\":1,\"header\":{\"msg_id\":\"a\"},\"content\":{}}", "header must be"},
        {"{\"header\":{\"msg_id\":\"a\",\"msg_type\":\"b\\u0000\"},\"content\":{}}",
         "header must be"},
        {"{\"header\":" HEADER "}", "content must be"},
        {"{\"header\":" HEADER ",\"content\":[]}", "content must be"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        g_auto(IpbGatewayMessage) message = {0};
        g_autoptr(GError) error = NULL;
        g_assert_false(ipb_gateway_message_parse(IPB_GATEWAY_FRAMING_JSON, false, ROWS[i].text,
                                                 strlen(ROWS[i].text), &message, &error));
        if (strstr(error->message, ROWS[i].part) == NULL)
            g_error("%s: no \"%s\" in: %s", ROWS[i].text, ROWS[i].part, error->message);
    }
}

static void
append_le64(GByteArray *bytes, uint64_t value)
{
    value = GUINT64_TO_LE(value);
    g_byte_array_append(bytes, (const guint8 *) &value, sizeof value);
}

/* @parts: NULL-terminated. */
static GByteArray *
make_v1(const char *const *parts)
{
    GByteArray *bytes = g_byte_array_new();
    guint n = g_strv_length((char **) parts);
    uint64_t offset = 8 * (n + 2);
    append_le64(bytes, n + 1);
    for (guint i = 0; i <= n; i++) {
        append_le64(bytes, offset);
        offset += i < n ? strlen(parts[i]) : 0;
    }
    for (guint i = 0; i < n; i++)
        g_byte_array_append(bytes, (const guint8 *) parts[i], (guint) strlen(parts[i]));
    return bytes;
}

static void
test_v1(void)
{
    const char *parts[] = {"shell", HEADER, "{}", "{}", "{\"code\":\"1\"}", "a buffer", NULL};
    g_autoptr(GByteArray) bytes = make_v1(parts);
    g_auto(IpbGatewayMessage) message = {0};
    g_autoptr(GError) error = NULL;
    g_assert_true(ipb_gateway_message_parse(IPB_GATEWAY_FRAMING_V1, true, bytes->data, bytes->len,
                                            &message, &error));
    g_assert_cmpstr(message.channel, ==, "shell");
    g_assert_cmpstr(message.msg_id, ==, "m1");
    g_assert_cmpstr(ipb_json_get_string(message.content, "code"), ==, "1");

    /* Every truncation is an error, and nothing else. */
    for (guint size = 0; size < bytes->len; size++) {
        g_auto(IpbGatewayMessage) part = {0};
        g_autofree guint8 *copy = g_memdup2(bytes->data, size); /* for ASan */
        g_assert_false(
            ipb_gateway_message_parse(IPB_GATEWAY_FRAMING_V1, true, copy, size, &part, NULL));
    }
    for (guint offset = 0; offset < 8 * 8; offset += 8) {
        g_autofree guint8 *copy = g_memdup2(bytes->data, bytes->len);
        memset(copy + offset, 0xff, 8);
        g_auto(IpbGatewayMessage) wrong = {0};
        g_assert_false(ipb_gateway_message_parse(IPB_GATEWAY_FRAMING_V1, true, copy, bytes->len,
                                                 &wrong, NULL));
    }
}

static void
test_buffers(void)
{
    const char *json = "{\"header\":" HEADER ",\"content\":{}}";
    const uint32_t numbers[] = {g_htonl(2), g_htonl(12), g_htonl(12 + (uint32_t) strlen(json))};
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_byte_array_append(bytes, (const guint8 *) numbers, sizeof numbers);
    g_byte_array_append(bytes, (const guint8 *) json, (guint) strlen(json));
    g_byte_array_append(bytes, (const guint8 *) "buffer", 6);
    g_auto(IpbGatewayMessage) message = {0};
    g_assert_true(ipb_gateway_message_parse(IPB_GATEWAY_FRAMING_JSON, true, bytes->data, bytes->len,
                                            &message, NULL));
    g_assert_cmpstr(message.channel, ==, "shell");
    g_assert_cmpuint(message.n_buffers, ==, 0); /* it is no message of a comm */
    for (guint size = 0; size < bytes->len - 6; size++) {
        g_auto(IpbGatewayMessage) part = {0};
        g_autofree guint8 *copy = g_memdup2(bytes->data, size);
        g_assert_false(
            ipb_gateway_message_parse(IPB_GATEWAY_FRAMING_JSON, true, copy, size, &part, NULL));
    }
}

#define COMM_HEADER "{\"msg_id\":\"m1\",\"msg_type\":\"comm_msg\"}"

static void
assert_buffers(const IpbGatewayMessage *message)
{
    g_assert_cmpuint(message->n_buffers, ==, 3);
    g_assert_cmpmem(message->buffers[0].start, message->buffers[0].size, "one", 3);
    g_assert_cmpuint(message->buffers[1].size, ==, 0);
    g_assert_cmpmem(message->buffers[2].start, message->buffers[2].size, "\0\xff", 2);
    g_assert_cmpint(ipb_json_length(message->metadata), ==, 1);
}

/* A message of a comm keeps its buffers, also when the bytes that came are gone. */
static void
test_comm_buffers(void)
{
    const IpbSpan buffers[] = {{"one", 3}, {"", 0}, {"\0\xff", 2}};
    g_autoptr(IpbGatewayOutgoing) outgoing =
        ipb_gateway_outgoing_new(&(IpbGatewayParts){.channel = "shell",
                                                    .msg_type = "comm_msg",
                                                    .session = "s",
                                                    .number = 1,
                                                    .metadata = "{\"a\":1}",
                                                    .content = g_strdup("{}"),
                                                    .content_size = 2,
                                                    .buffers = buffers,
                                                    .n_buffers = 3});
    for (int framing = 0; framing < IPB_GATEWAY_N_FRAMINGS; framing++) {
        gsize size;
        const void *bytes = g_bytes_get_data(ipb_gateway_outgoing_frame(outgoing, framing), &size);
        g_assert_false(ipb_gateway_outgoing_is_text(outgoing, framing));
        g_autofree char *copy = g_memdup2(bytes, size);
        g_auto(IpbGatewayMessage) message = {0};
        g_assert_true(ipb_gateway_message_parse(framing, true, copy, size, &message, NULL));
        memset(copy, 0, size);
        assert_buffers(&message);
    }
    const IpbSpan parts[] = {{COMM_HEADER, strlen(COMM_HEADER)},
                             {"{}", 2},
                             {"{\"a\":1}", 7},
                             {"{}", 2},
                             buffers[0],
                             buffers[1],
                             buffers[2]};
    g_auto(IpbGatewayMessage) message = {0};
    g_assert_true(
        ipb_gateway_message_parse_parts("shell", parts, G_N_ELEMENTS(parts), &message, NULL));
    assert_buffers(&message);
    size_t n;
    g_assert_true(ipb_gateway_outgoing_buffers(outgoing, &n) == buffers && n == 3);
}

static void
test_too_many_buffers(void)
{
    IpbSpan parts[4 + 1001] = {{COMM_HEADER, strlen(COMM_HEADER)}, {"{}", 2}, {"{}", 2}, {"{}", 2}};
    for (size_t i = 4; i < G_N_ELEMENTS(parts); i++)
        parts[i] = (IpbSpan){"", 0};
    g_auto(IpbGatewayMessage) message = {0};
    g_assert_true(ipb_gateway_message_parse_parts("shell", parts, 4 + 1000, &message, NULL));
    g_auto(IpbGatewayMessage) refused = {0};
    g_autoptr(GError) error = NULL;
    g_assert_false(ipb_gateway_message_parse_parts("shell", parts, 4 + 1001, &refused, &error));
    g_assert_nonnull(strstr(error->message, "more than 1000 buffers"));
    g_clear_error(&error);
    parts[2] = (IpbSpan){"{", 1};
    g_assert_false(ipb_gateway_message_parse_parts("shell", parts, 4, &refused, &error));
    g_assert_nonnull(strstr(error->message, "metadata: "));
}

/* What goes out says the same in both framings, and carries the header of what it answers, as it
 * came. */
static void
test_outgoing(void)
{
    g_autoptr(IpbJsonDoc) parent =
        ipb_json_parse(HEADER, strlen(HEADER), &IPB_JSON_LIMITS_SMALL, NULL);
    const char *content = "{\"execution_state\":\"busy\"}";
    g_autoptr(IpbGatewayOutgoing) outgoing =
        ipb_gateway_outgoing_new(&(IpbGatewayParts){.channel = "shell",
                                                    .msg_type = "status",
                                                    .session = "s",
                                                    .number = 7,
                                                    .parent = ipb_json_root(parent),
                                                    .content = g_strdup(content),
                                                    .content_size = strlen(content)});
    gsize size;
    const char *text =
        g_bytes_get_data(ipb_gateway_outgoing_frame(outgoing, IPB_GATEWAY_FRAMING_JSON), &size);
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *root = ipb_json_root(doc);
    IpbSpan raw = ipb_json_raw(ipb_json_get(root, "parent_header"));
    g_assert_cmpmem(raw.start, raw.size, HEADER, strlen(HEADER));
    g_assert_cmpstr(ipb_json_get_string(root, "msg_id"), ==, "s_7");
    g_assert_cmpstr(ipb_json_get_string(ipb_json_get(root, "header"), "msg_id"), ==, "s_7");
    for (int framing = 0; framing < IPB_GATEWAY_N_FRAMINGS; framing++) {
        const void *bytes = g_bytes_get_data(ipb_gateway_outgoing_frame(outgoing, framing), &size);
        g_auto(IpbGatewayMessage) message = {0};
        g_autoptr(GError) error = NULL;
        g_assert_true(ipb_gateway_message_parse(framing, framing == IPB_GATEWAY_FRAMING_V1, bytes,
                                                size, &message, &error));
        g_assert_cmpstr(message.msg_type, ==, "status");
        g_assert_cmpstr(ipb_json_get_string(message.content, "execution_state"), ==, "busy");
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/gateway-message/json", test_json);
    g_test_add_func("/gateway-message/json-refused", test_json_refused);
    g_test_add_func("/gateway-message/v1", test_v1);
    g_test_add_func("/gateway-message/buffers", test_buffers);
    g_test_add_func("/gateway-message/comm-buffers", test_comm_buffers);
    g_test_add_func("/gateway-message/too-many-buffers", test_too_many_buffers);
    g_test_add_func("/gateway-message/outgoing", test_outgoing);
    return g_test_run();
}
