/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief Calls of tools that the program itself offers to the code of a session.
 *
 * The options of a session have the tools as JSON, and a function that runs their calls. Cells
 * import them from `mcptools.NAME`, as the tools of MCP servers. Policy, rules, approvals and the
 * audit log apply as for those.
 *
 * The arguments come from untrusted code: check them. A call may be answered only in the thread of
 * its session, in the callback or later.
 *
 * @code
 * static void
 * on_tool_call(IpyboxSession *session, IpyboxToolCall *call, gpointer user_data)
 * {
 *     ipybox_tool_call_return(call, "{\"celsius\": 21}", NULL);
 * }
 *
 * options.application_tools =
 *     "{\"home\": [{\"name\": \"temperature\", \"description\": \"Measures the temperature.\","
 *     " \"inputSchema\": {\"type\": \"object\", \"properties\": {}}}]}";
 * options.on_tool_call = on_tool_call;
 * @endcode
 */
#pragma once

#include <glib.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** A call that waits for its answer. Opaque and reference-counted. */
typedef struct IpyboxToolCall IpyboxToolCall;

/**
 * @brief The name of the group of tools, as in the session's options.
 *
 * @param call the call
 * @return the name; owned by the call
 */
IPYBOX_EXPORT const char *ipybox_tool_call_get_server(const IpyboxToolCall *call);

/**
 * @brief The name of the tool, as in the session's options.
 *
 * @param call the call
 * @return the name; owned by the call
 */
IPYBOX_EXPORT const char *ipybox_tool_call_get_tool(const IpyboxToolCall *call);

/**
 * @brief The arguments. They are not compared with the tool's schema.
 *
 * @param call the call
 * @return a JSON object in UTF-8, at most 64 MiB; owned by the call
 */
IPYBOX_EXPORT const char *ipybox_tool_call_get_arguments(const IpyboxToolCall *call);

/**
 * @brief Ends the call with a JSON value.
 *
 * @param call the call
 * @param json the text of one JSON value, in UTF-8, at most 64 MiB; copied. If the tool has an
 *     outputSchema, the value should agree with it: the code gets an exception if not
 * @param error #IPYBOX_ERROR_INVALID: not JSON; #IPYBOX_ERROR_LIMIT: too large.
 *     The call still waits then. #IPYBOX_ERROR_CANCELLED: the call does not wait any more
 * @return whether the code gets the value
 */
IPYBOX_EXPORT gboolean ipybox_tool_call_return(IpyboxToolCall *call, const char *json,
                                               GError **error);

/**
 * @brief Ends the call with a text.
 *
 * @param call the call
 * @param text in UTF-8, at most 64 MiB; copied
 * @param error as for ipybox_tool_call_return(); #IPYBOX_ERROR_INVALID: not UTF-8
 * @return whether the code gets the text
 */
IPYBOX_EXPORT gboolean ipybox_tool_call_return_text(IpyboxToolCall *call, const char *text,
                                                    GError **error);

/**
 * @brief Ends the call with an error: the code gets a ToolRunnerError.
 *
 * @param call the call
 * @param message why it failed, in UTF-8; copied. Of more than 64 KiB, the rest is cut off
 * @return whether the call still waited
 */
IPYBOX_EXPORT gboolean ipybox_tool_call_fail(IpyboxToolCall *call, const char *message);

/**
 * @brief Adds a reference, which keeps the call after the callback that received it.
 *
 * @param call the call
 * @return @p call, to be released with ipybox_tool_call_unref()
 */
IPYBOX_EXPORT IpyboxToolCall *ipybox_tool_call_ref(IpyboxToolCall *call);

/**
 * @brief Releases a reference.
 *
 * With the last one, a call that still waits fails.
 *
 * @param call the call, or NULL
 */
IPYBOX_EXPORT void ipybox_tool_call_unref(IpyboxToolCall *call);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxToolCall, ipybox_tool_call_unref)

G_END_DECLS
