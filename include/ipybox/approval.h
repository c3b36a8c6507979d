/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief A tool call that waits for an answer.
 *
 * Which calls are asked for is said by the session's policy and rules. What is shown here is what will be sent: the call cannot
 * change after it was shown. The names come from an MCP server and the arguments from untrusted code.
 */
#pragma once

#include <glib.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** What happens to calls that no rule names. */
typedef enum {
    IPYBOX_APPROVAL_ALLOW, /**< they run */
    IPYBOX_APPROVAL_ASK,   /**< the application is asked; without anybody to ask they are refused */
    IPYBOX_APPROVAL_DENY,  /**< they are refused */
} IpyboxApprovalPolicy;

/** A request. Opaque, reference-counted; may be answered at once or later, but in the session's thread. */
typedef struct IpyboxApproval IpyboxApproval;

/**
 * @brief The name of the MCP server.
 *
 * @param approval the request
 * @return the name under which it was registered, or which the cell gave it (ipybox_approval_get_server_params()); owned by the
 *     request
 */
IPYBOX_EXPORT const char *ipybox_approval_get_server(const IpyboxApproval *approval);

/**
 * @brief How the server is started, where nobody registered it and the cell says it: in a session without a sandbox, packages made by
 * mcpygen do. Show it with the question: the server's name is of the cell's choosing.
 *
 * @param approval the request
 * @return a JSON object, as `{"args":[…],"command":"npx"}` or `{"url":"https://…"}`, with `${NAME}` as it was written, owned by the
 *     request; NULL: the server is a registered one
 */
IPYBOX_EXPORT const char *ipybox_approval_get_server_params(const IpyboxApproval *approval);

/**
 * @brief The name of the tool.
 *
 * @param approval the request
 * @return the name as its server has it; owned by the request
 */
IPYBOX_EXPORT const char *ipybox_approval_get_tool(const IpyboxApproval *approval);

/**
 * @brief The arguments.
 *
 * @param approval the request
 * @return a JSON object, as it will be sent; owned by the request
 */
IPYBOX_EXPORT const char *ipybox_approval_get_arguments(const IpyboxApproval *approval);

/**
 * @brief The whole request in words for a person: tool, arguments, and where the call brings its own, the server's parameters.
 *
 * Lines of text with a newline between them. Each argument is on a line of its own, which begins with two spaces and the argument's name as
 * a JSON string. Strings are shown as they are; characters that cannot be seen, or that change how others are seen, are
 * written as JSON's escapes. So no argument can look like another line, and equal texts mean equal calls. Ask nobody who has not seen all of it.
 *
 * @param approval the request
 * @return UTF-8 without control characters but newline; owned by the request. NULL if it is longer than 1 MiB, which nobody reads: refuse
 * it
 */
IPYBOX_EXPORT const char *ipybox_approval_get_question(IpyboxApproval *approval);

/**
 * @brief Answers the request.
 *
 * @param approval the request
 * @param accept whether the call may run
 * @return whether it still waited: FALSE after an answer, after its time ran out, and when the call or the session has ended
 */
IPYBOX_EXPORT gboolean ipybox_approval_respond(IpyboxApproval *approval, gboolean accept);

/**
 * @brief Keeps the request beyond the callback that told of it.
 *
 * @param approval the request
 * @return @p approval, to be given back with ipybox_approval_unref()
 */
IPYBOX_EXPORT IpyboxApproval *ipybox_approval_ref(IpyboxApproval *approval);

/**
 * @brief Gives a reference back. A request that nobody answers waits on, until its time runs out.
 *
 * @param approval the request, or NULL
 */
IPYBOX_EXPORT void ipybox_approval_unref(IpyboxApproval *approval);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxApproval, ipybox_approval_unref)

G_END_DECLS
