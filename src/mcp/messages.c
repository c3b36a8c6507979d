/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP messages of a client; see the header.
 */
#include "mcp/messages.h"

#include <inttypes.h>
#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "json/writer.h"
#include "mcp/server-log.h"

/* Text of a server's error or log message. */
#define MAX_TEXT 4096
/* Other text of a server in an error, such as "data". */
#define MAX_DATA 500
/* A revision that we do not know, in an error. */
#define MAX_REVISION 40
/* A resultType that we do not know, in an error. */
#define MAX_TYPE 100

#define META_PREFIX "io.modelcontextprotocol/"
/* The level of log messages that a modern server is asked for. */
#define LOG_LEVEL "info"

/* The revisions with a handshake, newest first. */
static const char *const REVISIONS[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

/* The levels of RFC 5424, as MCP names them. */
static const char *const LOG_LEVELS[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};

const char *
ipb_mcp_message_newest_revision(void)
{
    return REVISIONS[0];
}

/* The revision @text as a static string, if we know it and it has a handshake; else NULL. */
static const char *
find_revision(const char *text)
{
    for (size_t i = 0; text != NULL && i < G_N_ELEMENTS(REVISIONS); i++)
        if (strcmp(text, REVISIONS[i]) == 0)
            return REVISIONS[i];
    return NULL;
}

bool
ipb_mcp_message_has_batches(const char *revision)
{
    return revision != NULL && strcmp(revision, "2025-03-26") == 0;
}

char *
ipb_mcp_message_list_revisions(void)
{
    GString *out = g_string_new(NULL);
    for (size_t i = G_N_ELEMENTS(REVISIONS); i-- > 0;)
        g_string_append_printf(out, "%s, ", REVISIONS[i]);
    g_string_append(out, IPB_MCP_MODERN_REVISION);
    return g_string_free(out, false);
}

/* We declare no capabilities to servers. */
static void
write_capabilities(IpbJsonWriter *writer, const char *key)
{
    ipb_json_key(writer, key);
    ipb_json_begin_object(writer);
    ipb_json_end_object(writer);
}

static void
write_client_info(IpbJsonWriter *writer, const char *key)
{
    ipb_json_key(writer, key);
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", "ipybox");
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_end_object(writer);
}

static void
write_raw_member(IpbJsonWriter *writer, const char *key, const char *text)
{
    if (text == NULL)
        return;
    ipb_json_key(writer, key);
    ipb_json_write_raw(writer, text, strlen(text));
}

char *
ipb_mcp_message_initialize(const char *revision)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "protocolVersion", revision);
    write_capabilities(writer, "capabilities");
    write_client_info(writer, "clientInfo");
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

/* Ends the parameters of a request. Returns NULL instead of an empty object. */
static char *
finish_params(IpbJsonWriter *writer, const IpbMcpMessageMeta *meta)
{
    if (meta->revision != NULL || meta->progress_token != 0) {
        ipb_json_key(writer, "_meta");
        ipb_json_begin_object(writer);
        if (meta->revision != NULL) {
            ipb_json_member_string(writer, META_PREFIX "protocolVersion", meta->revision);
            write_client_info(writer, META_PREFIX "clientInfo");
            write_capabilities(writer, META_PREFIX "clientCapabilities");
            if (meta->wants_log)
                ipb_json_member_string(writer, META_PREFIX "logLevel", LOG_LEVEL);
        }
        if (meta->progress_token != 0)
            ipb_json_member_int(writer, "progressToken", meta->progress_token);
        ipb_json_end_object(writer);
    }
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

char *
ipb_mcp_message_discover(const IpbMcpMessageMeta *meta)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    return finish_params(writer, meta);
}

char *
ipb_mcp_message_list(const char *cursor, const IpbMcpMessageMeta *meta)
{
    if (cursor == NULL && meta->revision == NULL)
        return NULL;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_raw_member(writer, "cursor", cursor);
    return finish_params(writer, meta);
}

char *
ipb_mcp_message_listen(const IpbMcpMessageMeta *meta)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "notifications");
    ipb_json_begin_object(writer);
    ipb_json_member_bool(writer, "toolsListChanged", true);
    ipb_json_end_object(writer);
    return finish_params(writer, meta);
}

bool
ipb_mcp_message_check_initialize(const IpbJson *result, const char **ret_revision, GError **error)
{
    const char *text = ipb_json_get_string(result, "protocolVersion");
    if (text == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "its answer to initialize has no protocolVersion");
        return false;
    }
    const char *revision = find_revision(text);
    if (revision == NULL) {
        g_autofree char *theirs = ipb_server_log_clean(text, strlen(text), MAX_REVISION);
        g_autofree char *ours = ipb_mcp_message_list_revisions();
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "it speaks revision \"%s\" of MCP, ipybox %s", theirs, ours);
        return false;
    }
    *ret_revision = revision;
    return true;
}

/* Whether the list has our modern revision, and whether it has one with a handshake. */
static void
look_into_list(const IpbJson *list, bool *ret_has_modern, bool *ret_has_legacy)
{
    *ret_has_modern = *ret_has_legacy = false;
    IPB_JSON_FOREACH (item, list) {
        const char *text = ipb_json_string(item, NULL);
        *ret_has_modern |= g_strcmp0(text, IPB_MCP_MODERN_REVISION) == 0;
        *ret_has_legacy |= find_revision(text) != NULL;
    }
}

static char *
describe_list(const IpbJson *list)
{
    IpbSpan raw = ipb_json_raw(list);
    return ipb_server_log_clean(raw.start, raw.size, MAX_DATA);
}

IpbMcpProbe
ipb_mcp_message_judge_probe(const IpbJson *result, const IpbJson *rpc_error, bool is_again,
                            char **ret_theirs)
{
    *ret_theirs = NULL;
    int64_t code = ipb_mcp_message_error_code(rpc_error);
    if (code == IPB_MCP_HEADER_MISMATCH || code == IPB_MCP_MISSING_CAPABILITY)
        return IPB_MCP_PROBE_REFUSED;
    const IpbJson *list = NULL;
    if (result != NULL)
        list = ipb_json_get(result, "supportedVersions");
    else if (code == IPB_MCP_UNSUPPORTED_REVISION)
        list = ipb_json_get(ipb_json_get(rpc_error, "data"), "supported");
    /* A legacy server may answer anything to a method that it does not know. */
    if (!ipb_json_is(list, IPB_JSON_ARRAY))
        return IPB_MCP_PROBE_LEGACY;
    bool has_modern, has_legacy;
    look_into_list(list, &has_modern, &has_legacy);
    if (result != NULL && has_modern)
        return IPB_MCP_PROBE_MODERN;
    if (has_modern && !is_again)
        return IPB_MCP_PROBE_AGAIN;
    if (has_legacy)
        return IPB_MCP_PROBE_LEGACY;
    *ret_theirs = describe_list(list);
    return IPB_MCP_PROBE_UNSUPPORTED;
}

IpbMcpResultType
ipb_mcp_message_result_type(const IpbJson *result)
{
    const IpbJson *type = ipb_json_get(result, "resultType");
    const char *text = ipb_json_string(type, NULL);
    if (type == NULL || g_strcmp0(text, "complete") == 0)
        return IPB_MCP_RESULT_COMPLETE;
    return g_strcmp0(text, "input_required") == 0 ? IPB_MCP_RESULT_INPUT_REQUIRED
                                                  : IPB_MCP_RESULT_UNKNOWN;
}

const char *
ipb_mcp_message_find_supported(const IpbJson *rpc_error)
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
ipb_mcp_message_call(const char *tool, const IpbJson *arguments, const char *state,
                     const char *responses, const IpbMcpMessageMeta *meta)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", tool);
    ipb_json_member_value(writer, "arguments", arguments);
    write_raw_member(writer, "inputResponses", responses);
    write_raw_member(writer, "requestState", state);
    return finish_params(writer, meta);
}

static bool
check_content(const IpbJson *content, GError **error)
{
    size_t index = 0;
    IPB_JSON_FOREACH (item, content) {
        if (!ipb_json_is(ipb_json_get(item, "type"), IPB_JSON_STRING)) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                        "content[%zu] of its result is not an object with a \"type\"", index);
            return false;
        }
        index++;
    }
    return true;
}

bool
ipb_mcp_message_check_call(const IpbJson *result, GError **error)
{
    const IpbJson *content = ipb_json_get(result, "content");
    if (ipb_json_is(content, IPB_JSON_ARRAY))
        return check_content(content, error);
    if (content == NULL && ipb_json_get(result, "structuredContent") != NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "its result has no \"content\" array");
    return false;
}

bool
ipb_mcp_message_check_complete(const IpbJson *result, GError **error)
{
    if (ipb_mcp_message_result_type(result) == IPB_MCP_RESULT_COMPLETE)
        return true;
    IpbSpan raw = ipb_json_raw(ipb_json_get(result, "resultType"));
    g_autofree char *type = ipb_server_log_clean(raw.start, raw.size, MAX_TYPE);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                "its result has the resultType %s, which is not possible here", type);
    return false;
}

/* An application that could answer elicitation/create would be asked here, and the capability would
 * be declared with it. */
static void
refuse_input_requests(const IpbJson *requests, GError **error)
{
    const IpbJson *request = ipb_json_first(requests);
    const char *method = ipb_json_get_string(request, "method");
    const char *message = ipb_json_get_string(ipb_json_get(request, "params"), "message");
    const char *name = method != NULL ? method : "something without a name";
    g_autofree char *what = ipb_server_log_clean(name, strlen(name), MAX_DATA);
    g_autofree char *text = ipb_server_log_clean(message != NULL ? message : "",
                                                 message != NULL ? strlen(message) : 0, MAX_DATA);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                "it asks for %s before it continues, which ipybox does not offer%s%s", what,
                *text != '\0' ? ": " : "", text);
}

bool
ipb_mcp_message_answer_input(const IpbJson *result, char **ret_state, char **ret_responses,
                             GError **error)
{
    const IpbJson *state = ipb_json_get(result, "requestState");
    const IpbJson *requests = ipb_json_get(result, "inputRequests");
    if (ipb_json_length(requests) > 0) {
        refuse_input_requests(requests, error);
        return false;
    }
    if (!ipb_json_is(state, IPB_JSON_STRING) && !ipb_json_is(requests, IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "its result is \"input_required\" and asks for nothing");
        return false;
    }
    IpbSpan raw = ipb_json_raw(state);
    *ret_state = state != NULL ? g_strndup(raw.start, raw.size) : NULL;
    *ret_responses = requests != NULL ? g_strdup("{}") : NULL;
    return true;
}

char *
ipb_mcp_message_cancelled(int64_t request_id, const char *reason)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "requestId", request_id);
    ipb_json_member_string(writer, "reason", reason);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

int64_t
ipb_mcp_message_error_code(const IpbJson *rpc_error)
{
    int64_t code = 0;
    return ipb_json_get_int64(rpc_error, "code", &code) ? code : 0;
}

/* "sampling, elicitation": the capabilities that a modern server requires of us. */
static char *
describe_capabilities(const IpbJson *rpc_error)
{
    g_autoptr(GString) names = g_string_new(NULL);
    const IpbJson *data = ipb_json_get(rpc_error, "data");
    IPB_JSON_FOREACH (item, ipb_json_get(data, "requiredCapabilities")) {
        size_t size = 0;
        const char *name = ipb_json_name(item, &size);
        if (name == NULL || names->len > MAX_DATA)
            break;
        g_autofree char *clean = ipb_server_log_clean(name, size, MAX_REVISION);
        g_string_append_printf(names, "%s%s", names->len > 0 ? ", " : "", clean);
    }
    return names->len > 0 ? g_strdup(names->str) : g_strdup("a capability that it does not name");
}

char *
ipb_mcp_message_describe_error(const IpbJson *rpc_error)
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
    if (ipb_mcp_message_error_code(rpc_error) == IPB_MCP_MISSING_CAPABILITY) {
        g_autofree char *names = describe_capabilities(rpc_error);
        return g_strdup_printf("the server needs something that ipybox does not offer: %s "
                               "(code -32021): %s",
                               names, text);
    }
    return g_strdup_printf("%s (code %.20s%s%s)", text, code != NULL ? code : "missing",
                           details != NULL ? ", data " : "", details != NULL ? details : "");
}

char *
ipb_mcp_message_describe_log(const IpbJson *params, const char **ret_level)
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
