/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tool-request.h"

#include <string.h>

#include "base/error.h"

static void
assert_span(IpbSpan span, const char *text)
{
    g_autofree char *copy = g_strndup(span.start, span.size);
    g_assert_cmpstr(copy, ==, text);
}

static void
test_whole(void)
{
    const char *body = "{\"server_name\":\"github\",\"server_id\":\"abc\",\"tool_name\":\"find\","
                       "\"other\":1,\"tool_args\": { \"a\" : 1.50, \"b\":\"\\u00e9\\ud800\" }}";
    g_auto(IpbToolRequest) request = {0};
    g_autoptr(GError) error = NULL;
    g_assert_true(ipb_tool_request_parse(body, strlen(body), &request, &error));
    g_assert_cmpstr(request.server_id, ==, "abc");
    g_assert_cmpstr(request.server_name, ==, "github");
    g_assert_cmpstr(request.tool_name, ==, "find");
    g_assert_null(request.server_params);
    /* The text that is approved and sent is exactly the text that arrived. */
    assert_span(request.arguments, "{ \"a\" : 1.50, \"b\":\"\\u00e9\\ud800\" }");
}

static void
test_params(void)
{
    const char *body = "{\"server_name\":\"a\",\"server_id\":null,\"server_params\":{\"command\":"
                       "\"x\"},\"tool_name\":\"t\",\"tool_args\":{}}";
    g_auto(IpbToolRequest) request = {0};
    g_assert_true(ipb_tool_request_parse(body, strlen(body), &request, NULL));
    g_assert_null(request.server_id);
    assert_span(ipb_json_raw(request.server_params), "{\"command\":\"x\"}");
    assert_span(request.arguments, "{}");
}

static void
test_refused(void)
{
    static const struct {
        const char *body, *part;
    } ROWS[] = {
        {"", "refused"},
        {"[]", "not a JSON object"},
        {"{\"tool_name\":\"t\",\"tool_args\":{}}", "server_name must be"},
        {"{\"server_name\":1,\"tool_name\":\"t\",\"tool_args\":{}}", "server_name must be"},
        {"{\"server_name\":\"a\",\"tool_args\":{}}", "tool_name must be"},
        {"{\"server_name\":\"a\",\"tool_name\":[\"t\"],\"tool_args\":{}}", "tool_name must be"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\\u0000x\",\"tool_args\":{}}", "tool_name must"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\"}", "tool_args must be"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":[]}", "tool_args must be"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":null}", "tool_args must be"},
        {"{\"server_name\":\"a\",\"server_id\":1,\"tool_name\":\"t\",\"tool_args\":{}}",
         "server_id must be"},
        {"{\"server_name\":\"a\",\"server_id\":\"\\u0000\",\"tool_name\":\"t\",\"tool_args\":{}}",
         "server_id contains"},
        {"{\"server_name\":\"a\",\"server_params\":[],\"tool_name\":\"t\",\"tool_args\":{}}",
         "server_params must be"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":{\"x\":1,\"x\":2}}", "twice"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":{\"x\":1,\"\\u0078\":2}}",
         "twice"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":{\"y\":[{\"x\":1,\"x\":1}]}}",
         "twice"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":{},\"tool_args\":{}}", "twice"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":{\"x\":NaN}}", "refused"},
        {"{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":{}} {}", "refused"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        g_auto(IpbToolRequest) request = {0};
        g_autoptr(GError) error = NULL;
        g_test_message("%s", ROWS[i].body);
        g_assert_false(
            ipb_tool_request_parse(ROWS[i].body, strlen(ROWS[i].body), &request, &error));
        g_assert_nonnull(error);
        g_assert_nonnull(strstr(error->message, ROWS[i].part));
        g_assert_null(request.document);
    }
}

static void
test_nested_too_deep(void)
{
    g_autoptr(GString) body =
        g_string_new("{\"server_name\":\"a\",\"tool_name\":\"t\",\"tool_args\":");
    for (int i = 0; i < 100000; i++)
        g_string_append(body, "{\"x\":");
    g_auto(IpbToolRequest) request = {0};
    g_autoptr(GError) error = NULL;
    g_assert_false(ipb_tool_request_parse(body->str, body->len, &request, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_nonnull(strstr(error->message, "arguments may be nested 127 deep"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tools/tool-request/whole", test_whole);
    g_test_add_func("/tools/tool-request/params", test_params);
    g_test_add_func("/tools/tool-request/refused", test_refused);
    g_test_add_func("/tools/tool-request/nested-too-deep", test_nested_too_deep);
    return g_test_run();
}
