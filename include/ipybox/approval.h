/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief Requests for approval: tool calls that wait for an answer.
 *
 * The session's policy and rules decide which calls need an approval. What a request shows is
 * exactly what will be sent: the call cannot change after it was shown. The names come from an MCP
 * server and the arguments from untrusted code.
 *
 * A request may be answered only in the thread of its session.
 */
#pragma once

#include <glib.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** What happens to calls that no rule names. */
typedef enum {
    /** They run. */
    IPYBOX_APPROVAL_ALLOW,
    /** The application is asked. They are refused if the session has no on_approval. */
    IPYBOX_APPROVAL_ASK,
    /** They are refused. */
    IPYBOX_APPROVAL_DENY,
} IpyboxApprovalPolicy;

/** A request for approval. Opaque and reference-counted. */
typedef struct IpyboxApproval IpyboxApproval;

/**
 * @brief The name of the MCP server.
 *
 * @param approval the request
 * @return the name under which it was registered, or the name that the cell gave it, see
 *     ipybox_approval_get_server_params(); owned by the request
 */
IPYBOX_EXPORT const char *ipybox_approval_get_server(const IpyboxApproval *approval);

/**
 * @brief The parameters of the server, if it is not registered and the cell gave them.
 *
 * Packages made by mcpygen give them in a session without a sandbox. Show the parameters with the
 * question, because the cell chose the server's name.
 *
 * @param approval the request
 * @return a JSON object, such as `{"args":[…],"command":"npx"}` or `{"url":"https://…"}`, with
 *     `${NAME}` as written; owned by the request. NULL if the server is registered
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
 * @brief The whole request as text for a person.
 *
 * It has the tool, its arguments, and the server's parameters if the cell gave them. The text has
 * lines, separated by newlines. Each argument is on a line of its own, which begins with two spaces
 * and the argument's name as a JSON string. Characters that are invisible, or that change how
 * others look, are written as JSON escapes. So no argument can look like another line, and equal
 * texts mean equal calls. Show the whole text before you accept an answer.
 *
 * @param approval the request
 * @return UTF-8 without control characters except newline; owned by the request. NULL if it is
 *     longer than 1 MiB: refuse the request
 */
IPYBOX_EXPORT const char *ipybox_approval_get_question(IpyboxApproval *approval);

/**
 * @brief Answers the request.
 *
 * @param approval the request
 * @param accept whether the call may run
 * @return whether it still waited: FALSE if it was answered before, if its time limit was exceeded,
 *     and if the call or the session has ended
 */
IPYBOX_EXPORT gboolean ipybox_approval_respond(IpyboxApproval *approval, gboolean accept);

/**
 * @brief Adds a reference, which keeps the request after the callback that received it.
 *
 * @param approval the request
 * @return @p approval, to be released with ipybox_approval_unref()
 */
IPYBOX_EXPORT IpyboxApproval *ipybox_approval_ref(IpyboxApproval *approval);

/**
 * @brief Releases a reference.
 *
 * A request that gets no answer waits until its time limit is exceeded.
 *
 * @param approval the request, or NULL
 */
IPYBOX_EXPORT void ipybox_approval_unref(IpyboxApproval *approval);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxApproval, ipybox_approval_unref)

G_END_DECLS
