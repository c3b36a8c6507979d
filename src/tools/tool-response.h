/* SPDX-License-Identifier: Apache-2.0
 *
 * The answers to POST /run (docs/internals/tool-channel.md). Each function ends the request.
 */
#pragma once

#include "http/server.h"
#include "tools/tool-result.h"

/* Sends {"result": @result}, or {"tool_result": @result} with a whole result. @result is not
 * copied. If too many results wait to be read, an error is sent instead. */
void ipb_tool_response_send_result(IpbHttpRequest *request, GBytes *result, IpbToolResultForm form);
/* Sends {"error": message, "error_type": of the error's code}. The status is 200, because the
 * request itself was handled. */
void ipb_tool_response_send_failure(IpbHttpRequest *request, const GError *error);
/* Answers POST /approve with status 200: {"approved": true, "result": true}, or with @error
 * {"approved": false} and the members of a failure. */
void ipb_tool_response_send_decision(IpbHttpRequest *request, const GError *error);
/* Sends {"error": message} with status 400 and closes the connection. */
void ipb_tool_response_refuse(IpbHttpRequest *request, const GError *error);
