/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolResponse: an answer of the tool channel, and how much of it is written. A result is
 * written from where it lies: it may be large, and is not copied. Plain struct, owned by value; all
 * zero is none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "json/json.h"

#define IPB_TOOL_RESPONSE_MAX_HEAD 256

typedef struct {
    char head[IPB_TOOL_RESPONSE_MAX_HEAD];
    GBytes *body;
    IpbSpan parts[3]; /* the head, the body, the end */
    size_t at;        /* bytes written */
    size_t size;      /* of all parts */
} IpbToolResponse;

/* {"result": @result} */
void ipb_tool_response_set_result(IpbToolResponse *response, GBytes *result, bool is_last);
/* {"error": message, "error_type": of the error's code} */
void ipb_tool_response_set_failure(IpbToolResponse *response, const GError *error, bool is_last);
/* {"error": @message, "error_type": @type}; @type may be NULL. */
void ipb_tool_response_set_error(IpbToolResponse *response, unsigned status, const char *message,
                                 const char *type, bool is_last);
/* Writes what @fd takes now; false when it never will. */
bool ipb_tool_response_write(IpbToolResponse *response, int fd);
void ipb_tool_response_clear(IpbToolResponse *response);
