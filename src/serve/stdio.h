/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbStdio: lines over a pair of fds, as protocols on standard input and output have it. The program's own fds 0 and 1
 * are taken away first, so that nothing else can read or write the protocol's bytes.
 */
#pragma once

#include <stdbool.h>

#include "base/loop.h"

/* Bytes of a line that is given whole. */
#define IPB_STDIO_MAX_LINE (64u * 1024 * 1024)

typedef struct IpbStdio IpbStdio;

typedef struct {
    void (*on_line)(const char *line, size_t size, void *data);
    /* A line that is longer than IPB_STDIO_MAX_LINE, in pieces, the last of which may be empty. */
    void (*on_long_line)(const char *piece, size_t size, bool is_last, void *data);
    /* The end of input (@why NULL), or why it cannot go on; told once. */
    void (*on_end)(const GError *why, void *data);
    void (*on_drained)(void *data); /* all that waited is written; may be NULL */
} IpbStdioFuncs;

/* Moves fd 0 and 1 to private numbers; /dev/null takes the place of 0, stderr that of 1. */
bool ipb_stdio_take_over(int *ret_in, int *ret_out, GError **error);

/* @in and @out become the object's. */
IpbStdio *ipb_stdio_new(IpbLoop *loop, int in, int out, const IpbStdioFuncs *funcs, void *data,
                        GError **error);
/* Sends a line; @text must not contain a newline. The caller checks ipb_stdio_pending: more than 2 GiB
 * that are not read end the conversation (on_end). */
void ipb_stdio_send(IpbStdio *stdio, const char *text, size_t size);
/* Nothing is read, so that a writer waits, until it is not paused any more or the writer has gone: then what is left is read, up
 * to the end. */
void ipb_stdio_set_paused(IpbStdio *stdio, bool is_paused);
/* Bytes that wait because the reader is slow. */
size_t ipb_stdio_pending(const IpbStdio *stdio);
/* Writes out what waits, for at most @timeout_ms: for the last words of a program that ends. */
void ipb_stdio_flush(IpbStdio *stdio, unsigned timeout_ms);
void ipb_stdio_free(IpbStdio *stdio);
