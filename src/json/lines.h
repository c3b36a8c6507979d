/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLineReader: cuts a byte stream into lines, with a maximum. No protocol in it: MCP over stdio,
 * `ipybox rpc` and child processes' stderr use it alike.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

typedef struct {
    IpbBuffer buffer;
    size_t scanned; /* bytes of the buffer known to hold no newline */
} IpbLineReader;

void ipb_line_reader_init(IpbLineReader *reader, size_t max_line);
void ipb_line_reader_clear(IpbLineReader *reader);
/* False (LIMIT) when a line exceeds the maximum. */
bool ipb_line_reader_push(IpbLineReader *reader, const void *bytes, size_t size, GError **error);
/* The next whole line, without "\n" or "\r\n", borrowed until the next call on the reader;
 * false when there is none yet. Empty lines are told too. */
bool ipb_line_reader_next(IpbLineReader *reader, const char **ret_line, size_t *ret_size);
/* What came after the last newline, at the end of the stream. */
bool ipb_line_reader_rest(IpbLineReader *reader, const char **ret_line, size_t *ret_size);
