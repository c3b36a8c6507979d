/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/rpc/params.h"

#include <string.h>

#include "base/error.h"

typedef struct {
    IpbJsonDoc *doc;
    IpbRpcParams params;
} Test;

static void
clear_test(Test *test)
{
    ipb_rpc_params_clear(&test->params);
    ipb_json_doc_free(test->doc);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Test, clear_test)

static void
init(Test *test, const char *json)
{
    test->doc = ipb_json_parse(json, strlen(json), &IPB_JSON_LIMITS_SMALL, NULL);
    g_assert_nonnull(test->doc);
    ipb_rpc_params_init(&test->params, ipb_json_root(test->doc));
}

/* The first error. */
static void
expect(Test *test, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_assert_false(ipb_rpc_params_finish(&test->params, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_cmpstr(error->message, ==, message);
}

static void
test_right(void)
{
    static const char *const WORDS[] = {"a", "b", NULL};
    g_auto(Test) test = {0};
    init(&test,
         "{\"s\":\"text\",\"p\":\"/a\",\"o\":{\"x\":\"y\"},\"t\":true,\"i\":7.0,\"ms\":0.0001,"
         "\"list\":[\"a\",\"\"],\"w\":\"b\",\"absent\":null,\"strange\":null}");
    IpbRpcParams *params = &test.params;
    g_assert_cmpstr(ipb_rpc_params_need_string(params, "s"), ==, "text");
    g_assert_cmpstr(ipb_rpc_params_path(params, "p"), ==, "/a");
    g_assert_nonnull(ipb_rpc_params_need_object(params, "o"));
    g_assert_true(ipb_rpc_params_bool(params, "t", false));
    g_assert_cmpint(ipb_rpc_params_int(params, "i", 0, 0, 7), ==, 7);
    g_assert_cmpint(ipb_rpc_params_ms(params, "ms", -1), ==, 1);
    g_assert_cmpint(ipb_rpc_params_word(params, "w", WORDS, -1), ==, 1);
    g_auto(GStrv) list = ipb_rpc_params_strings(params, "list");
    g_assert_cmpuint(g_strv_length(list), ==, 2);
    g_auto(GStrv) environment = ipb_rpc_params_environment(params, "o");
    g_assert_cmpstr(environment[0], ==, "x=y");
    g_assert_null(ipb_rpc_params_string(params, "absent"));
    g_assert_cmpint(ipb_rpc_params_ms(params, "absent", -1), ==, -1);
    g_assert_cmpint(ipb_rpc_params_int(params, "absent", 5, 0, 1), ==, 5);
    g_assert_null(ipb_rpc_params_strings(params, "missing"));
    g_assert_null(ipb_rpc_params_environment(params, "missing"));
    g_assert_true(ipb_rpc_params_finish(params, NULL));
}

static void
test_environment_that_is_not_utf8(void)
{
    g_auto(Test) test = {0};
    init(&test, "{\"e\":{\"N\\udc80\":\"\\udcff\\udcff\\u00e9\\ud800\\ud83d\\ude00\\udcbf\"}}");
    g_auto(GStrv) environment = ipb_rpc_params_environment(&test.params, "e");
    g_assert_cmpstr(environment[0], ==, "N\x80=\xff\xff\xc3\xa9\xed\xa0\x80\xf0\x9f\x98\x80\xbf");
}

static void
test_first_wrong(void)
{
    g_auto(Test) test = {0};
    init(&test, "{\"a\":1,\"b\":\"relative\",\"c\":3}");
    ipb_rpc_params_path(&test.params, "b");
    ipb_rpc_params_string(&test.params, "a");
    expect(&test, "b must be an absolute path");
}

static void
test_unknown(void)
{
    g_auto(Test) test = {0};
    init(&test, "{\"timeout\":1,\"timeuot\":2}");
    ipb_rpc_params_ms(&test.params, "timeout", 0);
    expect(&test, "there is no parameter \"timeuot\"");
}

static void
test_no_object(void)
{
    g_auto(Test) test = {0};
    init(&test, "[1]");
    ipb_rpc_params_string(&test.params, "a");
    expect(&test, "params must be an object");
    g_auto(IpbRpcParams) none;
    ipb_rpc_params_init(&none, NULL);
    g_assert_null(ipb_rpc_params_string(&none, "a"));
    g_assert_true(ipb_rpc_params_finish(&none, NULL));
}

/* Reads the parameter "x" with one of the functions. */
static void
read_as(IpbRpcParams *params, char kind)
{
    g_auto(GStrv) strings = NULL;
    if (kind == 's')
        ipb_rpc_params_need_string(params, "x");
    else if (kind == 'i')
        ipb_rpc_params_int(params, "x", 0, 0, 9);
    else if (kind == 'm')
        ipb_rpc_params_ms(params, "x", 0);
    else if (kind == 'b')
        ipb_rpc_params_bool(params, "x", false);
    else if (kind == 'o')
        ipb_rpc_params_need_object(params, "x");
    else if (kind == 'p')
        ipb_rpc_params_path(params, "x");
    else if (kind == 'l')
        strings = ipb_rpc_params_strings(params, "x");
    else
        strings = ipb_rpc_params_environment(params, "x");
}

static void
test_wrong(void)
{
    static const struct {
        const char *json;
        char kind;
    } CASES[] = {
        {"{}", 's'},
        {"{\"x\":null}", 's'},
        {"{\"x\":\"a\\u0000b\"}", 's'},
        {"{\"x\":[]}", 's'},
        {"{\"x\":\"a\"}", 'p'},
        {"{\"x\":\"/\\udce9\"}", 'p'},
        {"{\"x\":10}", 'i'},
        {"{\"x\":-1}", 'i'},
        {"{\"x\":1.5}", 'i'},
        {"{\"x\":1e400}", 'i'},
        {"{\"x\":\"1\"}", 'i'},
        {"{\"x\":0}", 'm'},
        {"{\"x\":-0.0}", 'm'},
        {"{\"x\":false}", 'm'},
        {"{\"x\":0}", 'b'},
        {"{\"x\":[]}", 'o'},
        {"{}", 'o'},
        {"{\"x\":{}}", 'l'},
        {"{\"x\":[\"a\",null]}", 'l'},
        {"{\"x\":[\"\\u0000\"]}", 'l'},
        {"{\"x\":[\"a=b\"]}", 'e'},
        {"{\"x\":{\"\":\"a\"}}", 'e'},
        {"{\"x\":{\"a=\":\"a\"}}", 'e'},
        {"{\"x\":{\"a\\u0000\":\"a\"}}", 'e'},
        {"{\"x\":{\"a\":1}}", 'e'},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_auto(Test) test = {0};
        init(&test, CASES[i].json);
        read_as(&test.params, CASES[i].kind);
        g_test_message("%s as %c", CASES[i].json, CASES[i].kind);
        g_assert_false(ipb_rpc_params_finish(&test.params, NULL));
    }
}

/* An infinite time is the longest possible one. */
static void
test_long_times(void)
{
    g_auto(Test) test = {0};
    init(&test, "{\"x\":1e400,\"y\":3e6}");
    g_assert_cmpint(ipb_rpc_params_ms(&test.params, "x", 0), ==, INT32_MAX);
    g_assert_cmpint(ipb_rpc_params_ms(&test.params, "y", 0), ==, INT32_MAX);
    g_assert_true(ipb_rpc_params_finish(&test.params, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/serve/rpc-params/right", test_right);
    g_test_add_func("/serve/rpc-params/environment-that-is-not-utf8",
                    test_environment_that_is_not_utf8);
    g_test_add_func("/serve/rpc-params/first-wrong", test_first_wrong);
    g_test_add_func("/serve/rpc-params/unknown", test_unknown);
    g_test_add_func("/serve/rpc-params/no-object", test_no_object);
    g_test_add_func("/serve/rpc-params/wrong", test_wrong);
    g_test_add_func("/serve/rpc-params/long-times", test_long_times);
    return g_test_run();
}
