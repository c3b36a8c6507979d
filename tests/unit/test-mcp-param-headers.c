/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments as HTTP headers: which annotations are valid, and what the headers are.
 */
#include "mcp/param-headers.h"

#include <string.h>

#include "base/error.h"

static IpbJsonDoc *
parse(const char *text)
{
    IpbJsonDoc *document = ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
    g_assert_nonnull(document);
    return document;
}

/* @expected: lines, each with its newline. */
static void
assert_headers(const char *schema_text, const char *arguments_text, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) schema = parse(schema_text), arguments = parse(arguments_text);
    g_autoptr(IpbParamHeaders) headers = ipb_param_headers_parse(ipb_json_root(schema), &error);
    g_assert_no_error(error);
    g_auto(GStrv) list = ipb_param_headers_make(headers, ipb_json_root(arguments), &error);
    g_assert_no_error(error);
    g_autofree char *text = g_strjoinv("\n", list);
    g_assert_cmpstr(text, ==, expected);
}

#define REGION "{\"properties\":{\"r\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}}}"

static void
test_values(void)
{
    static const struct {
        const char *argument, *header;
    } CASES[] = {
        {"\"us-west1\"", "Mcp-Param-Region: us-west1"},
        {"\"a b\\tc\"", "Mcp-Param-Region: a b\tc"},
        {"\"\"", "Mcp-Param-Region: "},
        {"\"Hello, 世界\"", "Mcp-Param-Region: =?base64?SGVsbG8sIOS4lueVjA==?="},
        {"\" padded \"", "Mcp-Param-Region: =?base64?IHBhZGRlZCA=?="},
        {"\"\\t\"", "Mcp-Param-Region: =?base64?CQ==?="},
        {"\"line1\\nline2\"", "Mcp-Param-Region: =?base64?bGluZTEKbGluZTI=?="},
        {"\"a\\r\\nX-Evil: 1\"", "Mcp-Param-Region: =?base64?YQ0KWC1FdmlsOiAx?="},
        {"\"a\\u0000\"", "Mcp-Param-Region: =?base64?YQA=?="},
        {"\"=?base64?literal?=\"", "Mcp-Param-Region: =?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
        {"\"=?base64?\"", "Mcp-Param-Region: =?base64?"},
        {"42", "Mcp-Param-Region: 42"},
        {"-7", "Mcp-Param-Region: -7"},
        {"1e3", "Mcp-Param-Region: 1000"},
        {"9007199254740991", "Mcp-Param-Region: 9007199254740991"},
        {"true", "Mcp-Param-Region: true"},
        {"false", "Mcp-Param-Region: false"},
        {"null", ""},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *arguments = g_strdup_printf("{\"r\":%s}", CASES[i].argument);
        assert_headers(REGION, arguments, CASES[i].header);
    }
    assert_headers(REGION, "{}", "");
    assert_headers(REGION, "{\"other\":1}", "");
}

static void
test_impossible_values(void)
{
    static const char *const VALUES[] = {"{}",     "[]",         "1.5", "9007199254740992",
                                         "-1e300", "\"\\ud800\""};
    g_autoptr(IpbJsonDoc) schema = parse(REGION);
    g_autoptr(IpbParamHeaders) headers = ipb_param_headers_parse(ipb_json_root(schema), NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(VALUES); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *text = g_strdup_printf("{\"r\":%s}", VALUES[i]);
        g_autoptr(IpbJsonDoc) arguments = parse(text);
        g_assert_null(ipb_param_headers_make(headers, ipb_json_root(arguments), &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
        g_assert_nonnull(strstr(error->message, "argument r "));
    }
    g_autofree char *large = g_strnfill(9000, 'x');
    g_autofree char *text = g_strdup_printf("{\"r\":\"%s\"}", large);
    g_autoptr(IpbJsonDoc) arguments = parse(text);
    g_assert_null(ipb_param_headers_make(headers, ipb_json_root(arguments), NULL));
}

static void
test_nested(void)
{
    static const char SCHEMA[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"a\":{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"integer\",\"x-mcp-header\":"
        "\"B\"},\"x-mcp-header\":{\"type\":\"boolean\",\"x-mcp-header\":\"Odd\"}}},"
        "\"properties\":{\"type\":\"string\",\"x-mcp-header\":\"P\",\"default\":{\"x-mcp-header\":"
        "5}},"
        "\"n\":{\"type\":\"number\",\"enum\":[{\"x-mcp-header\":\"B\"}]}}}";
    assert_headers(SCHEMA, "{\"a\":{\"b\":5,\"x-mcp-header\":true},\"properties\":\"p\",\"b\":7}",
                   "Mcp-Param-B: 5\nMcp-Param-Odd: true\nMcp-Param-P: p");
    assert_headers(SCHEMA, "{\"a\":7,\"n\":1}", "");
    assert_headers("{\"type\":\"object\"}", "{\"a\":7}", "");
    assert_headers("true", "{\"a\":7}", "");
}

static void
test_invalid(void)
{
    static const struct {
        const char *schema, *message;
    } CASES[] = {
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"\"}}}", "token"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"a b\"}}}", "token"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"a\\r\\nX: y\"}}}",
         "token"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"a\\u0000\"}}}", "token"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"é\"}}}", "token"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":5}}}", "token"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":null}}}", "token"},
        {"{\"properties\":{\"a\":{\"type\":\"number\",\"x-mcp-header\":\"A\"}}}",
         "the type must be"},
        {"{\"properties\":{\"a\":{\"type\":\"object\",\"x-mcp-header\":\"A\"}}}",
         "the type must be"},
        {"{\"properties\":{\"a\":{\"x-mcp-header\":\"A\"}}}", "the type must be"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"Ab\"},"
         "\"b\":{\"type\":\"string\",\"x-mcp-header\":\"aB\"}}}",
         "twice"},
        {"{\"type\":\"string\",\"x-mcp-header\":\"A\"}", "only \"properties\""},
        {"{\"properties\":{\"a\":{\"items\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}}",
         "only"},
        {"{\"properties\":{\"a\":{\"anyOf\":[{\"type\":\"string\",\"x-mcp-header\":\"A\"}]}}}",
         "only"},
        {"{\"$defs\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}", "only \"properties\""},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}]}",
         "only"},
        {"{\"if\":{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}}", "only"},
        {"{\"additionalProperties\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}", "only"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(IpbJsonDoc) schema = parse(CASES[i].schema);
        g_assert_null(ipb_param_headers_parse(ipb_json_root(schema), &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
        if (strstr(error->message, CASES[i].message) == NULL)
            g_error("%s: %s", CASES[i].schema, error->message);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/mcp/param-headers/values", test_values);
    g_test_add_func("/mcp/param-headers/impossible-values", test_impossible_values);
    g_test_add_func("/mcp/param-headers/nested", test_nested);
    g_test_add_func("/mcp/param-headers/invalid", test_invalid);
    return g_test_run();
}
