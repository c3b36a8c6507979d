/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the question; see the header.
 */
#include "tools/approval-question.h"

#include <string.h>

#include "base/error.h"
#include "base/display-text.h"

static bool
is_full(const GString *out)
{
    return out->len > IPB_APPROVAL_QUESTION_MAX_SIZE;
}

static void
append_string(GString *out, const IpbJson *value)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    ipb_display_text_quote(out, text, size);
}

static void
append_key(GString *out, const IpbJson *item)
{
    size_t size;
    const char *name = ipb_json_name(item, &size);
    if (name == NULL)
        return;
    ipb_display_text_quote(out, name, size);
    g_string_append(out, ": ");
}

/* The recursion is limited by the depth that the parser allows. */
static void
append_value(GString *out, const IpbJson *value)
{
    bool is_array = false;
    switch (ipb_json_type(value)) {
    case IPB_JSON_NULL:
        g_string_append(out, "null");
        return;
    case IPB_JSON_BOOL:
        g_string_append(out, ipb_json_bool(value, false) ? "true" : "false");
        return;
    case IPB_JSON_NUMBER:
        g_string_append(out, ipb_json_number(value));
        return;
    case IPB_JSON_STRING:
        append_string(out, value);
        return;
    case IPB_JSON_ARRAY:
        is_array = true;
        break;
    case IPB_JSON_OBJECT:
        break;
    }
    g_string_append_c(out, is_array ? '[' : '{');
    IPB_JSON_FOREACH (item, value) {
        if (is_full(out))
            return;
        if (item != ipb_json_first(value))
            g_string_append(out, ", ");
        append_key(out, item);
        append_value(out, item);
    }
    g_string_append_c(out, is_array ? ']' : '}');
}

static bool
append_members(GString *out, const char *title, const char *json, size_t size, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(json, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    const IpbJson *root = document != NULL ? ipb_json_root(document) : NULL;
    if (document == NULL || !ipb_json_is(root, IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "\"%s\" is not a JSON object",
                    title);
        return false;
    }
    g_string_append_printf(out, "\n%s:%s", title, ipb_json_length(root) == 0 ? " none" : "");
    IPB_JSON_FOREACH (item, root) {
        if (is_full(out))
            break;
        g_string_append(out, "\n  ");
        append_key(out, item);
        append_value(out, item);
    }
    return true;
}

char *
ipb_approval_question(const IpbApprovalRequest *request, GError **error)
{
    g_autoptr(GString) out = g_string_new(
        request->is_installation ? "Installation of a Python package: " : "Tool call: ");
    ipb_display_text_quote_name(out, request->server_name);
    g_string_append_c(out, '.');
    ipb_display_text_quote_name(out, request->tool_name);
    const char *params = request->server_params;
    if (params != NULL &&
        !append_members(out, "Server that is not registered", params, strlen(params), error))
        return NULL;
    if (!append_members(out, "Arguments", request->arguments_json, request->arguments_size, error))
        return NULL;
    if (is_full(out)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the question is too long to read: more than %d bytes",
                    IPB_APPROVAL_QUESTION_MAX_SIZE);
        return NULL;
    }
    return g_string_free(g_steal_pointer(&out), FALSE);
}
