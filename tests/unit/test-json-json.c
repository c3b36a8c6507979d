/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a parsed document: strings, numbers, members, duplicates, and the raw scanner.
 */
#include "json/json.h"

#include <math.h>
#include <string.h>

static IpbJsonDoc *
parse(const char *text, size_t size)
{
    g_autoptr(GError) error = NULL;
    IpbJsonDoc *doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, &error);
    g_assert_no_error(error);
    return doc;
}

static void
check_string(const char *text, const char *expected, size_t expected_size)
{
    g_autoptr(IpbJsonDoc) doc = parse(text, strlen(text));
    size_t size = 0;
    const char *string = ipb_json_string(ipb_json_root(doc), &size);
    g_assert_cmpmem(string, size, expected, expected_size);
    g_assert_cmpint(string[size], ==, '\0');
    g_assert_true(ipb_json_string(ipb_json_root(doc), NULL) == string);
}
#define CHECK_STRING(text, expected) check_string(text, expected, sizeof expected - 1)

static void
test_strings(void)
{
    CHECK_STRING("\"\"", "");
    CHECK_STRING("\"abc\"", "abc");
    CHECK_STRING("\"12345678\"", "12345678");
    CHECK_STRING("\"a longer string, with \\\"quotes\\\" in it\"",
                 "a longer string, with \"quotes\" in it");
    CHECK_STRING("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    CHECK_STRING("\"a\\u0000b\"", "a\0b");
    CHECK_STRING("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
                 "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf");
    CHECK_STRING("\"é€😀\"", "é€😀");
    CHECK_STRING("\"\\ud83d\\ude00\"", "😀");
    CHECK_STRING("\"\\uD800\\uDC00\\uDBFF\\uDFFF\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
    CHECK_STRING("\"\\u2028\xe2\x80\xa9\"", "\xe2\x80\xa8\xe2\x80\xa9");
    /* Lone surrogates: high, low, high before another character, in the wrong order, two highs. */
    CHECK_STRING("\"\\ud83d\"", "\xed\xa0\xbd");
    CHECK_STRING("\"\\ude00\"", "\xed\xb8\x80");
    CHECK_STRING("\"\\ud83dx\"", "\xed\xa0\xbdx");
    CHECK_STRING("\"\\ud83d\\n\"", "\xed\xa0\xbd\n");
    CHECK_STRING("\"\\ud83d\\u0041\"", "\xed\xa0\xbd"
                                       "A");
    CHECK_STRING("\"\\ude00\\ud83d\"", "\xed\xb8\x80\xed\xa0\xbd");
    CHECK_STRING("\"\\ud83d\\ud83d\\ude00\"", "\xed\xa0\xbd😀");
}

typedef struct {
    const char *text;
    bool is_int;
    int64_t integer;
    double number;
} Number;

static void
test_numbers(void)
{
    static const Number cases[] = {
        {"0", true, 0, 0.0},
        {"-0", true, 0, -0.0},
        {"0e999999999999999999999", true, 0, 0.0},
        {"0.000", true, 0, 0.0},
        {"42", true, 42, 42.0},
        {"-7", true, -7, -7.0},
        {"1.0", true, 1, 1.0},
        {"1e3", true, 1000, 1000.0},
        {"1E+3", true, 1000, 1000.0},
        {"-1.5e1", true, -15, -15.0},
        {"120.00e-1", true, 12, 12.0},
        {"0.00012e5", true, 12, 12.0},
        {"10203.040506e6", true, 10203040506, 10203040506.0},
        {"1000e-3", true, 1, 1.0},
        {"9223372036854775807", true, INT64_MAX, 0x1p63},
        {"-9223372036854775808", true, INT64_MIN, -0x1p63},
        {"9.223372036854775807e18", true, INT64_MAX, 0x1p63},
        {"9223372036854775808", false, 0, 0x1p63},
        {"-9223372036854775809", false, 0, -0x1p63},
        {"1e19", false, 0, 1e19},
        {"99999999999999999999", false, 0, 1e20},
        {"1180591620717411303424", false, 0, 0x1p70},
        {"0.1", false, 0, 0.1},
        {"1.5", false, 0, 1.5},
        {"100.5", false, 0, 100.5},
        {"1e-1", false, 0, 0.1},
        {"12e-2", false, 0, 0.12},
        {"1e400", false, 0, HUGE_VAL},
        {"-1e400", false, 0, -HUGE_VAL},
        {"1e99999999999999999999999", false, 0, HUGE_VAL},
        {"1e-99999999999999999999999", false, 0, 0.0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(IpbJsonDoc) doc = parse(cases[i].text, strlen(cases[i].text));
        const IpbJson *value = ipb_json_root(doc);
        g_assert_cmpstr(ipb_json_number(value), ==, cases[i].text);
        int64_t integer = 12345;
        g_assert_cmpint(ipb_json_int64(value, &integer), ==, cases[i].is_int);
        g_assert_cmpint(integer, ==, cases[i].is_int ? cases[i].integer : 12345);
        double number;
        g_assert_true(ipb_json_double(value, &number));
        g_assert_cmpfloat(number, ==, cases[i].number);
        g_assert_cmpint(!!signbit(number), ==, !!signbit(cases[i].number));
    }
}

/* Digits and exponent that cancel out over more than a megabyte. */
static void
test_long_number(void)
{
    enum { ZEROS = 1 << 20 };
    g_autoptr(GString) text = g_string_new("0.");
    for (int i = 1; i < ZEROS; i++)
        g_string_append_c(text, '0');
    g_string_append_printf(text, "7e%d", ZEROS);
    g_autoptr(IpbJsonDoc) doc = parse(text->str, text->len);
    int64_t integer;
    g_assert_true(ipb_json_int64(ipb_json_root(doc), &integer));
    g_assert_cmpint(integer, ==, 7);
}

static void
test_members(void)
{
    static const char text[] =
        " { \"b\" : [ 1 , 2 ] , \"a\" : { } , \"\\u0063\" : \"x\\u0000y\" , \"b\" : true , "
        "\"n\" : 1e1 , \"s\" : \"text\" , \"\" : null , \"a\\u0000b\" : 2 } ";
    g_autoptr(IpbJsonDoc) doc = parse(text, sizeof text - 1);
    const IpbJson *root = ipb_json_root(doc);
    static const char *const names[] = {"b", "a", "c", "b", "n", "s", "", "a"};
    static const char *const raws[] = {"[ 1 , 2 ]", "{ }",      "\"x\\u0000y\"", "true",
                                       "1e1",       "\"text\"", "null",          "2"};
    size_t i = 0;
    IPB_JSON_FOREACH (member, root) {
        size_t size;
        IpbSpan raw = ipb_json_raw(member);
        g_assert_cmpstr(ipb_json_name(member, &size), ==, names[i]);
        g_assert_cmpuint(size, ==, i == 7 ? 3 : strlen(names[i]));
        g_assert_cmpmem(raw.start, raw.size, raws[i], strlen(raws[i]));
        i++;
    }
    g_assert_cmpuint(i, ==, G_N_ELEMENTS(names));
    g_assert_cmpuint(ipb_json_length(root), ==, G_N_ELEMENTS(names));
    g_assert_null(ipb_json_name(ipb_json_first(ipb_json_first(root)), NULL));

    g_assert_true(ipb_json_is(ipb_json_get(root, "b"), IPB_JSON_BOOL)); /* the last one */
    g_assert_true(ipb_json_is(ipb_json_get(root, ""), IPB_JSON_NULL));
    g_assert_true(ipb_json_is(ipb_json_get(root, "a"), IPB_JSON_OBJECT));
    g_assert_null(ipb_json_get(root, "missing"));
    g_assert_null(ipb_json_get(ipb_json_first(root), "b"));
    g_assert_null(ipb_json_get_string(root, "c")); /* holds a NUL */
    g_assert_cmpstr(ipb_json_get_string(root, "s"), ==, "text");
    g_assert_null(ipb_json_get_string(root, "n"));
    int64_t integer;
    g_assert_true(ipb_json_get_int64(root, "n", &integer));
    g_assert_cmpint(integer, ==, 10);
    g_assert_false(ipb_json_get_int64(root, "s", &integer));
    g_assert_true(ipb_json_get_bool(root, "b", false));
    g_assert_true(ipb_json_get_bool(root, "s", true));
    g_assert_false(ipb_json_get_bool(root, "missing", false));
}

static void
test_nothing(void)
{
    int64_t integer;
    double number;
    g_assert_false(ipb_json_is(NULL, IPB_JSON_NULL));
    g_assert_null(ipb_json_raw(NULL).start);
    g_assert_true(ipb_json_bool(NULL, true));
    g_assert_null(ipb_json_string(NULL, NULL));
    g_assert_null(ipb_json_number(NULL));
    g_assert_false(ipb_json_int64(NULL, &integer));
    g_assert_false(ipb_json_double(NULL, &number));
    g_assert_cmpuint(ipb_json_length(NULL), ==, 0);
    g_assert_null(ipb_json_first(NULL));
    g_assert_null(ipb_json_next(NULL));
    g_assert_null(ipb_json_name(NULL, NULL));
    g_assert_null(ipb_json_get(NULL, "a"));
    ipb_json_doc_free(NULL);

    g_autoptr(IpbJsonDoc) doc = parse("\"text\"", 6);
    g_assert_cmpuint(ipb_json_length(ipb_json_root(doc)), ==, 0);
    g_assert_null(ipb_json_first(ipb_json_root(doc)));
    g_assert_false(ipb_json_bool(ipb_json_root(doc), false));
    g_assert_false(ipb_json_double(ipb_json_root(doc), &number));
}

static bool
has_duplicates(const char *text)
{
    g_autoptr(IpbJsonDoc) doc = parse(text, strlen(text));
    return ipb_json_has_duplicates(doc);
}

/* An object of @n members, the last of which has the name of member @twin. */
static char *
make_object(int n, int twin)
{
    GString *text = g_string_new("{\"name0\":[1]");
    for (int i = 1; i < n; i++)
        g_string_append_printf(text, ",\"name%d\":[{}]", i == n - 1 ? twin : i);
    return g_string_free(g_string_append_c(text, '}'), FALSE);
}

static void
test_duplicates(void)
{
    g_assert_false(has_duplicates("1"));
    g_assert_false(has_duplicates("{}"));
    g_assert_false(has_duplicates("{\"a\":1,\"b\":{\"a\":1},\"A\":2,\"\":3}"));
    g_assert_true(has_duplicates("{\"a\":1,\"b\":2,\"a\":1}"));
    g_assert_true(has_duplicates("[{\"x\":{\"\":1,\"\":2}}]"));
    g_assert_true(has_duplicates("{\"\\u0061\":1,\"a\":2}"));
    g_assert_false(has_duplicates("{\"a\":1,\"a\\u0000\":2}"));
    static const int sizes[] = {2, 15, 16, 17, 18, 1000};
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        int n = sizes[i];
        g_autofree char *without = make_object(n, n - 1);
        g_autofree char *with = make_object(n, n / 2 - (n == 2));
        g_assert_false(has_duplicates(without));
        g_assert_true(has_duplicates(with));
    }
    /* A quadratic search would take hours. */
    g_autofree char *many = make_object(1000000, 999999);
    g_assert_false(has_duplicates(many));
}

static void
check_member(const char *text, const char *name, const char *expected)
{
    size_t size = strlen(text);
    g_autofree char *exact = g_malloc(size > 0 ? size : 1);
    memcpy(exact, text, size);
    IpbSpan value = {NULL, 0};
    bool found = ipb_json_scan_member((IpbSpan){exact, size}, name, &value);
    g_assert_cmpint(found, ==, expected != NULL);
    if (found)
        g_assert_cmpmem(value.start, value.size, expected, strlen(expected));
}

static void
test_scan_member(void)
{
    static const char text[] =
        " {\"a\":1, \"text\" : \"a }]{[, \\\\\\\" and more\" ,\"o\":{\"a\":[1,{\"a\":2}, \"]\"]},"
        "\"\\u006eame\":true,\"a\" : [ null ]\n, \"last\":-1.5e3 } ";
    check_member(text, "a", "[ null ]");
    check_member(text, "text", "\"a }]{[, \\\\\\\" and more\"");
    check_member(text, "o", "{\"a\":[1,{\"a\":2}, \"]\"]}");
    check_member(text, "name", "true");
    check_member(text, "last", "-1.5e3");
    check_member(text, "missing", NULL);
    check_member("{}", "a", NULL);
    check_member("", "a", NULL);
    check_member("[1]", "a", NULL);
    check_member("\"a\"", "a", NULL);
    check_member("{\"a\":1}}", "a", NULL);
    check_member("{\"a\":1} x", "a", NULL);
    check_member("{\"a\":1,}", "a", NULL);
    check_member("{\"a\":}", "a", NULL);
    check_member("{\"a\" 1}", "a", NULL);
    for (size_t size = 0; size < sizeof text - 2; size++) {
        g_autofree char *cut = g_strndup(text, size);
        check_member(cut, "a", NULL);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json/json/strings", test_strings);
    g_test_add_func("/json/json/numbers", test_numbers);
    g_test_add_func("/json/json/long-number", test_long_number);
    g_test_add_func("/json/json/members", test_members);
    g_test_add_func("/json/json/nothing", test_nothing);
    g_test_add_func("/json/json/duplicates", test_duplicates);
    g_test_add_func("/json/json/scan-member", test_scan_member);
    return g_test_run();
}
