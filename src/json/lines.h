/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLineReader: cuts a byte stream into lines, with a maximum. No protocol in it: MCP over stdio,
 * `ipybox rpc` and child processes' stderr use it alike.
 *
 * Take all lines after each push: then it never holds more than the maximum and what was pushed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

#include "base/buffer.h"

typedef struct {
    IpbBuffer buffer;
    size_t max_line;
    size_t taken;   /* bytes at the front that were handed out and may go at the next call */
    size_t scanned; /* bytes behind those known to hold no newline */
    size_t tail;    /* bytes at the end that come after the last newline */
} IpbLineReader;

/* @max_line: bytes of a line without its end. */
void ipb_line_reader_init(IpbLineReader *reader, size_t max_line);
void ipb_line_reader_clear(IpbLineReader *reader);
/* False (LIMIT) when a line exceeds the maximum; then nothing was added. */
bool ipb_line_reader_push(IpbLineReader *reader, const void *bytes, size_t size, GError **error);
/* The next whole line, without "\n" or "\r\n", borrowed until the next call on the reader;
 * false when there is none yet. Empty lines are told too. */
bool ipb_line_reader_next(IpbLineReader *reader, const char **ret_line, size_t *ret_size);
/* What came after the last newline, at the end of the stream; false if that is nothing. */
bool ipb_line_reader_rest(IpbLineReader *reader, const char **ret_line, size_t *ret_size);
