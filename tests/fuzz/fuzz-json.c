/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes are parsed. Valid JSON must be the same after both ways of writing it, and the raw
 * scanner must find the members that the tree has. Other input must do no harm.
 */
#include <stdint.h>
#include <string.h>

#include "json/json.h"
#include "json/writer.h"

/* So many members of the root are looked up. */
#define MAX_MEMBERS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_equal_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
    g_assert_cmpint(a == NULL, ==, b == NULL);
    if (a != NULL)
        g_assert_cmpmem(a, a_size, b, b_size);
}

/* The same values in the same order. Also checks the accessors of one of them. */
static void
check_equal(const IpbJson *a, const IpbJson *b)
{
    size_t a_size = 0, b_size = 0;
    g_assert_cmpint((int) ipb_json_type(a), ==, (int) ipb_json_type(b));
    g_assert_cmpuint(ipb_json_length(a), ==, ipb_json_length(b));
    g_assert_cmpint(ipb_json_bool(a, false), ==, ipb_json_bool(b, false));
    g_assert_cmpstr(ipb_json_number(a), ==, ipb_json_number(b));
    const char *text = ipb_json_string(a, &a_size), *other = ipb_json_string(b, &b_size);
    check_equal_bytes(text, a_size, other, b_size);
    text = ipb_json_name(a, &a_size), other = ipb_json_name(b, &b_size);
    check_equal_bytes(text, a_size, other, b_size);
    int64_t integer;
    double number;
    if (ipb_json_int64(a, &integer))
        g_assert_true(ipb_json_double(a, &number) && number == (double) integer);
    const IpbJson *one = ipb_json_first(a), *two = ipb_json_first(b);
    for (; one != NULL && two != NULL; one = ipb_json_next(one), two = ipb_json_next(two))
        check_equal(one, two);
    g_assert_true(one == NULL && two == NULL);
}

/* Decodes and encodes everything but the numbers. */
static void
rewrite(IpbJsonWriter *writer, const IpbJson *value)
{
    size_t size;
    const char *text;
    switch (ipb_json_type(value)) {
    case IPB_JSON_NULL:
        ipb_json_write_null(writer);
        break;
    case IPB_JSON_BOOL:
        ipb_json_write_bool(writer, ipb_json_bool(value, false));
        break;
    case IPB_JSON_NUMBER:
        ipb_json_write_value(writer, value);
        break;
    case IPB_JSON_STRING:
        text = ipb_json_string(value, &size);
        ipb_json_write_string_n(writer, text, size);
        break;
    case IPB_JSON_ARRAY:
        ipb_json_begin_array(writer);
        IPB_JSON_FOREACH (item, value)
            rewrite(writer, item);
        ipb_json_end_array(writer);
        break;
    case IPB_JSON_OBJECT:
        ipb_json_begin_object(writer);
        IPB_JSON_FOREACH (member, value) {
            text = ipb_json_name(member, &size);
            ipb_json_key_n(writer, text, size);
            rewrite(writer, member);
        }
        ipb_json_end_object(writer);
        break;
    }
}

/* What @writer holds is JSON on one line; frees it. */
static IpbJsonDoc *
finish_and_parse(IpbJsonWriter *writer)
{
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    g_assert_null(memchr(text, '\n', size));
    g_assert_null(g_strstr_len(text, (gssize) size, "\xe2\x80\xa8"));
    IpbJsonLimits limits = {SIZE_MAX, 1000, SIZE_MAX};
    g_autoptr(GError) error = NULL;
    IpbJsonDoc *doc = ipb_json_parse(text, size, &limits, &error);
    g_assert_no_error(error);
    return doc;
}

static void
check_members(const IpbJson *root, IpbSpan text)
{
    int n = 0;
    IPB_JSON_FOREACH (member, root) {
        size_t size;
        const char *name = ipb_json_name(member, &size);
        if (name == NULL || strlen(name) != size || n++ == MAX_MEMBERS)
            continue;
        IpbSpan found, raw = ipb_json_raw(ipb_json_get(root, name));
        g_assert_true(ipb_json_scan_member(text, name, &found));
        g_assert_cmpmem(found.start, found.size, raw.start, raw.size);
    }
}

static void
check_valid(const IpbJsonDoc *doc, IpbSpan text)
{
    const IpbJson *root = ipb_json_root(doc);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_write_value(writer, root);
    g_autoptr(IpbJsonDoc) copy = finish_and_parse(writer);
    check_equal(root, ipb_json_root(copy));

    writer = ipb_json_writer_new();
    rewrite(writer, root);
    g_autoptr(IpbJsonDoc) rewritten = finish_and_parse(writer);
    check_equal(root, ipb_json_root(rewritten));
    g_assert_cmpint(ipb_json_has_duplicates(doc), ==, ipb_json_has_duplicates(rewritten));
    check_members(root, text);
}

/* Any bytes as a string are valid JSON, and remain the same when parsed and written again. */
static void
check_string(const char *text, size_t size)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_write_string_n(writer, text, size);
    g_autoptr(IpbJsonDoc) doc = finish_and_parse(writer);
    size_t first_size, second_size;
    const char *first = ipb_json_string(ipb_json_root(doc), &first_size);
    writer = ipb_json_writer_new();
    ipb_json_write_string_n(writer, first, first_size);
    g_autoptr(IpbJsonDoc) again = finish_and_parse(writer);
    const char *second = ipb_json_string(ipb_json_root(again), &second_size);
    g_assert_cmpmem(first, first_size, second, second_size);
    if (g_utf8_validate_len(text, size, NULL))
        g_assert_cmpmem(first, first_size, text, size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const IpbJsonLimits limits = {1 << 20, 100, 100000};
    IpbSpan text = {(const char *) data, size}, found;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text.start, size, &limits, &error);
    g_assert_cmpint(doc != NULL, ==, error == NULL);
    if (doc != NULL)
        check_valid(doc, text);
    check_string(text.start, size);
    if (ipb_json_scan_member(text, "a", &found))
        g_assert_true(found.start > text.start && found.start + found.size < text.start + size);
    g_autoptr(IpbJsonWriter) writer = ipb_json_writer_new();
    ipb_json_write_raw(writer, text.start, size);
    return 0;
}
