/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tool-result.h"

#include <string.h>

#include "base/error.h"

/* The value that Python gets, or "!" and the error. */
static char *
map_to(IpbToolResultForm form, const char *result)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(result, strlen(result), &IPB_JSON_LIMITS_MESSAGE, &error);
    g_assert_no_error(error);
    g_autoptr(GBytes) value =
        ipb_tool_result_map(ipb_json_root(document), &document, form, "github", "find", &error);
    g_assert_true((value == NULL) == (error != NULL));
    if (value == NULL) {
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SERVER);
        return g_strconcat("!", error->message, NULL);
    }
    gsize size;
    const char *text = g_bytes_get_data(value, &size);
    return g_strndup(text, size);
}

static char *
map(const char *result)
{
    return map_to(IPB_TOOL_RESULT_VALUE, result);
}

static void
check(const char *result, const char *expected)
{
    g_autofree char *value = map(result);
    g_assert_cmpstr(value, ==, expected);
}

static void
test_structured(void)
{
    check("{\"content\":[{\"type\":\"text\",\"text\":\"x\"}],\"structuredContent\":{\"a\": 1e400}}",
          "{\"a\": 1e400}");
    check("{\"structuredContent\":[1180591620717411303424,-0]}", "[1180591620717411303424,-0]");
    check("{\"content\":[],\"structuredContent\":null}", "null");
    check("{\"content\":[{\"type\":\"text\",\"text\":\"x\"}],\"structuredContent\":null}", "\"x\"");
}

static void
test_whole(void)
{
    static const char *const RESULTS[] = {
        "{\"content\":[{\"type\":\"text\",\"text\":\"x\"}],\"structuredContent\":{\"a\": 1e400}}",
        "{}",
        "{ \"new\": [1], \"content\": null}",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(RESULTS); i++) {
        g_autofree char *whole = map_to(IPB_TOOL_RESULT_WHOLE, RESULTS[i]);
        g_assert_cmpstr(whole, ==, RESULTS[i]);
    }
    g_autofree char *failure =
        map_to(IPB_TOOL_RESULT_WHOLE, "{\"isError\":true,\"structuredContent\":5}");
    g_assert_cmpstr(failure, ==, "!github.find: 5");
    g_autoptr(GBytes) text = g_bytes_new_static("\"a\\n\"", 5);
    g_autoptr(GBytes) made = ipb_tool_result_make_whole(text);
    g_assert_cmpmem(g_bytes_get_data(made, NULL), g_bytes_get_size(made),
                    "{\"content\":[{\"type\":\"text\",\"text\":\"a\\n\"}]}", 42);
}

static void
test_texts(void)
{
    check("{\"content\":[]}", "null");
    check("{\"content\":[{\"type\":\"text\",\"text\":\"\"}]}", "\"\"");
    check("{\"content\":[{\"type\":\"text\",\"text\":\"\\ud83d\\u0000\\u00e9\"}]}",
          "\"\\ud83d\\u0000\\u00e9\"");
    check("{\"content\":[{\"type\":\"text\",\"text\":\"a\\\"\"},{\"type\":\"text\",\"text\":\"\"},"
          "{\"text\":\"b\",\"type\":\"text\",\"annotations\":{}}]}",
          "\"a\\\"\\n\\nb\"");
    check("{\"content\":[{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"b\"}]}",
          "\"\\nb\"");
}

static void
test_other_contents(void)
{
    check("{\"content\":[{\"type\":\"image\",\"data\":\"aGk=\",\"mimeType\":\"image/png\"}]}",
          "[{\"type\":\"image\",\"data\":\"aGk=\",\"mimeType\":\"image/png\"}]");
    check(
        "{\"content\": [ {\"type\":\"text\",\"text\":\"t\"}, {\"type\":\"hologram\",\"x\":2.50} ]}",
        "[ {\"type\":\"text\",\"text\":\"t\"}, {\"type\":\"hologram\",\"x\":2.50} ]");
    check("{\"content\":[{\"type\":\"text\",\"text\":7}]}", "[{\"type\":\"text\",\"text\":7}]");
}

static void
test_errors(void)
{
    check("{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"no\\u0000pe\"},"
          "{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"really\"}]}",
          "!github.find: no\xe2\x90\x80pe\nreally");
    check("{\"isError\":true,\"content\":[]}",
          "!github.find: the tool failed and does not say why");
    check("{\"isError\":true,\"content\":[],\"structuredContent\":{\"code\":7}}",
          "!github.find: {\"code\":7}");
    check("{\"isError\":false,\"content\":[]}", "null");
}

static void
test_long_error(void)
{
    g_autoptr(GString) result =
        g_string_new("{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"x");
    for (int i = 0; i < 100000; i++)
        g_string_append(result, "é");
    g_string_append(result, "\"},{\"type\":\"text\",\"text\":\"more\"}]}");
    g_autofree char *message = map(result->str);
    g_assert_cmpuint(strlen(message), <, 66000);
    g_assert_true(g_utf8_validate(message, -1, NULL));
    g_assert_true(g_str_has_suffix(message, "é…"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tools/tool-result/structured", test_structured);
    g_test_add_func("/tools/tool-result/whole", test_whole);
    g_test_add_func("/tools/tool-result/texts", test_texts);
    g_test_add_func("/tools/tool-result/other-contents", test_other_contents);
    g_test_add_func("/tools/tool-result/errors", test_errors);
    g_test_add_func("/tools/tool-result/long-error", test_long_error);
    return g_test_run();
}
