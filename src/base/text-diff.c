/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines that are equal at the beginning and at the end are set aside. For what is between them a
 * table of the longest common subsequence is made.
 */
#include "base/text-diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <glib.h>

#include "base/display-text.h"

#define CONTEXT 3
/* Of the table: one for each pair of lines. */
#define MAX_CELLS ((size_t) 4 << 20)

typedef struct {
    const char *text;
    size_t size; /* without the end of the line */
    bool has_end;
} Line;

typedef struct {
    char mark; /* ' ', '-', '+' */
    const Line *line;
} Row;

static GArray *
split(const char *text)
{
    GArray *lines = g_array_new(FALSE, FALSE, sizeof(Line));
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        Line line = {text, end != NULL ? (size_t) (end - text) : strlen(text), end != NULL};
        g_array_append_val(lines, line);
        text += line.size + (end != NULL);
    }
    return lines;
}

static const Line *
line_at(const GArray *lines, size_t i)
{
    return &g_array_index(lines, Line, i);
}

static bool
are_equal(const Line *a, const Line *b)
{
    return a->size == b->size && a->has_end == b->has_end && memcmp(a->text, b->text, a->size) == 0;
}

static void
add_row(GArray *rows, char mark, const Line *line)
{
    Row row = {mark, line};
    g_array_append_val(rows, row);
}

static void
add_range(GArray *rows, char mark, const GArray *lines, size_t start, size_t end)
{
    for (; start < end; start++)
        add_row(rows, mark, line_at(lines, start));
}

/* Compares old [@start, @old_end) with new [@start, @new_end). */
static void
compare(GArray *rows, const GArray *old_lines, const GArray *new_lines, size_t start,
        size_t old_end, size_t new_end)
{
    size_t n = old_end - start, m = new_end - start, width = m + 1;
    if (n > 0 && m > MAX_CELLS / n) {
        add_range(rows, '-', old_lines, start, old_end);
        add_range(rows, '+', new_lines, start, new_end);
        return;
    }
    g_autofree uint32_t *common = g_new0(uint32_t, (n + 1) * width);
    for (size_t i = n; i-- > 0;)
        for (size_t j = m; j-- > 0;)
            common[i * width + j] =
                are_equal(line_at(old_lines, start + i), line_at(new_lines, start + j))
                    ? common[(i + 1) * width + j + 1] + 1
                    : MAX(common[(i + 1) * width + j], common[i * width + j + 1]);
    size_t i = 0, j = 0;
    while (i < n || j < m) {
        if (i < n && j < m &&
            are_equal(line_at(old_lines, start + i), line_at(new_lines, start + j))) {
            add_row(rows, ' ', line_at(old_lines, start + i));
            i++;
            j++;
        } else if (j == m || (i < n && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
            add_row(rows, '-', line_at(old_lines, start + i++));
        } else {
            add_row(rows, '+', line_at(new_lines, start + j++));
        }
    }
}

static GArray *
make_rows(const GArray *old_lines, const GArray *new_lines)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(Row));
    size_t old_end = old_lines->len, new_end = new_lines->len, start = 0;
    while (start < old_end && start < new_end &&
           are_equal(line_at(old_lines, start), line_at(new_lines, start)))
        start++;
    while (old_end > start && new_end > start &&
           are_equal(line_at(old_lines, old_end - 1), line_at(new_lines, new_end - 1))) {
        old_end--;
        new_end--;
    }
    add_range(rows, ' ', old_lines, 0, start);
    compare(rows, old_lines, new_lines, start, old_end, new_end);
    add_range(rows, ' ', old_lines, old_end, old_lines->len);
    return rows;
}

static bool
is_different(const GArray *rows, size_t i)
{
    return g_array_index(rows, Row, i).mark != ' ';
}

/* Is row @i one of a difference, or near one? */
static bool
is_shown(const GArray *rows, size_t i)
{
    size_t start = i >= CONTEXT ? i - CONTEXT : 0, end = MIN(i + CONTEXT + 1, rows->len);
    for (size_t j = start; j < end; j++)
        if (is_different(rows, j))
            return true;
    return false;
}

static void
add_header(GString *out, const GArray *rows, size_t start, size_t end, size_t old_line,
           size_t new_line)
{
    size_t n_old = 0, n_new = 0;
    for (size_t i = start; i < end; i++) {
        n_old += g_array_index(rows, Row, i).mark != '+';
        n_new += g_array_index(rows, Row, i).mark != '-';
    }
    g_string_append_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", old_line + (n_old > 0), n_old,
                           new_line + (n_new > 0), n_new);
}

static void
add_text(GString *out, const Row *row)
{
    g_autofree char *text = g_strndup(row->line->text, row->line->size);
    g_autofree char *printable = ipb_display_text_printable(text);
    g_string_append_c(out, row->mark);
    g_string_append(out, printable);
    g_string_append(out, row->line->has_end ? "\n" : "\n\\ No newline at end of file\n");
}

char *
ipb_text_diff(const char *name, const char *old_text, const char *new_text, size_t max)
{
    g_autoptr(GArray) old_lines = split(old_text), new_lines = split(new_text);
    g_autoptr(GArray) rows = make_rows(old_lines, new_lines);
    GString *out = g_string_new(NULL);
    size_t old_line = 0, new_line = 0;
    for (size_t i = 0; i < rows->len; i++) {
        const Row *row = &g_array_index(rows, Row, i);
        bool shown = is_shown(rows, i);
        if (shown && out->len == 0)
            g_string_append_printf(out, "--- %s\n+++ %s\n", name, name);
        if (shown && (i == 0 || !is_shown(rows, i - 1))) {
            size_t end = i;
            while (end < rows->len && is_shown(rows, end))
                end++;
            add_header(out, rows, i, end, old_line, new_line);
        }
        if (shown)
            add_text(out, row);
        old_line += row->mark != '+';
        new_line += row->mark != '-';
        if (out->len > max) {
            g_string_append(out, "… the diff is longer\n");
            break;
        }
    }
    return g_string_free(out, FALSE);
}
