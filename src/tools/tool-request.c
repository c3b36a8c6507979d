/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the body of POST /run; see the header.
 */
#include "tools/tool-request.h"

#include "base/error.h"

/* The request is an object around the arguments. */
#define MAX_DEPTH (IPB_TOOL_REQUEST_MAX_ARGUMENT_DEPTH + 1)
#define MAX_VALUES (1024 * 1024)

static const IpbJsonLimits LIMITS = {IPB_TOOL_REQUEST_MAX_SIZE, MAX_DEPTH, MAX_VALUES};

static bool
refuse(GError **error, const char *what)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the request is refused: %s", what);
    return false;
}

/* Reads a member that may be missing or null. False: it has another type. */
static bool
get_optional(const IpbJson *root, const char *name, IpbJsonType type, const IpbJson **ret_value)
{
    const IpbJson *value = ipb_json_get(root, name);
    if (value != NULL && ipb_json_is(value, IPB_JSON_NULL))
        value = NULL;
    *ret_value = value;
    return value == NULL || ipb_json_is(value, type);
}

static bool
read_members(const IpbJson *root, IpbToolRequest *request, GError **error)
{
    const IpbJson *value;
    if (!ipb_json_is(root, IPB_JSON_OBJECT))
        return refuse(error, "it is not a JSON object");
    if (!get_optional(root, "server_id", IPB_JSON_STRING, &value))
        return refuse(error, "server_id must be a string");
    request->server_id = ipb_json_get_string(root, "server_id");
    if (value != NULL && request->server_id == NULL)
        return refuse(error, "server_id contains a NUL");
    request->server_name = ipb_json_get_string(root, "server_name");
    if (request->server_name == NULL)
        return refuse(error, "server_name must be a string without NUL");
    if (!get_optional(root, "server_params", IPB_JSON_OBJECT, &request->server_params))
        return refuse(error, "server_params must be an object");
    request->tool_name = ipb_json_get_string(root, "tool_name");
    if (request->tool_name == NULL)
        return refuse(error, "tool_name must be a string without NUL");
    value = ipb_json_get(root, "tool_args");
    if (!ipb_json_is(value, IPB_JSON_OBJECT))
        return refuse(error, "tool_args must be an object");
    request->arguments = ipb_json_raw(value);
    if (!get_optional(root, "whole_result", IPB_JSON_BOOL, &value))
        return refuse(error, "whole_result must be true or false");
    bool is_whole = ipb_json_bool(value, false);
    request->form = is_whole ? IPB_TOOL_RESULT_WHOLE : IPB_TOOL_RESULT_VALUE;
    return true;
}

static void
add_limits(GError **error)
{
    if (error == NULL)
        return;
    g_autoptr(GError) cause = g_steal_pointer(error);
    if (g_error_matches(cause, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT))
        g_set_error(error, cause->domain, cause->code,
                    "the request is refused: %s; arguments may be nested %d deep and a request may "
                    "hold %d values in %d MiB",
                    cause->message, IPB_TOOL_REQUEST_MAX_ARGUMENT_DEPTH, MAX_VALUES,
                    IPB_TOOL_REQUEST_MAX_SIZE >> 20);
    else
        g_set_error(error, cause->domain, cause->code, "the request is refused: %s",
                    cause->message);
}

bool
ipb_tool_request_parse(const char *body, size_t size, IpbToolRequest *ret_request, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(body, size, &LIMITS, error);
    if (document == NULL) {
        add_limits(error);
        return false;
    }
    if (ipb_json_has_duplicates(document))
        return refuse(error, "an object in it has the same name twice");
    IpbToolRequest request = {0};
    if (!read_members(ipb_json_root(document), &request, error))
        return false;
    request.document = g_steal_pointer(&document);
    *ret_request = request;
    return true;
}

void
ipb_tool_request_clear(IpbToolRequest *request)
{
    ipb_json_doc_free(request->document);
    *request = (IpbToolRequest){0};
}
