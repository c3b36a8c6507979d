/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of MCP that a client of tools needs: texts of parameters, checks of results. Pure
 * functions, no state. Texts are one JSON object, NUL-terminated, the caller frees.
 */
#pragma once

#include "json/json.h"

/* The revision to offer: the newest we know. */
const char *ipb_message_newest_revision(void);
/* The revision @text if we know it (a static string), else NULL. */
const char *ipb_message_find_revision(const char *text);
/* JSON-RPC batches may come in this one. */
bool ipb_message_has_batches(const char *revision);
/* "2024-11-05, …", for messages. Caller frees. */
char *ipb_message_list_revisions(void);

char *ipb_message_initialize(const char *revision);
/* PROTOCOL if the result is none, or of a revision that we do not know. */
bool ipb_message_check_initialize(const IpbJson *result, const char **ret_revision, GError **error);
/* Some servers refuse a revision with an error that lists theirs in data.supported: the newest that
 * we know too, NULL if there is none. */
const char *ipb_message_find_supported(const IpbJson *rpc_error);

/* @arguments: checked by the caller to be an object. */
char *ipb_message_call(const char *tool, const IpbJson *arguments, int64_t progress_token);
/* PROTOCOL unless there is an array "content" of objects with "type", or a "structuredContent". */
bool ipb_message_check_call(const IpbJson *result, GError **error);

char *ipb_message_cancelled(int64_t request_id, const char *reason);

/* The "error" of an answer, as text for people: "message (code -32602)", cleaned and cut. Caller frees. */
char *ipb_message_describe_error(const IpbJson *rpc_error);
/* A notifications/message, likewise: "logger: text". *ret_level: static. */
char *ipb_message_describe_log(const IpbJson *params, const char **ret_level);
