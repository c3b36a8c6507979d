/* SPDX-License-Identifier: Apache-2.0 */
#include "json/writer.h"

#include <string.h>

static void
check_text(IpbJsonWriter *writer, const char *expected)
{
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    g_assert_cmpstr(text, ==, expected);
    g_assert_cmpuint(size, ==, strlen(text));
}

static void
test_structure(void)
{
    IpbJsonWriter *w = ipb_json_writer_new();
    ipb_json_begin_object(w);
    ipb_json_member_int(w, "id", 7);
    ipb_json_member_string(w, "s", "x");
    ipb_json_member_string(w, "none", NULL);
    ipb_json_member_bool(w, "b", true);
    ipb_json_member_value(w, "v", NULL);
    ipb_json_key_n(w, "a\0b", 3);
    ipb_json_begin_array(w);
    ipb_json_write_int(w, INT64_MIN);
    ipb_json_write_int(w, INT64_MAX);
    ipb_json_begin_array(w);
    ipb_json_end_array(w);
    ipb_json_begin_object(w);
    ipb_json_end_object(w);
    ipb_json_write_null(w);
    ipb_json_write_bool(w, false);
    ipb_json_end_array(w);
    ipb_json_key(w, "o");
    ipb_json_begin_object(w);
    ipb_json_key(w, "");
    ipb_json_begin_array(w);
    ipb_json_end_array(w);
    ipb_json_end_object(w);
    ipb_json_end_object(w);
    check_text(w, "{\"id\":7,\"s\":\"x\",\"none\":null,\"b\":true,\"v\":null,\"a\\u0000b\":"
                  "[-9223372036854775808,9223372036854775807,[],{},null,false],"
                  "\"o\":{\"\":[]}}");
    w = ipb_json_writer_new();
    ipb_json_begin_array(w);
    ipb_json_writer_free(w); /* unfinished is fine */
    ipb_json_writer_free(NULL);
}

static void
check_string(const char *string, size_t size, const char *expected)
{
    /* Every alignment to the words that are matched. */
    for (size_t before = 0; before < 17; before++) {
        g_autofree char *padded = g_malloc(before + size + 1);
        memset(padded, '.', before);
        memcpy(padded + before, string, size);
        g_autofree char *exact = g_memdup2(padded, before + size);
        IpbJsonWriter *w = ipb_json_writer_new();
        ipb_json_write_string_n(w, exact, before + size);
        g_autofree char *wanted = g_strdup_printf("\"%.*s%s\"", (int) before, padded, expected);
        check_text(w, wanted);
    }
}
#define CHECK_STRING(string, expected) check_string(string, sizeof string - 1, expected)

static void
test_strings(void)
{
    CHECK_STRING("", "");
    CHECK_STRING("plain", "plain");
    CHECK_STRING("a longer one with more than eight bytes",
                 "a longer one with more than eight bytes");
    CHECK_STRING("\"\\/\b\f\n\r\t", "\\\"\\\\/\\b\\f\\n\\r\\t");
    CHECK_STRING("\0\x01\x1f\x7f", "\\u0000\\u0001\\u001f\x7f");
    CHECK_STRING("é€😀", "é€😀");
    CHECK_STRING("\xe2\x80\xa8 \xe2\x80\xa9\xe2\x80\xa7\xe2\x80\xaa",
                 "\\u2028 \\u2029\xe2\x80\xa7\xe2\x80\xaa");
    CHECK_STRING("\xed\xa0\xbd", "\\ud83d");
    CHECK_STRING("\xed\xbf\xbf!", "\\udfff!");
    CHECK_STRING("\xed\xa0\xbd\xed\xb8\x80", "\\ud83d\\ude00");
    CHECK_STRING("\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80");
#define R "\xef\xbf\xbd"
    CHECK_STRING("\xff", R);
    CHECK_STRING("\xc0\xaf", R R);
    CHECK_STRING("a\xe2\x80", "a" R);
    CHECK_STRING("\xe2\x80z", R "z");
    CHECK_STRING("\xf0\x9f\x98", R);
    CHECK_STRING("\xed\xa0", R R);
    CHECK_STRING("\xf4\x90\x80\x80", R R R R);
}

static void
check_raw(const char *text, const char *expected)
{
    g_autofree char *exact = g_memdup2(text, strlen(text));
    IpbJsonWriter *w = ipb_json_writer_new();
    ipb_json_begin_array(w);
    ipb_json_write_raw(w, exact, strlen(text));
    ipb_json_write_raw(w, exact, strlen(text));
    ipb_json_end_array(w);
    g_autofree char *wanted = g_strdup_printf("[%s,%s]", expected, expected);
    check_text(w, wanted);

    GError *error = NULL;
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, &error);
    g_assert_no_error(error);
    w = ipb_json_writer_new();
    ipb_json_write_value(w, ipb_json_root(doc));
    check_text(w, expected);
}

static void
test_raw(void)
{
    check_raw("1e400", "1e400");
    check_raw(" [ 1 ,\t-0.0 ,\r\n 2E+070 ] ", "[1,-0.0,2E+070]");
    check_raw("{ \"a b\" : \" c , d \" }", "{\"a b\":\" c , d \"}");
    check_raw("\"\\u00e9\\/\\ud83d \\\\\"", "\"\\u00e9\\/\\ud83d \\\\\"");
    check_raw("[\"\\\\\\\" x \", \"\\\\\" , 1]", "[\"\\\\\\\" x \",\"\\\\\",1]");
    check_raw("\"1234567\xe2\x80\xa8\xe2\x80\xa9 \xe2\x80\xa7 é\"",
              "\"1234567\\u2028\\u2029 \xe2\x80\xa7 é\"");
    check_raw("{\"\xe2\x80\xa9\":\"\xe2\x80\xa8\"}", "{\"\\u2029\":\"\\u2028\"}");
    check_raw("{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":2}");
}

/* A text that is not a JSON value is not read beyond its end. */
static void
test_member_object(void)
{
    g_autoptr(IpbJsonDoc) object = ipb_json_parse("{\"a\":1}", 7, &IPB_JSON_LIMITS_SMALL, NULL);
    g_autoptr(IpbJsonDoc) other = ipb_json_parse("[1]", 3, &IPB_JSON_LIMITS_SMALL, NULL);
    IpbJsonWriter *w = ipb_json_writer_new();
    ipb_json_begin_object(w);
    ipb_json_member_object(w, "object", ipb_json_root(object));
    ipb_json_member_object(w, "other", ipb_json_root(other));
    ipb_json_member_object(w, "none", NULL);
    ipb_json_member_int(w, "last", 1);
    ipb_json_end_object(w);
    check_text(w, "{\"object\":{\"a\":1},\"other\":{},\"none\":{},\"last\":1}");
}

static void
test_raw_cut(void)
{
    static const char text[] = "{\"a\\\"\\\\b\xe2\x80\xa8 more\":\"\\ud83d and a longer one\\\\\"}";
    for (size_t size = 0; size < sizeof text; size++) {
        g_autofree char *exact = g_memdup2(text, size);
        g_autoptr(IpbJsonWriter) w = ipb_json_writer_new();
        ipb_json_write_raw(w, exact, size);
    }
}

static const char *const misuses[] = {"no-key",    "two-keys",   "key-only", "two-values",
                                      "wrong-end", "unfinished", "empty"};

static void
check_misuse(const char *name)
{
    g_autofree char *path = g_strdup_printf("/json/writer/misuse/subprocess/%s", name);
    g_test_trap_subprocess(path, 0, G_TEST_SUBPROCESS_DEFAULT);
    g_test_trap_assert_failed();
}

static void
test_misuse(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(misuses); i++)
        check_misuse(misuses[i]);
}

static void
misuse(gconstpointer data)
{
    const char *name = data;
    if (!g_test_subprocess())
        return;
    g_autoptr(IpbJsonWriter) w = ipb_json_writer_new();
    if (g_str_equal(name, "empty")) {
        g_free(ipb_json_writer_finish(g_steal_pointer(&w), NULL));
        return;
    }
    if (g_str_equal(name, "two-values")) {
        ipb_json_write_null(w);
        ipb_json_write_null(w);
        return;
    }
    ipb_json_begin_object(w);
    if (g_str_equal(name, "unfinished")) {
        g_free(ipb_json_writer_finish(g_steal_pointer(&w), NULL));
    } else if (g_str_equal(name, "wrong-end")) {
        ipb_json_end_array(w);
    } else if (g_str_equal(name, "no-key")) {
        ipb_json_write_null(w);
    } else {
        ipb_json_key(w, "a");
        if (g_str_equal(name, "two-keys"))
            ipb_json_key(w, "b");
        ipb_json_end_object(w);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json/writer/structure", test_structure);
    g_test_add_func("/json/writer/strings", test_strings);
    g_test_add_func("/json/writer/raw", test_raw);
    g_test_add_func("/json/writer/member-object", test_member_object);
    g_test_add_func("/json/writer/raw-cut", test_raw_cut);
    g_test_add_func("/json/writer/misuse", test_misuse);
    for (size_t i = 0; i < G_N_ELEMENTS(misuses); i++) {
        g_autofree char *path = g_strdup_printf("/json/writer/misuse/subprocess/%s", misuses[i]);
        g_test_add_data_func(path, misuses[i], misuse);
    }
    return g_test_run();
}
