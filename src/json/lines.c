/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines; see the header.
 */
#include "json/lines.h"

#include <string.h>

#include "base/error.h"

void
ipb_line_reader_init(IpbLineReader *reader, size_t max_line)
{
    *reader = (IpbLineReader){.max_line = max_line};
    ipb_buffer_init(&reader->buffer, SIZE_MAX); /* the reader checks the maximum of each line */
}

void
ipb_line_reader_clear(IpbLineReader *reader)
{
    ipb_buffer_clear(&reader->buffer);
    reader->taken = reader->scanned = reader->tail = 0;
}

static void
drop_taken(IpbLineReader *reader)
{
    ipb_buffer_consume(&reader->buffer, reader->taken);
    reader->taken = 0;
}

/* Is a line of @size bytes without its '\n', whose last byte is @last, too long? */
static bool
is_too_long(const IpbLineReader *reader, size_t size, char last)
{
    return size > reader->max_line && (size - 1 > reader->max_line || last != '\r');
}

/* Checks the lines that end in @bytes. Sets the number of bytes after the last newline. */
static bool
check_lines(const IpbLineReader *reader, const char *bytes, size_t size, size_t *ret_tail)
{
    size_t tail = reader->tail;
    const char *at = bytes, *end = bytes + size;
    for (const char *newline; (newline = memchr(at, '\n', (size_t) (end - at))) != NULL;) {
        char last = '\0';
        if (newline > bytes)
            last = newline[-1];
        else if (tail > 0)
            last = (char) reader->buffer.bytes[reader->buffer.end - 1];
        if (is_too_long(reader, tail + (size_t) (newline - at), last))
            return false;
        tail = 0;
        at = newline + 1;
    }
    tail += (size_t) (end - at);
    *ret_tail = tail;
    return !is_too_long(reader, tail, end[-1]);
}

bool
ipb_line_reader_push(IpbLineReader *reader, const void *bytes, size_t size, GError **error)
{
    drop_taken(reader);
    size_t tail;
    if (size == 0)
        return true;
    if (!check_lines(reader, bytes, size, &tail)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "a line is longer than the maximum of %zu bytes", reader->max_line);
        return false;
    }
    ipb_buffer_append(&reader->buffer, bytes, size);
    reader->tail = tail;
    return true;
}

bool
ipb_line_reader_next(IpbLineReader *reader, const char **ret_line, size_t *ret_size)
{
    drop_taken(reader);
    size_t size = ipb_buffer_size(&reader->buffer);
    if (size == 0)
        return false;
    const char *line = (const char *) ipb_buffer_data(&reader->buffer);
    const char *newline = memchr(line + reader->scanned, '\n', size - reader->scanned);
    if (newline == NULL) {
        reader->scanned = size;
        return false;
    }
    reader->scanned = 0;
    reader->taken = (size_t) (newline - line) + 1;
    *ret_line = line;
    *ret_size = (size_t) (newline - line) - (newline > line && newline[-1] == '\r');
    return true;
}

bool
ipb_line_reader_rest(IpbLineReader *reader, const char **ret_line, size_t *ret_size)
{
    drop_taken(reader);
    size_t size = ipb_buffer_size(&reader->buffer), tail = reader->tail;
    if (tail == 0)
        return false;
    *ret_line = (const char *) ipb_buffer_data(&reader->buffer) + (size - tail);
    *ret_size = tail;
    reader->taken = size;
    reader->tail = reader->scanned = 0;
    return true;
}
