/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <glib.h>

#include "http/conditions.h"

static IpbSpan
span(const char *text)
{
    return (IpbSpan){text, strlen(text)};
}

static void
test_tags(void)
{
    static const struct {
        const char *list;
        IpbHttpTags strong, weak; /* of the tag "a" */
    } ROWS[] = {
        {"*", IPB_HTTP_TAGS_MATCH, IPB_HTTP_TAGS_MATCH},
        {"\"a\"", IPB_HTTP_TAGS_MATCH, IPB_HTTP_TAGS_MATCH},
        {"W/\"a\"", IPB_HTTP_TAGS_NO_MATCH, IPB_HTTP_TAGS_MATCH},
        {"\"b\" ,\t\"a\"", IPB_HTTP_TAGS_MATCH, IPB_HTTP_TAGS_MATCH},
        {",\"a\",,", IPB_HTTP_TAGS_MATCH, IPB_HTTP_TAGS_MATCH},
        {"\"b\", \"c,\"", IPB_HTTP_TAGS_NO_MATCH, IPB_HTTP_TAGS_NO_MATCH},
        {"\"A\"", IPB_HTTP_TAGS_NO_MATCH, IPB_HTTP_TAGS_NO_MATCH},
        {"\"\"", IPB_HTTP_TAGS_NO_MATCH, IPB_HTTP_TAGS_NO_MATCH},
        {"a", IPB_HTTP_TAGS_BAD, IPB_HTTP_TAGS_BAD},
        {"", IPB_HTTP_TAGS_BAD, IPB_HTTP_TAGS_BAD},
        {",", IPB_HTTP_TAGS_BAD, IPB_HTTP_TAGS_BAD},
        {"\"a", IPB_HTTP_TAGS_BAD, IPB_HTTP_TAGS_BAD},
        {"\"a\" \"b\"", IPB_HTTP_TAGS_BAD, IPB_HTTP_TAGS_BAD},
        {"w/\"a\"", IPB_HTTP_TAGS_BAD, IPB_HTTP_TAGS_BAD},
        {"*, \"a\"", IPB_HTTP_TAGS_BAD, IPB_HTTP_TAGS_BAD},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        g_test_message("%s", ROWS[i].list);
        g_assert_cmpint(ipb_http_tags_match(span(ROWS[i].list), "a", false), ==, ROWS[i].strong);
        g_assert_cmpint(ipb_http_tags_match(span(ROWS[i].list), "a", true), ==, ROWS[i].weak);
        g_assert_cmpint(ipb_http_tags_match(span(ROWS[i].list), NULL, true), !=,
                        IPB_HTTP_TAGS_MATCH);
    }
}

static void
test_ranges(void)
{
    static const struct {
        const char *text;
        IpbHttpRange result;
        uint64_t start, size; /* of 10 bytes */
    } ROWS[] = {
        {"bytes=0-0", IPB_HTTP_RANGE_PART, 0, 1},
        {"bytes=9-", IPB_HTTP_RANGE_PART, 9, 1},
        {"bytes=2-99", IPB_HTTP_RANGE_PART, 2, 8},
        {"bytes=-3", IPB_HTTP_RANGE_PART, 7, 3},
        {"bytes=-99", IPB_HTTP_RANGE_PART, 0, 10},
        {"bytes=10-", IPB_HTTP_RANGE_OUTSIDE, 0, 0},
        {"bytes=-0", IPB_HTTP_RANGE_OUTSIDE, 0, 0},
        {"bytes=3-2", IPB_HTTP_RANGE_NONE, 0, 0},
        {"bytes=", IPB_HTTP_RANGE_NONE, 0, 0},
        {"bytes=-", IPB_HTTP_RANGE_NONE, 0, 0},
        {"bytes=0", IPB_HTTP_RANGE_NONE, 0, 0},
        {"bytes=0-1,3-", IPB_HTTP_RANGE_NONE, 0, 0},
        {"bytes=+1-2", IPB_HTTP_RANGE_NONE, 0, 0},
        {"bytes=0-1 ", IPB_HTTP_RANGE_NONE, 0, 0},
        {"Bytes=0-1", IPB_HTTP_RANGE_NONE, 0, 0},
        {"bytes=1-0000000000000000000000", IPB_HTTP_RANGE_NONE, 0, 0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        uint64_t start = 0, size = 0;
        g_test_message("%s", ROWS[i].text);
        g_assert_cmpint(ipb_http_range_parse(span(ROWS[i].text), 10, &start, &size), ==,
                        ROWS[i].result);
        if (ROWS[i].result != IPB_HTTP_RANGE_PART)
            continue;
        g_assert_cmpuint(start, ==, ROWS[i].start);
        g_assert_cmpuint(size, ==, ROWS[i].size);
    }
    uint64_t start, size;
    g_assert_cmpint(ipb_http_range_parse(span("bytes=0-"), 0, &start, &size), ==,
                    IPB_HTTP_RANGE_OUTSIDE);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http/conditions/tags", test_tags);
    g_test_add_func("/http/conditions/ranges", test_ranges);
    return g_test_run();
}
