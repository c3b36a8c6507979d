/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a request's target, from hostile peers: path and query, percent-decoded. Pure.
 */
#pragma once

#include "http/request-head.h"

/* The path of a target, without the query. */
IpbSpan ipb_http_target_path(IpbSpan target);
/* Decodes %XX (and, in queries, '+'); NULL if the result is no UTF-8 or holds a control character, or if a '%' is not followed by two
 * hex digits. */
char *ipb_http_target_decode(IpbSpan text, bool is_query);
/* The first parameter @name of the target's query, decoded; NULL if there is none, or it cannot be decoded. */
char *ipb_http_target_query(IpbSpan target, const char *name);
