/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServerLog: what an MCP server says for people: lines of its stderr, log messages, stray output.
 * Keeps the end of stderr for error messages and tells everything on, made harmless for a terminal,
 * with a maximum for each line and for lines in a second.
 *
 * Ownership: reference-counted, because the function that is told a line may free who sent it; after
 * _mute nothing is told any more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"

typedef struct IpbServerLog IpbServerLog;

/* @level: "stderr" for lines of stderr, else MCP's ("debug" … "emergency"). */
typedef void (*IpbServerLogFunc)(const char *level, const char *text, void *data);

/* @func may be NULL. */
IpbServerLog *ipb_server_log_new(IpbLoop *loop, IpbServerLogFunc func, void *data);
IpbServerLog *ipb_server_log_ref(IpbServerLog *log);
void ipb_server_log_unref(IpbServerLog *log);
void ipb_server_log_mute(IpbServerLog *log);

void ipb_server_log_write(IpbServerLog *log, const char *level, const char *text, size_t size);
/* Bytes of stderr as they come; @is_end tells an unfinished last line too. */
void ipb_server_log_add_stderr(IpbServerLog *log, const char *bytes, size_t size, bool is_end);
/* The lines so far are of no interest any more. */
void ipb_server_log_forget_lines(IpbServerLog *log);
/* The last lines of stderr, each indented, to be put below an error message; NULL if there are none.
 * Caller frees. */
char *ipb_server_log_last_lines(const IpbServerLog *log);

/* Untrusted text for people: valid UTF-8 of at most about @max_size bytes, without terminal
 * sequences, control characters (but newline and tab) and bidirectional overrides. Caller frees. */
char *ipb_server_log_clean(const char *text, size_t size, size_t max_size);
/* The same of the body of an HTTP error; "" if it is a page, which is for browsers. Caller frees. */
char *ipb_server_log_clean_body(const GString *body, size_t max_size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbServerLog, ipb_server_log_unref)
