/* SPDX-License-Identifier: Apache-2.0
 *
 * What a caller of POST /run is told (docs/internals/tool-channel.md). Each of these ends the request.
 */
#pragma once

#include "http/server.h"
#include "tools/tool-result.h"

/* {"result": @result}, or {"tool_result": @result} of a whole one, which is not copied; an error instead if too many
 * results wait to be read. */
void ipb_tool_response_send_result(IpbHttpRequest *request, GBytes *result, IpbToolResultForm form);
/* {"error": message, "error_type": of the error's code}, with status 200: it is what became of the call. */
void ipb_tool_response_send_failure(IpbHttpRequest *request, const GError *error);
/* Of POST /approve, with status 200: {"approved": true, "result": true}, or with @error {"approved": false} and what a failure
 * has. */
void ipb_tool_response_send_decision(IpbHttpRequest *request, const GError *error);
/* {"error": message} with status 400, and closes the connection. */
void ipb_tool_response_refuse(IpbHttpRequest *request, const GError *error);
