/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the target of a hostile peer's request: path and query, percent-decoded. Pure.
 */
#pragma once

#include "http/request-head.h"

/* The path of a target, without the query. */
IpbSpan ipb_http_target_path(IpbSpan target);
/* Decodes %XX and, in queries, '+'. NULL if the result is no UTF-8 or has a control character, or
 * if a '%' is not followed by two hex digits. Caller frees. */
char *ipb_http_target_decode(IpbSpan text, bool is_query);
/* The first parameter @name of the target's query, decoded; NULL if there is none or it cannot be
 * decoded. Caller frees. */
char *ipb_http_target_query(IpbSpan target, const char *name);
