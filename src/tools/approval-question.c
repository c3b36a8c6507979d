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

/* --- changes of a staged workspace ------------------------------------------------------------ */

static void
append_member(GString *out, const char *title, const IpbJson *value)
{
    if (value == NULL)
        return;
    g_string_append_printf(out, "\n%s: ", title);
    append_string(out, value);
}

/* What it is, and how large: all that the change has, except what it says itself. */
static void
append_details(GString *out, const IpbJson *change, bool is_removed)
{
    const char *type = ipb_json_get_string(change, "type");
    int64_t size = 0, old_size = 0, mode = 0;
    ipb_json_get_int64(change, "size", &size);
    ipb_json_get_int64(change, "old_size", &old_size);
    ipb_json_get_int64(change, "mode", &mode);
    if (g_strcmp0(type, "file") != 0) {
        g_string_append_printf(out, " (%s)", g_strcmp0(type, "link") == 0 ? "symbolic link" : type);
        return;
    }
    g_string_append_printf(out, " (%" G_GINT64_FORMAT " bytes", is_removed ? old_size : size);
    if (!is_removed && old_size > 0)
        g_string_append_printf(out, ", was %" G_GINT64_FORMAT, old_size);
    if (!is_removed && (mode & 0111) != 0)
        g_string_append_printf(out, ", mode %o", (unsigned) mode);
    g_string_append_c(out, ')');
}

static void
append_change(GString *out, const IpbJson *change)
{
    const char *kind = ipb_json_get_string(change, "kind");
    bool is_removed = g_strcmp0(kind, "removed") == 0;
    g_string_append_printf(out, "\n  %c ",
                           is_removed                        ? '-'
                           : g_strcmp0(kind, "changed") == 0 ? '~'
                                                             : '+');
    append_string(out, ipb_json_get(change, "path"));
    append_details(out, change, is_removed);
}

/* The arguments are made by session/approved-changes.c. */
static bool
append_changes(GString *out, const char *json, size_t size, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(json, size, &IPB_JSON_LIMITS_MESSAGE, error);
    const IpbJson *root = document != NULL ? ipb_json_root(document) : NULL;
    if (document == NULL)
        return false;
    append_member(out, "Workspace", ipb_json_get(root, "workspace"));
    IPB_JSON_FOREACH (change, ipb_json_get(root, "changes")) {
        if (is_full(out))
            break;
        append_change(out, change);
    }
    append_member(out, "SHA-256", ipb_json_get(root, "digest"));
    return true;
}

/* --- the question ----------------------------------------------------------------------------- */

static bool
append_call(GString *out, const IpbApprovalRequest *request, GError **error)
{
    const char *params = request->server_params;
    if (request->subject == IPB_APPROVAL_OF_COMMIT || request->subject == IPB_APPROVAL_OF_DISCARD)
        return append_changes(out, request->arguments_json, request->arguments_size, error);
    return (params == NULL ||
            append_members(out, "Server that is not registered", params, strlen(params), error)) &&
           append_members(out, "Arguments", request->arguments_json, request->arguments_size,
                          error);
}

char *
ipb_approval_question(const IpbApprovalRequest *request, GError **error)
{
    static const char *const BEGINNINGS[] = {
        [IPB_APPROVAL_OF_CALL] = "Tool call: ",
        [IPB_APPROVAL_OF_INSTALLATION] = "Installation of a Python package: ",
        [IPB_APPROVAL_OF_COMMIT] = "Commit of changes: ",
        [IPB_APPROVAL_OF_DISCARD] = "Discard of changes: ",
    };
    g_autoptr(GString) out = g_string_new(BEGINNINGS[request->subject]);
    ipb_display_text_quote_name(out, request->server_name);
    g_string_append_c(out, '.');
    ipb_display_text_quote_name(out, request->tool_name);
    if (!append_call(out, request, error))
        return NULL;
    if (is_full(out)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the question is too long to read: more than %d bytes",
                    IPB_APPROVAL_QUESTION_MAX_SIZE);
        return NULL;
    }
    return g_string_free(g_steal_pointer(&out), FALSE);
}
