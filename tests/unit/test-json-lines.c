/* SPDX-License-Identifier: Apache-2.0 */
#include "json/lines.h"

#include <string.h>

#include "base/error.h"

#define MAX_LINE 8

static void
push(IpbLineReader *reader, const char *bytes, size_t size)
{
    GError *error = NULL;
    g_autofree char *exact = g_memdup2(bytes, size); /* so that a sanitizer sees a read beyond */
    g_assert_true(ipb_line_reader_push(reader, exact, size, &error));
    g_assert_no_error(error);
}

/* All complete lines, each as "<line>". */
static void
take(IpbLineReader *reader, GString *out)
{
    const char *line;
    size_t size;
    while (ipb_line_reader_next(reader, &line, &size)) {
        g_string_append_c(out, '<');
        g_string_append_len(out, line, (gssize) size);
        g_string_append_c(out, '>');
    }
    g_assert_false(ipb_line_reader_next(reader, &line, &size));
}

static void
take_rest(IpbLineReader *reader, GString *out)
{
    const char *line;
    size_t size;
    if (ipb_line_reader_rest(reader, &line, &size)) {
        g_string_append(out, "rest:");
        g_string_append_len(out, line, (gssize) size);
    }
    g_assert_false(ipb_line_reader_rest(reader, &line, &size));
    g_assert_false(ipb_line_reader_next(reader, &line, &size));
}

static void
check(const char *text, size_t size, const char *expected, size_t expected_size)
{
    /* In two pieces, split at every byte; taken after each piece, and only at the end. */
    for (size_t cut = 0; cut <= size; cut++) {
        for (int between = 0; between < 2; between++) {
            IpbLineReader reader;
            g_autoptr(GString) out = g_string_new(NULL);
            ipb_line_reader_init(&reader, MAX_LINE);
            push(&reader, text, cut);
            if (between == 0)
                take(&reader, out);
            push(&reader, text + cut, size - cut);
            take(&reader, out);
            take_rest(&reader, out);
            g_assert_cmpmem(out->str, out->len, expected, expected_size);
            ipb_line_reader_clear(&reader);
        }
    }
    /* Byte by byte. */
    IpbLineReader reader;
    g_autoptr(GString) out = g_string_new(NULL);
    ipb_line_reader_init(&reader, MAX_LINE);
    for (size_t i = 0; i < size; i++) {
        push(&reader, text + i, 1);
        take(&reader, out);
    }
    take_rest(&reader, out);
    g_assert_cmpmem(out->str, out->len, expected, expected_size);
    ipb_line_reader_clear(&reader);
}
#define CHECK(text, expected) check(text, sizeof text - 1, expected, sizeof expected - 1)

static void
test_lines(void)
{
    CHECK("", "");
    CHECK("\n", "<>");
    CHECK("one\n", "<one>");
    CHECK("one\ntwo\n\nthree", "<one><two><>rest:three");
    CHECK("one\r\n\r\ntwo\r\r\nth\rree\n", "<one><><two\r><th\rree>");
    CHECK("a\0b\n\0\n", "<a\0b><\0>");
    CHECK("rest\r", "rest:rest\r");
    CHECK("12345678\n12345678\r\n12345678", "<12345678><12345678>rest:12345678");
    CHECK("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "<1><2><3><4><5><6><7><8><9>"); /* more than a line */
}

static void
check_too_long(const char *text, size_t cut)
{
    IpbLineReader reader;
    g_autoptr(GError) error = NULL;
    ipb_line_reader_init(&reader, MAX_LINE);
    push(&reader, text, cut);
    g_assert_false(ipb_line_reader_push(&reader, text + cut, strlen(text) - cut, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_cmpstr(error->message, ==, "a line is longer than the maximum of 8 bytes");
    /* The failed push has no effect. */
    g_autoptr(GString) out = g_string_new(NULL);
    take(&reader, out);
    take_rest(&reader, out);
    ipb_line_reader_clear(&reader);
    g_autoptr(GString) expected = g_string_new(NULL);
    push(&reader, text, cut);
    take(&reader, expected);
    take_rest(&reader, expected);
    ipb_line_reader_clear(&reader);
    g_assert_cmpstr(out->str, ==, expected->str);
}

static void
test_too_long(void)
{
    static const char *const texts[] = {
        "123456789\n", "123456789", "12345678\r\r\n", "12345678\r\r", "1\n123456789\n2\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        for (size_t cut = 0; cut <= MAX_LINE && cut < strlen(texts[i]); cut++)
            check_too_long(texts[i], cut);
    }
    /* Byte by byte: the first byte too many is refused, not only the newline. */
    IpbLineReader reader;
    ipb_line_reader_init(&reader, MAX_LINE);
    for (int i = 0; i < MAX_LINE; i++)
        push(&reader, "x", 1);
    g_assert_false(ipb_line_reader_push(&reader, "x", 1, NULL));
    g_assert_true(ipb_line_reader_push(&reader, "\r", 1, NULL));
    g_assert_false(ipb_line_reader_push(&reader, "x", 1, NULL));
    push(&reader, "\n", 1);
    g_autoptr(GString) out = g_string_new(NULL);
    take(&reader, out);
    g_assert_cmpstr(out->str, ==, "<xxxxxxxx>");
    ipb_line_reader_clear(&reader);
}

/* A line of megabytes in small pieces, with a search after each: each byte must be scanned only
 * once. The line stays, although the reader returns the memory of an empty buffer. */
static void
test_long_line(void)
{
    enum { PIECE = 16, PIECES = 1 << 18 };
    IpbLineReader reader;
    ipb_line_reader_init(&reader, PIECE * PIECES);
    const char *line;
    size_t size;
    for (int i = 0; i < PIECES; i++) {
        push(&reader, "0123456789abcdef", PIECE);
        g_assert_false(ipb_line_reader_next(&reader, &line, &size));
        g_assert_cmpuint(reader.scanned, ==, PIECE * (size_t) (i + 1));
    }
    push(&reader, "\nafter\n", 7);
    g_assert_true(ipb_line_reader_next(&reader, &line, &size));
    g_assert_cmpuint(size, ==, PIECE * PIECES);
    g_assert_cmpmem(line + size - PIECE, PIECE, "0123456789abcdef", PIECE);
    g_assert_true(ipb_line_reader_next(&reader, &line, &size));
    g_assert_cmpmem(line, size, "after", 5);
    g_assert_false(ipb_line_reader_next(&reader, &line, &size));
    ipb_line_reader_clear(&reader);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json/lines/lines", test_lines);
    g_test_add_func("/json/lines/too-long", test_too_long);
    g_test_add_func("/json/lines/long-line", test_long_line);
    return g_test_run();
}
