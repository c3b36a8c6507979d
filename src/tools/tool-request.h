/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolRequest: the body of POST /run, which describes the call that a kernel wants
 * (docs/internals/tool-channel.md).
 */
#pragma once

#include "tools/tool-result.h"

/* The size of the largest body, and how deep arrays and objects may be nested in its arguments. The
 * kernel's client has the same depth (tool_exec/client.py). */
#define IPB_TOOL_REQUEST_MAX_SIZE (64 * 1024 * 1024)
#define IPB_TOOL_REQUEST_MAX_ARGUMENT_DEPTH 127

typedef struct {
    IpbJsonDoc *document;  /* owns the members below */
    const char *server_id; /* or NULL */
    const char *server_name;
    const IpbJson *server_params; /* an object, or NULL */
    const char *tool_name;
    IpbSpan arguments;      /* the exact text of an object */
    IpbToolResultForm form; /* of the answer */
} IpbToolRequest;

/* Errors: PROTOCOL, LIMIT (says which limits there are), INVALID. An object that has a name twice
 * is refused wherever it is, because what was shown for approval could be read in two ways. */
bool ipb_tool_request_parse(const char *body, size_t size, IpbToolRequest *ret_request,
                            GError **error);
void ipb_tool_request_clear(IpbToolRequest *request);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbToolRequest, ipb_tool_request_clear)
