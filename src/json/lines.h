/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLineReader: splits a byte stream into lines of a maximum size. MCP over stdio, `ipybox rpc`
 * and the stderr of child processes use it.
 *
 * Take all lines after each push. Then it never holds more than the maximum and what was pushed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

#include "base/buffer.h"

typedef struct {
    IpbBuffer buffer;
    size_t max_line;
    /* Bytes at the front that were handed out; the next call discards them */
    size_t taken;
    /* Bytes after those that are known to have no newline */
    size_t scanned;
    /* Bytes at the end, after the last newline */
    size_t tail;
} IpbLineReader;

/* @max_line: maximum bytes of a line without its end. */
void ipb_line_reader_init(IpbLineReader *reader, size_t max_line);
void ipb_line_reader_clear(IpbLineReader *reader);
/* False (LIMIT) when a line exceeds the maximum; then nothing was added. */
bool ipb_line_reader_push(IpbLineReader *reader, const void *bytes, size_t size, GError **error);
/* The next complete line, without "\n" or "\r\n", borrowed until the next call on the reader; false
 * when there is none yet. Empty lines are returned, too. */
bool ipb_line_reader_next(IpbLineReader *reader, const char **ret_line, size_t *ret_size);
/* At the end of the stream: the bytes after the last newline; false if there are none. */
bool ipb_line_reader_rest(IpbLineReader *reader, const char **ret_line, size_t *ret_size);
