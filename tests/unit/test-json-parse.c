/* SPDX-License-Identifier: Apache-2.0
 *
 * What is valid JSON, and the errors of what is not.
 */
#include <string.h>

#include "base/error.h"
#include "json/json.h"
#include "json/writer.h"

/* Texts with their size, because some have a NUL. */
#define TEXT(text) text, sizeof text - 1

/* Parses an allocation of the exact size, so that a sanitizer detects a read beyond it. */
static IpbJsonDoc *
parse(const char *text, size_t size, const IpbJsonLimits *limits, GError **error)
{
    g_autofree char *exact = g_malloc(size > 0 ? size : 1);
    memcpy(exact, text, size);
    return ipb_json_parse(exact, size, limits, error);
}

static IpbJsonDoc *
parse_valid(const char *text, size_t size)
{
    GError *error = NULL;
    IpbJsonDoc *doc = parse(text, size, &IPB_JSON_LIMITS_SMALL, &error);
    g_assert_no_error(error);
    return doc;
}

static void
test_valid(void)
{
    static const struct {
        const char *text;
        IpbJsonType type;
    } cases[] = {
        {"null", IPB_JSON_NULL},
        {"true", IPB_JSON_BOOL},
        {"false", IPB_JSON_BOOL},
        {"0", IPB_JSON_NUMBER},
        {"-0", IPB_JSON_NUMBER},
        {"-0.0", IPB_JSON_NUMBER},
        {"1180591620717411303424", IPB_JSON_NUMBER},
        {"1e400", IPB_JSON_NUMBER},
        {"-1E+400", IPB_JSON_NUMBER},
        {"1e-9999999999999999999999", IPB_JSON_NUMBER},
        {"0.1000000000000000055511151231257827", IPB_JSON_NUMBER},
        {"0e0", IPB_JSON_NUMBER},
        {"0E-00", IPB_JSON_NUMBER},
        {"10.01e01", IPB_JSON_NUMBER},
        {"\"\"", IPB_JSON_STRING},
        {"\"plain\"", IPB_JSON_STRING},
        {"\"eight..8 and more, longer than two words\"", IPB_JSON_STRING},
        {"\"\x7f\"", IPB_JSON_STRING},
        {"\"é€😀\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\"", IPB_JSON_STRING},
        {"\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\"", IPB_JSON_STRING},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uABCD\\uabcd\"", IPB_JSON_STRING},
        {"\"\\ud800\"", IPB_JSON_STRING},
        {"\"\\udc00\\ud800\"", IPB_JSON_STRING},
        {"[]", IPB_JSON_ARRAY},
        {"[ ]", IPB_JSON_ARRAY},
        {"[[],[[]],{}]", IPB_JSON_ARRAY},
        {"[1,\"a\",null,true,{}]", IPB_JSON_ARRAY},
        {"{}", IPB_JSON_OBJECT},
        {"{\"\":{\"\":[]}}", IPB_JSON_OBJECT},
        {"{\"a\":1,\"a\":2}", IPB_JSON_OBJECT},
        {"{\"a b\\n\":[1,2],\"c\":\"d\"}", IPB_JSON_OBJECT},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const char *text = cases[i].text;
        g_autoptr(IpbJsonDoc) doc = parse_valid(text, strlen(text));
        const IpbJson *root = ipb_json_root(doc);
        g_assert_true(ipb_json_is(root, cases[i].type));
        g_assert_cmpint((int) ipb_json_type(root), ==, (int) cases[i].type);
        IpbSpan raw = ipb_json_raw(root);
        g_assert_cmpmem(raw.start, raw.size, text, strlen(text));
        g_assert_null(ipb_json_next(root));
        g_assert_null(ipb_json_name(root, NULL));
        /* Whitespace around the value is not part of it. */
        g_autofree char *spaced = g_strdup_printf(" \t\r\n%s\n \r\t", text);
        g_autoptr(IpbJsonDoc) other = parse_valid(spaced, strlen(spaced));
        raw = ipb_json_raw(ipb_json_root(other));
        g_assert_cmpmem(raw.start, raw.size, text, strlen(text));
    }
}

typedef struct {
    const char *text;
    size_t size;
    const char *message; /* after "invalid JSON " */
} Invalid;

static void
check_invalid(const Invalid *cases, size_t n_cases)
{
    for (size_t i = 0; i < n_cases; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(IpbJsonDoc) doc =
            parse(cases[i].text, cases[i].size, &IPB_JSON_LIMITS_SMALL, &error);
        g_assert_null(doc);
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
        g_autofree char *message = g_strconcat("invalid JSON ", cases[i].message, NULL);
        g_assert_cmpstr(error->message, ==, message);
    }
}
#define AT(byte, line, column) "at byte " #byte " (line " #line ", column " #column "): "

static void
test_invalid_structure(void)
{
    static const Invalid cases[] = {
        {TEXT(""), AT(0, 1, 1) "expected a value but the text ends"},
        {TEXT(" \n "), AT(3, 2, 2) "expected a value but the text ends"},
        {TEXT("[1 2]"), AT(3, 1, 4) "expected ',' or ']' but found '2'"},
        {TEXT("{\"command\": \"ls\"; \"a\":1}"), AT(16, 1, 17) "expected ',' or '}' but found ';'"},
        {TEXT("[1,]"), AT(3, 1, 4) "expected a value but found ']'"},
        {TEXT("[,1]"), AT(1, 1, 2) "expected a value but found ','"},
        {TEXT("["), AT(1, 1, 2) "expected a value but the text ends"},
        {TEXT("[1"), AT(2, 1, 3) "expected ',' or ']' but the text ends"},
        {TEXT("]"), AT(0, 1, 1) "expected a value but found ']'"},
        {TEXT("[}"), AT(1, 1, 2) "expected a value but found '}'"},
        {TEXT("[1}"), AT(2, 1, 3) "expected ',' or ']' but found '}'"},
        {TEXT("{]"), AT(1, 1, 2) "expected a name in double quotes or '}' but found ']'"},
        {TEXT("{"), AT(1, 1, 2) "expected a name in double quotes or '}' but the text ends"},
        {TEXT("{\n\"a\":1,\n}"), AT(9, 3, 1) "expected a name in double quotes but found '}'"},
        {TEXT("{'a':1}"), AT(1, 1, 2) "expected a name in double quotes or '}' but found '''"},
        {TEXT("{a:1}"), AT(1, 1, 2) "expected a name in double quotes or '}' but found 'a'"},
        {TEXT("{\"a\"}"), AT(4, 1, 5) "expected ':' but found '}'"},
        {TEXT("{\"a\" 1}"), AT(5, 1, 6) "expected ':' but found '1'"},
        {TEXT("{\"a\":}"), AT(5, 1, 6) "expected a value but found '}'"},
        {TEXT("{\"a\":1"), AT(6, 1, 7) "expected ',' or '}' but the text ends"},
        {TEXT("{\"a\":1]"), AT(6, 1, 7) "expected ',' or '}' but found ']'"},
        {TEXT("1 2"), AT(2, 1, 3) "expected the end of the text but found '2'"},
        {TEXT("{}{}"), AT(2, 1, 3) "expected the end of the text but found '{'"},
        {TEXT("[]]"), AT(2, 1, 3) "expected the end of the text but found ']'"},
        {TEXT("nul"), AT(0, 1, 1) "expected a value but found 'n'"},
        {TEXT("nulL"), AT(0, 1, 1) "expected a value but found 'n'"},
        {TEXT("True"), AT(0, 1, 1) "expected a value but found 'T'"},
        {TEXT("truest"), AT(4, 1, 5) "expected the end of the text but found 's'"},
        {TEXT("NaN"), AT(0, 1, 1) "expected a value but found 'N'"},
        {TEXT("Infinity"), AT(0, 1, 1) "expected a value but found 'I'"},
        {TEXT("// c\n1"), AT(0, 1, 1) "expected a value but found '/'"},
        {TEXT("\0"), AT(0, 1, 1) "expected a value but found byte 0x00"},
        {TEXT("1\0"), AT(1, 1, 2) "expected the end of the text but found byte 0x00"},
        {TEXT("[\v1]"), AT(1, 1, 2) "expected a value but found byte 0x0b"},
        {TEXT("\xc2\xa0"
              "1"),
         AT(0, 1, 1) "expected a value but found byte 0xc2"},
        {TEXT("{\"é\":\"€\",\n\"ü\" 1}"), AT(18, 2, 5) "expected ':' but found '1'"},
    };
    check_invalid(cases, G_N_ELEMENTS(cases));
}

static void
test_invalid_numbers(void)
{
    static const Invalid cases[] = {
        {TEXT("01"), AT(0, 1, 1) "a number cannot begin with 0 and another digit"},
        {TEXT("[-00]"), AT(1, 1, 2) "a number cannot begin with 0 and another digit"},
        {TEXT("-"), AT(1, 1, 2) "expected a digit but the text ends"},
        {TEXT("--1"), AT(1, 1, 2) "expected a digit but found '-'"},
        {TEXT("-a"), AT(1, 1, 2) "expected a digit but found 'a'"},
        {TEXT("-Infinity"), AT(1, 1, 2) "expected a digit but found 'I'"},
        {TEXT("1."), AT(2, 1, 3) "expected a digit after the decimal point but the text ends"},
        {TEXT("1.e1"), AT(2, 1, 3) "expected a digit after the decimal point but found 'e'"},
        {TEXT(".5"), AT(0, 1, 1) "expected a value but found '.'"},
        {TEXT("+1"), AT(0, 1, 1) "expected a value but found '+'"},
        {TEXT("1e"), AT(2, 1, 3) "expected a digit in the exponent but the text ends"},
        {TEXT("1e+"), AT(3, 1, 4) "expected a digit in the exponent but the text ends"},
        {TEXT("1e-x"), AT(3, 1, 4) "expected a digit in the exponent but found 'x'"},
        {TEXT("1e1.5"), AT(3, 1, 4) "expected the end of the text but found '.'"},
        {TEXT("0x10"), AT(1, 1, 2) "expected the end of the text but found 'x'"},
        {TEXT("1_000"), AT(1, 1, 2) "expected the end of the text but found '_'"},
        {TEXT("- 1"), AT(1, 1, 2) "expected a digit but found ' '"},
    };
    check_invalid(cases, G_N_ELEMENTS(cases));
}

static void
test_invalid_strings(void)
{
    static const Invalid cases[] = {
        {TEXT("\""), AT(1, 1, 2) "the text ends within a string"},
        {TEXT("\"abc"), AT(4, 1, 5) "the text ends within a string"},
        {TEXT("\"abcdefgh"), AT(9, 1, 10) "the text ends within a string"},
        {TEXT("\"\\"), AT(2, 1, 3) "the text ends within a string"},
        {TEXT("\"\\\""), AT(3, 1, 4) "the text ends within a string"},
        {TEXT("\"\\x41\""), AT(1, 1, 2) "'\\x' is not a JSON escape"},
        {TEXT("\"\\'\""), AT(1, 1, 2) "'\\'' is not a JSON escape"},
        {TEXT("\"\\\n\""), AT(1, 1, 2) "backslash and byte 0x0a are not a JSON escape"},
        {TEXT("\"\\\0\""), AT(1, 1, 2) "backslash and byte 0x00 are not a JSON escape"},
        {TEXT("\"\\u\""), AT(1, 1, 2) "\\u needs four hexadecimal digits"},
        {TEXT("\"\\u12"), AT(1, 1, 2) "\\u needs four hexadecimal digits"},
        {TEXT("\"\\u12g4\""), AT(1, 1, 2) "\\u needs four hexadecimal digits"},
        {TEXT("\"\\U0041\""), AT(1, 1, 2) "'\\U' is not a JSON escape"},
        {TEXT("\"\\ud83d\\uzz\""), AT(7, 1, 8) "\\u needs four hexadecimal digits"},
        {TEXT("\"a\nb\""), AT(2, 1, 3) "byte 0x0a in a string must be written as \\u000a"},
        {TEXT("\"a\tb\""), AT(2, 1, 3) "byte 0x09 in a string must be written as \\u0009"},
        {TEXT("\"a\0b\""), AT(2, 1, 3) "byte 0x00 in a string must be written as \\u0000"},
        {TEXT("\"1234567\x1f\""), AT(8, 1, 9) "byte 0x1f in a string must be written as \\u001f"},
        {TEXT("{\"a"), AT(3, 1, 4) "the text ends within a string"},
    };
    check_invalid(cases, G_N_ELEMENTS(cases));
}

static void
test_invalid_utf8(void)
{
    static const Invalid cases[] = {
        {TEXT("\"\x80\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0x80)"},
        {TEXT("\"\xff\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xff)"},
        {TEXT("\"\xc0\xaf\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xc0)"},
        {TEXT("\"\xc1\xbf\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xc1)"},
        {TEXT("\"\xe0\x9f\xbf\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xe0)"},
        {TEXT("\"\xf0\x8f\xbf\xbf\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xf0)"},
        {TEXT("\"\xf4\x90\x80\x80\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xf4)"},
        {TEXT("\"\xf5\x80\x80\x80\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xf5)"},
        {TEXT("\"\xed\xa0\x80\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xed)"},
        {TEXT("\"\xed\xbf\xbf\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xed)"},
        {TEXT("\"é\xc3\""), AT(3, 1, 3) "the text is not valid UTF-8 (byte 0xc3)"},
        {TEXT("\"\xe2\x82\""), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xe2)"},
        {TEXT("\"\xf0\x9f\x98"), AT(1, 1, 2) "the text is not valid UTF-8 (byte 0xf0)"},
        {TEXT("\"€€€\xe2\x28\xa1\""), AT(10, 1, 5) "the text is not valid UTF-8 (byte 0xe2)"},
    };
    check_invalid(cases, G_N_ELEMENTS(cases));
    static const Invalid mark = {
        TEXT("\xef\xbb\xbf{}"),
        "at byte 0: the text begins with a byte order mark (EF BB BF); "
        "save it as UTF-8 without one",
    };
    check_invalid(&mark, 1);
}

/* If bytes are cut off at its end, a text is not valid any more, except for numbers and
 * whitespace. */
static void
test_truncated(void)
{
    static const char text[] =
        "{\"a\":[1.5e+3,-0,true,false,null,\"\\u00e9\\ud83d\\ude00\\n\",\"é€😀\"],"
        "\"b\":{\"c\":{}},\"d\":[[]]}";
    for (size_t size = 0; size < sizeof text - 1; size++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(IpbJsonDoc) doc = parse(text, size, &IPB_JSON_LIMITS_SMALL, &error);
        g_assert_null(doc);
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
    }
    g_autoptr(IpbJsonDoc) doc = parse_valid(text, sizeof text - 1);
    g_assert_nonnull(doc);
}

static void
check_limit(const char *text, IpbJsonLimits limits, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) doc = parse(text, strlen(text), &limits, &error);
    if (message == NULL) {
        g_assert_no_error(error);
        g_assert_nonnull(doc);
    } else {
        g_assert_null(doc);
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
        g_assert_cmpstr(error->message, ==, message);
    }
}

static void
test_limits(void)
{
    check_limit("1234", (IpbJsonLimits){4, 0, 1}, NULL);
    check_limit("12345", (IpbJsonLimits){4, 0, 1},
                "the JSON text is too long: 5 bytes, the maximum is 4");
    check_limit("[[[1]]]", (IpbJsonLimits){100, 3, 100}, NULL);
    check_limit("[[[1]],[[2]]]", (IpbJsonLimits){100, 3, 100}, NULL);
    check_limit("[[[{}]]]", (IpbJsonLimits){100, 3, 100},
                "invalid JSON at byte 3 (line 1, column 4): "
                "arrays and objects are nested more than 3 deep");
    check_limit("[]", (IpbJsonLimits){100, 0, 100},
                "invalid JSON at byte 0 (line 1, column 1): "
                "arrays and objects are nested more than 0 deep");
    check_limit("[1,{\"a\":2}]", (IpbJsonLimits){100, 3, 4}, NULL);
    check_limit("[1,{\"a\":2}]", (IpbJsonLimits){100, 3, 3},
                "invalid JSON at byte 8 (line 1, column 9): there are more than 3 values");
    check_limit("1", (IpbJsonLimits){100, 3, 0},
                "invalid JSON at byte 0 (line 1, column 1): there are more than 0 values");
}

static void
test_deep_and_wide(void)
{
    enum { DEPTH = 100000, WIDTH = 100000 };
    IpbJsonLimits limits = {SIZE_MAX, DEPTH, SIZE_MAX};
    g_autoptr(GString) deep = g_string_new(NULL);
    for (int i = 0; i < DEPTH; i++)
        g_string_append(deep, i % 2 == 0 ? "[" : "{\"a\":");
    g_string_append(deep, "null");
    for (int i = DEPTH; i-- > 0;)
        g_string_append_c(deep, i % 2 == 0 ? ']' : '}');
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(deep->str, deep->len, &limits, NULL);
    const IpbJson *value = ipb_json_root(doc);
    for (int i = 0; i < DEPTH; i++) {
        g_assert_cmpuint(ipb_json_length(value), ==, 1);
        value = ipb_json_first(value);
    }
    g_assert_true(ipb_json_is(value, IPB_JSON_NULL));

    g_autoptr(GString) wide = g_string_new("[0");
    for (int i = 1; i < WIDTH; i++)
        g_string_append_printf(wide, ",[%d]", i);
    g_string_append_c(wide, ']');
    g_autoptr(IpbJsonDoc) other = ipb_json_parse(wide->str, wide->len, &limits, NULL);
    int64_t n = 0, number;
    IPB_JSON_FOREACH (item, ipb_json_root(other)) {
        g_assert_true(ipb_json_int64(n == 0 ? item : ipb_json_first(item), &number));
        g_assert_cmpint(number, ==, n++);
    }
    g_assert_cmpint(n, ==, WIDTH);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json/parse/valid", test_valid);
    g_test_add_func("/json/parse/invalid-structure", test_invalid_structure);
    g_test_add_func("/json/parse/invalid-numbers", test_invalid_numbers);
    g_test_add_func("/json/parse/invalid-strings", test_invalid_strings);
    g_test_add_func("/json/parse/invalid-utf8", test_invalid_utf8);
    g_test_add_func("/json/parse/truncated", test_truncated);
    g_test_add_func("/json/parse/limits", test_limits);
    g_test_add_func("/json/parse/deep-and-wide", test_deep_and_wide);
    return g_test_run();
}
