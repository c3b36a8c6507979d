/* SPDX-License-Identifier: Apache-2.0
 *
 * MCP messages of a client; see the header.
 */
#include "mcp/messages.h"

#include <inttypes.h>
#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "json/writer.h"
#include "mcp/server-log.h"

/* Of an error or log message by a server. */
#define MAX_TEXT 4096
/* Of an error's "data". */
#define MAX_DATA 500
/* A revision that is not ours, in a message. */
#define MAX_REVISION 40

/* Newest first. */
static const char *const REVISIONS[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

/* RFC 5424's, as MCP has them. */
static const char *const LOG_LEVELS[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};

const char *
ipb_message_newest_revision(void)
{
    return REVISIONS[0];
}

const char *
ipb_message_find_revision(const char *text)
{
    for (size_t i = 0; text != NULL && i < G_N_ELEMENTS(REVISIONS); i++)
        if (strcmp(text, REVISIONS[i]) == 0)
            return REVISIONS[i];
    return NULL;
}

bool
ipb_message_has_batches(const char *revision)
{
    return revision != NULL && strcmp(revision, "2025-03-26") == 0;
}

char *
ipb_message_list_revisions(void)
{
    GString *out = g_string_new(NULL);
    for (size_t i = G_N_ELEMENTS(REVISIONS); i-- > 0;)
        g_string_append_printf(out, "%s%s", REVISIONS[i], i > 0 ? ", " : "");
    return g_string_free(out, false);
}

char *
ipb_message_initialize(const char *revision)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "protocolVersion", revision);
    ipb_json_key(writer, "capabilities");
    ipb_json_begin_object(writer);
    ipb_json_end_object(writer);
    ipb_json_key(writer, "clientInfo");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", "ipybox");
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

bool
ipb_message_check_initialize(const IpbJson *result, const char **ret_revision, GError **error)
{
    const char *text = ipb_json_get_string(result, "protocolVersion");
    if (text == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "its answer to initialize has no protocolVersion");
        return false;
    }
    const char *revision = ipb_message_find_revision(text);
    if (revision == NULL) {
        g_autofree char *theirs = ipb_server_log_clean(text, strlen(text), MAX_REVISION);
        g_autofree char *ours = ipb_message_list_revisions();
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "it speaks revision \"%s\" of MCP, ipybox %s", theirs, ours);
        return false;
    }
    *ret_revision = revision;
    return true;
}

const char *
ipb_message_find_supported(const IpbJson *rpc_error)
{
    const IpbJson *supported = ipb_json_get(ipb_json_get(rpc_error, "data"), "supported");
    if (!ipb_json_is(supported, IPB_JSON_ARRAY))
        return NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(REVISIONS); i++) {
        IPB_JSON_FOREACH (item, supported) {
            const char *text = ipb_json_string(item, NULL);
            if (text != NULL && strcmp(text, REVISIONS[i]) == 0)
                return REVISIONS[i];
        }
    }
    return NULL;
}

char *
ipb_message_call(const char *tool, const IpbJson *arguments, int64_t progress_token)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", tool);
    ipb_json_member_value(writer, "arguments", arguments);
    ipb_json_key(writer, "_meta");
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "progressToken", progress_token);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static bool
check_content(const IpbJson *content, GError **error)
{
    size_t index = 0;
    IPB_JSON_FOREACH (item, content) {
        if (!ipb_json_is(ipb_json_get(item, "type"), IPB_JSON_STRING)) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                        "content[%zu] of its result is no object with a \"type\"", index);
            return false;
        }
        index++;
    }
    return true;
}

bool
ipb_message_check_call(const IpbJson *result, GError **error)
{
    const IpbJson *content = ipb_json_get(result, "content");
    if (ipb_json_is(content, IPB_JSON_ARRAY))
        return check_content(content, error);
    if (content == NULL && ipb_json_get(result, "structuredContent") != NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "its result has no \"content\" array");
    return false;
}

char *
ipb_message_cancelled(int64_t request_id, const char *reason)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "requestId", request_id);
    ipb_json_member_string(writer, "reason", reason);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

char *
ipb_message_describe_error(const IpbJson *rpc_error)
{
    size_t size = 0;
    const char *message = ipb_json_string(ipb_json_get(rpc_error, "message"), &size);
    const char *code = ipb_json_number(ipb_json_get(rpc_error, "code"));
    g_autofree char *text = message != NULL && size > 0
                                ? ipb_server_log_clean(message, size, MAX_TEXT)
                                : g_strdup("an error without a message");
    const IpbJson *data = ipb_json_get(rpc_error, "data");
    g_autofree char *details = NULL;
    if (data != NULL && !ipb_json_is(data, IPB_JSON_NULL)) {
        IpbSpan raw = ipb_json_raw(data);
        details = ipb_server_log_clean(raw.start, raw.size, MAX_DATA);
    }
    return g_strdup_printf("%s (code %.20s%s%s)", text, code != NULL ? code : "missing",
                           details != NULL ? ", data " : "", details != NULL ? details : "");
}

char *
ipb_message_describe_log(const IpbJson *params, const char **ret_level)
{
    const char *level = ipb_json_get_string(params, "level");
    *ret_level = "info";
    for (size_t i = 0; level != NULL && i < G_N_ELEMENTS(LOG_LEVELS); i++)
        if (strcmp(level, LOG_LEVELS[i]) == 0)
            *ret_level = LOG_LEVELS[i];

    const IpbJson *data = ipb_json_get(params, "data");
    size_t size = 0;
    const char *text = ipb_json_string(data, &size);
    if (text == NULL && data != NULL) {
        IpbSpan raw = ipb_json_raw(data);
        text = raw.start;
        size = raw.size;
    }
    g_autofree char *clean = ipb_server_log_clean(text != NULL ? text : "", size, MAX_TEXT);
    const char *logger = ipb_json_get_string(params, "logger");
    if (logger == NULL || *logger == '\0')
        return g_steal_pointer(&clean);
    g_autofree char *who = ipb_server_log_clean(logger, strlen(logger), 100);
    return g_strconcat(who, ": ", clean, NULL);
}
