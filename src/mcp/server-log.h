/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServerLog: what an MCP server writes for people: lines of its stderr, log messages, stray
 * output. It keeps the end of stderr for error messages. It passes every line on to a function,
 * made harmless for a terminal, with limits on the size of a line and on the lines in a second.
 *
 * Ownership: reference-counted, because the function that gets a line may free the object that
 * wrote it. After _mute the function is not called any more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"

typedef struct IpbServerLog IpbServerLog;

/* @level: "stderr" for lines of stderr, else a level of MCP ("debug" … "emergency"). */
typedef void (*IpbServerLogFunc)(const char *level, const char *text, void *data);

/* @func may be NULL. */
IpbServerLog *ipb_server_log_new(IpbLoop *loop, IpbServerLogFunc func, void *data);
IpbServerLog *ipb_server_log_ref(IpbServerLog *log);
void ipb_server_log_unref(IpbServerLog *log);
void ipb_server_log_mute(IpbServerLog *log);

void ipb_server_log_write(IpbServerLog *log, const char *level, const char *text, size_t size);
/* Adds bytes of stderr as they arrive. @is_end: an unfinished last line is written, too. */
void ipb_server_log_add_stderr(IpbServerLog *log, const char *bytes, size_t size, bool is_end);
/* Forgets the lines of stderr so far. */
void ipb_server_log_forget_lines(IpbServerLog *log);
/* The last lines of stderr, each indented, to be shown below an error message; NULL: there are
 * none. Caller frees. */
char *ipb_server_log_last_lines(const IpbServerLog *log);

/* Makes untrusted text harmless for people: valid UTF-8 of at most about @max_size bytes, without
 * terminal sequences, control characters (except newline and tab) and bidirectional overrides.
 * Caller frees. */
char *ipb_server_log_clean(const char *text, size_t size, size_t max_size);
/* The same for the body of an HTTP error; "" for an HTML page, which is meant for browsers. Caller
 * frees. */
char *ipb_server_log_clean_body(const GString *body, size_t max_size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbServerLog, ipb_server_log_unref)
